from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import multireplay as mr


def test_what_cannot_be_opened(tmp_path):
    for path, message in (
        (tmp_path / "none.npy", "none.npy does not exist"),
        (tmp_path, "has no .npy or Parquet files in it, but nothing"),
    ):
        with pytest.raises(mr.InputError, match=message):
            mr.Buffer.open(path)
    (tmp_path / "notes.md").write_text("hello")
    with pytest.raises(mr.InputError, match=r"has no .npy or Parquet files in it, but notes.md"):
        mr.Buffer.open(tmp_path)
    with pytest.raises(mr.InputError, match=r"notes.md is none of .npy, .npz, .parquet, .feather, .csv"):
        mr.Buffer.open(tmp_path / "notes.md")
    pq.write_table(pa.table({"a": [1.0]}), tmp_path / "a.parquet")
    (tmp_path / "year=2020").mkdir()
    with pytest.raises(mr.InputError, match="has a folder year=2020 besides Parquet files"):
        mr.Buffer.open(tmp_path)
    np.save(tmp_path / "a.npy", np.zeros(3))
    with pytest.raises(mr.InputError, match=r"holds both .npy and Parquet files"):
        mr.Buffer.open(tmp_path)


def test_paths_as_text(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(3))
    assert len(mr.Buffer.open(str(tmp_path))) == 3


def test_what_is_no_file(tmp_path):
    (tmp_path / "a.npy").mkdir()
    with pytest.raises(mr.InputError, match=r"a.npy cannot be read: Is a directory"):
        mr.Buffer.open(tmp_path)
