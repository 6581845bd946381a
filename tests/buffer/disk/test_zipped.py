from __future__ import annotations

import zipfile

import numpy as np
import pytest
from written import joined, stored

import multireplay as mr


@pytest.fixture(params=[np.savez, np.savez_compressed])
def archive(request, tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "run.npz"
    request.param(path, features=rng.standard_normal((2000, 6)), targets=rng.standard_normal(2000))
    return path


def test_truncated(archive):
    archive.write_bytes(archive.read_bytes()[:-200])
    with pytest.raises(mr.InputError, match=r"run.npz is not a complete .npz archive: "):
        mr.Buffer.open(archive)


@pytest.mark.parametrize("place", [0.1, 0.5, 0.8])
def test_a_flipped_bit_is_noticed(archive, place):
    expected = joined(stored(archive, rows=100))
    content = bytearray(archive.read_bytes())
    content[int(place * len(content))] ^= 8
    archive.write_bytes(content)
    for use in (
        lambda: mr.Buffer.open(archive),
        lambda: list(stored(archive, rows=100).blocks()),
        lambda: stored(archive).take([1999, 3]),  # neither of which need be damaged
    ):
        with pytest.raises(mr.InputError, match=r"run.npz: features.npy (is corrupt at|cannot be|holds nan).* row \d+"):
            use()
    assert np.array_equal(joined(stored(archive), ["targets"])["targets"], expected["targets"])  # that one is whole


def test_gone_or_changed_half_way(archive):
    buffer = stored(archive, rows=50)
    blocks = buffer.blocks()
    next(blocks)
    archive.unlink()
    with pytest.raises(mr.InputError, match=r"run.npz disappeared while it was being read, at row \d+"):
        list(blocks)
    with pytest.raises(mr.InputError, match=r"run.npz"):
        buffer.take([3])


def test_member_shorter_than_its_header(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(100))
    content = (tmp_path / "a.npy").read_bytes()
    with zipfile.ZipFile(tmp_path / "run.npz", "w") as archive:
        archive.writestr("a.npy", content[:-100])
        archive.writestr("notes.txt", "hello")
    with pytest.raises(mr.InputError, match=r"run.npz: a.npy ends after row 87 of 100"):
        mr.Buffer.open(tmp_path / "run.npz")


def test_nothing_in_it(tmp_path):
    with zipfile.ZipFile(tmp_path / "run.npz", "w") as archive:
        archive.writestr("notes.txt", "hello")
    with pytest.raises(mr.InputError, match=r"run.npz holds no arrays of numbers"):
        mr.Buffer.open(tmp_path / "run.npz")


def test_names_that_are_not_file_names(tmp_path):
    np.savez(tmp_path / "run.npz", **{"a/b": np.arange(3.0), "ψ": np.arange(3.0)})
    assert set(mr.Buffer.open(tmp_path / "run.npz").columns) == {"a/b", "ψ"}
