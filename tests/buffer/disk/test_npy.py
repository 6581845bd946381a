from __future__ import annotations

import io
import os
import re

import numpy as np
import pytest
from written import joined, stored

import multireplay as mr
from multireplay.buffer.disk.stored import StoredBuffer

ROWS = 5000


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "features.npy", rng.standard_normal((ROWS, 6)))
    np.save(tmp_path / "targets.npy", rng.standard_normal(ROWS))
    return tmp_path


def cut(path, size):
    with path.open("r+b") as file:
        file.truncate(size)


@pytest.mark.parametrize("row", [0, 1234, 4999])
@pytest.mark.parametrize("inside", [0, 1, 47])
def test_truncated(folder, row, inside):
    path = folder / "features.npy"
    cut(path, 128 + row * 48 + inside)
    with pytest.raises(mr.InputError, match=rf"features.npy ends after row {row} of 5000: it is cut short"):
        mr.Buffer.open(folder)


def test_truncated_feature_by_feature(folder):
    np.save(folder / "features.npy", np.asfortranarray(np.zeros((ROWS, 6))))
    cut(folder / "features.npy", 128 + 8 * (5 * ROWS + 17))
    with pytest.raises(mr.InputError, match=r"features.npy ends after row 17 of 5000"):
        mr.Buffer.open(folder)


@pytest.mark.parametrize("length", [0, 5, 40, 127])
def test_truncated_header(folder, length):
    cut(folder / "targets.npy", length)
    with pytest.raises(mr.InputError, match=r"targets.npy is not a .npy file that can be read: "):
        mr.Buffer.open(folder)


@pytest.mark.parametrize(
    "garbage", [b"not an array", b"\x93NUMPY\x01\x00\x10\x00{'descr': import}", b"\x93NUMPY\x07\x00"]
)
def test_corrupt_header(folder, garbage):
    (folder / "targets.npy").write_bytes(garbage + bytes(200))
    with pytest.raises(mr.InputError, match=r"targets.npy is not a .npy file that can be read: "):
        mr.Buffer.open(folder)


def test_more_than_the_header_says(folder):
    with (folder / "targets.npy").open("ab") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(mr.InputError, match=r"targets.npy has 40152 bytes of numbers, but its header says 40000"):
        mr.Buffer.open(folder)


def change(path):
    with path.open("r+b") as file:  # as long as before at every moment, since it is being read
        file.seek(-8, os.SEEK_END)
        file.write(np.array([7.0]).tobytes())
    os.utime(path, ns=(0, 0))  # two writes can fall into one tick of the clock


FAILURES = [
    (lambda path: path.unlink(), r"targets.npy (disappeared|has disappeared)"),
    (lambda path: cut(path, 20_000), r"targets.npy (ends after row|has changed since)"),
    (change, r"targets.npy has changed since it was opened \(noticed at row \d+, counting from 0\)"),
]


@pytest.mark.parametrize(("harm", "message"), FAILURES)
def test_harmed_half_way(folder, harm, message):
    buffer = stored(folder, rows=100)
    blocks = buffer.blocks()
    next(blocks)
    harm(folder / "targets.npy")
    with pytest.raises(mr.InputError, match=message):
        list(blocks)


@pytest.mark.parametrize("use", [lambda b: b.load(), lambda b: b.take([1, 2]), lambda b: list(b.blocks())])
@pytest.mark.parametrize(("harm", "message"), FAILURES)
def test_harmed_before_reading(folder, harm, message, use):
    buffer = stored(folder, rows=100)
    harm(folder / "targets.npy")
    with pytest.raises(mr.InputError, match=message):
        use(buffer)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_value_that_is_not_finite(tmp_path, value, dtype):
    values = np.zeros((ROWS, 6), dtype)
    values[3210, 4] = value
    np.save(tmp_path / "features.npy", values)
    said = re.escape(f"features.npy holds {value} in column 'features' at row 3210, feature 4 (counting from 0)")
    buffer = stored(tmp_path, rows=100)
    for use in (
        lambda: mr.Buffer.open(tmp_path),
        lambda: list(buffer.blocks()),
        lambda: buffer.take([17, 3210, 5]),
        lambda: list(stored(tmp_path, {"features": "features", "next_features": ("features", 1)}, rows=7).blocks()),
    ):
        with pytest.raises(mr.InputError, match=said):
            use()


def test_sums_that_overflow_are_finite_values(tmp_path):
    np.save(tmp_path / "a.npy", np.full(1000, 3e38, np.float32))
    assert (joined(stored(tmp_path))["a"] == np.float32(3e38)).all()


def test_a_byte_that_is_no_boolean(tmp_path):
    np.save(tmp_path / "flags.npy", np.zeros(1000, np.bool_))
    content = bytearray((tmp_path / "flags.npy").read_bytes())
    content[128 + 7] = 2
    (tmp_path / "flags.npy").write_bytes(content)
    with pytest.raises(mr.InputError, match=r"flags.npy is corrupt: a byte at row 7"):
        mr.Buffer.open(tmp_path)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((2, 2, 2)), "samples.npy has 3 dimensions"),
        (np.array(3.0), "samples.npy has 0 dimensions"),
        (np.zeros((0, 3)), r"samples.npy is empty: its shape is \(0, 3\)"),
        (np.zeros((3, 0)), r"samples.npy is empty: its shape is \(3, 0\)"),
        (np.zeros(3, complex), "samples.npy has dtype complex128"),
        (np.array(["a"]), "samples.npy has dtype <U1"),
        (np.zeros(2, [("a", float)]), "samples.npy has dtype "),
        (np.array([None, 1], object), "samples.npy has dtype object"),
    ],
)
def test_arrays_that_are_no_columns(tmp_path, array, message):
    np.save(tmp_path / "samples.npy", array, allow_pickle=True)
    with pytest.raises(mr.InputError, match=message):
        mr.Buffer.open(tmp_path / "samples.npy")


def test_lengths_differ(folder):
    np.save(folder / "targets.npy", np.zeros(7))
    with pytest.raises(mr.InputError, match="features has 5000 and targets has 7"):
        mr.Buffer.open(folder)


def test_version_two_header(tmp_path):
    values = np.arange(10.0)
    file = io.BytesIO()
    np.lib.format.write_array(file, values, version=(2, 0))
    (tmp_path / "a.npy").write_bytes(file.getvalue())
    assert (mr.Buffer.open(tmp_path)["a"] == values).all()


def test_bare_array(tmp_path):
    values = np.random.default_rng(0).standard_normal((50, 6))
    path = tmp_path / "record.npy"
    np.save(path, values)
    assert (mr.Buffer.open(path)["samples"] == values).all()
    for buffer in (
        mr.Buffer.open(path, {"features": slice(0, 5), "targets": 5, "two": [-1, 0], "next": (slice(0, 5), 1)}).columns,
        joined(stored(path, {"features": slice(0, 5), "targets": 5, "two": [-1, 0], "next": (slice(0, 5), 1)}, rows=8)),
        stored(path, {"features": slice(0, 5), "targets": 5, "two": [-1, 0], "next": (slice(0, 5), 1)}).take(range(49)),
    ):
        assert np.array_equal(buffer["features"], values[:-1, :5])
        assert np.array_equal(buffer["targets"], values[:-1, 5])
        assert np.array_equal(buffer["two"], values[:-1, [5, 0]])
        assert np.array_equal(buffer["next"], values[1:, :5])


def test_large_array_stays(folder):
    assert isinstance(mr.Buffer.open(folder / "features.npy", memory="350 kB"), StoredBuffer)
