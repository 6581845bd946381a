from __future__ import annotations

import pickle
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest
from written import FORMS, joined, stored, write

import multireplay as mr
from multireplay.buffer.disk.stored import StoredBuffer


def test_writing_into_a_block_does_not_reach_the_next():
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "psi.npy", np.arange(20.0))
        buffer = stored(Path(folder), {"features": "psi", "next_features": ("psi", 2)}, rows=4)
        seen = []
        for _, block in buffer.blocks():
            seen.extend(block["features"].tolist())
            block["next_features"][:] = -1.0
    assert seen == np.arange(18.0).tolist()


def test_small_is_loaded_and_large_stays(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((1000, 10)))
    assert isinstance(mr.Buffer.open(tmp_path, memory=160_000), mr.Buffer)
    buffer = mr.Buffer.open(tmp_path, memory=159_998)
    assert isinstance(buffer, StoredBuffer)
    assert (buffer.memory, buffer.nbytes, buffer.names) == (159_998, 80_000, ("a",))
    assert repr(buffer) == "StoredBuffer(1000 rows, 80 kB on disk: a (1000, 10) float64)"
    assert len(list(buffer.blocks())) > 4
    assert "a" in buffer
    assert list(buffer) == ["a"]


def test_half_precision_and_foreign_byte_order(tmp_path):
    np.save(tmp_path / "half.npy", np.arange(10, dtype=np.float16))
    np.save(tmp_path / "swapped.npy", np.arange(10, dtype=">f8"))
    np.save(tmp_path / "long.npy", np.arange(10, dtype=np.longdouble))
    np.save(tmp_path / "states.npy", np.arange(10, dtype=">i4"))
    for buffer in (stored(tmp_path), pickle.loads(pickle.dumps(stored(tmp_path)))):
        found = joined(buffer)
        assert {name: array.dtype.str for name, array in found.items()} == {
            "half": "<f4", "long": "<f8", "states": "<i4", "swapped": "<f8",
        }  # fmt: skip
        assert all((array == np.arange(10)).all() for array in found.values())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda b: b["a"], r"buffer\['a'\] needs a buffer in memory, and this one of 160 bytes stays on disk"),
        (lambda b: b.blocks(["b"]), "no column 'b' in this buffer; it has a"),
        (lambda b: b.blocks([]), "names is empty"),
        (lambda b: b.blocks(first=3, last=2), "rows 3 to 2 are not in this buffer, which has rows 0 to 10"),
        (lambda b: b.blocks(last=11), "rows 0 to 11 are not in"),
        (lambda b: b.width("b"), "no column 'b'"),
        (lambda b: b.take([10]), "row 10 is not in this buffer, which has rows 0 to 9"),
        (lambda b: b.take([-1]), "row -1 is not in"),
        (lambda b: b.take([]), "rows must be a list of whole numbers, not float64"),
        (lambda b: b.take(np.array([], np.int64)), "rows is empty"),
        (lambda b: b.take([[1]]), "rows must be a list of whole numbers, not int64 of shape"),
    ],
)
def test_bad_calls(tmp_path, call, message):
    np.save(tmp_path / "a.npy", np.zeros((10, 2)))
    with pytest.raises(mr.InputError, match=message):
        call(stored(tmp_path))


def test_too_little_memory(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((100, 10)))
    with pytest.raises(mr.InputError, match=r"memory='4 kB' is too little to read .*; it needs at least 9.15 kB"):
        mr.Buffer.open(tmp_path, memory="4 kB")


@pytest.mark.parametrize("form", FORMS)
def test_no_thread_is_left(tmp_path, form):
    before = threading.active_count()
    path, mapping = write(form, tmp_path, {"a": np.zeros((200, 2))})
    buffer = stored(path, mapping)
    blocks = buffer.blocks()
    next(blocks)
    blocks.close()
    for _ in buffer.blocks():
        break
    list(buffer.blocks())
    assert threading.active_count() == before


def test_cost_of_random_access(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((1000, 100)))
    np.save(tmp_path / "b.npy", np.zeros(1000))
    roomy = stored(tmp_path)
    roomy.memory = 10**9
    # both columns fit in one lot, which is read in the order of the file
    assert "about as many bytes as one in order" in roomy.cost_of_random_access()
    tight = stored(tmp_path)
    tight.memory = 808_000 // 50
    ratio = (4096 + 799 + 4096 + 7) / 808
    assert (
        f"about {ratio:.3g} times the bytes of one in order: a row of 808 bytes in 2 arrays comes with the pages"
        in (tight.cost_of_random_access())
    )


def test_cost_of_random_access_in_row_groups(tmp_path):
    path, _ = write("lists", tmp_path, {"a": np.zeros((70, 2))})
    buffer = stored(path)
    buffer.memory = 10
    assert "about 7 times the bytes of one in order: a row of 16 bytes comes with all of its row group, of about 7" in (
        buffer.cost_of_random_access()
    )


def test_one_name_may_be_given_as_text(tmp_path):
    np.save(tmp_path / "ab.npy", np.arange(10.0))
    np.save(tmp_path / "c.npy", np.arange(10.0))
    assert list(joined(stored(tmp_path), "ab")) == ["ab"]
    assert list(stored(tmp_path).take([1], "c")) == ["c"]


def test_a_program_ends_though_a_stream_is_open(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(100_000))
    code = (
        "import sys, multireplay as mr\n"
        "blocks = mr.Buffer.open(sys.argv[1], memory='1 MB').blocks()\n"
        "print(next(blocks)[0])\n"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path], timeout=60, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")
