"""Records in files: every format gives the same columns, and errors name the file, the column and the row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from multireplay.cli.data_file import DataFile
from multireplay.errors import InputError


def test_every_format_gives_the_same_columns(tmp_path, data, columns):
    table = csv.read_csv(data)
    parquet.write_table(table, tmp_path / "data.parquet", row_group_size=500)
    (tmp_path / "parts").mkdir()
    for part in range(4):
        parquet.write_table(table[1000 * part : 1000 * (part + 1)], tmp_path / "parts" / f"part-{part}.parquet")
    wanted = np.column_stack([columns["z"], columns["x"]])
    for path in (data, tmp_path / "data.parquet", tmp_path / "parts"):
        record = DataFile.open(path, "1 GB")
        assert record.source.rows == len(wanted)
        assert set(record.names) == set(columns)
        assert np.array_equal(record.matrix(["z", "x"]), wanted)
        assert record.classes("fails").tolist() == columns["fails"].tolist()
        assert record.classes("count").tolist() == columns["count"].tolist()
        record.check_order("when")


def test_a_large_record_stays_on_disk(tmp_path):
    numbers = np.random.default_rng(0).standard_normal((100_000, 12))
    np.save(tmp_path / "samples.npy", numbers)
    record = DataFile.open(tmp_path / "samples.npy", "9 MB")
    blocks = list(record.blocks(["samples[3]", "samples[1]"]))
    assert len(blocks) > 1
    assert [first for first, _ in blocks[:2]] == [0, len(blocks[0][1])]
    assert np.array_equal(np.concatenate([block for _, block in blocks]), numbers[:, [3, 1]])
    with pytest.raises(InputError, match="more than half of 9 MB; choose fewer columns, or give more memory"):
        record.matrix(["samples[3]"])


def test_columns_with_several_numbers_a_row(tmp_path):
    psi = np.arange(12.0).reshape(4, 3)
    np.savez(tmp_path / "run.npz", psi=psi, y=[1.0, 0.0, 1.0, 1.0])
    record = DataFile.open(tmp_path / "run.npz", "1 GB")
    assert list(record.features) == ["psi[0]", "psi[1]", "psi[2]", "y"]
    assert record.expand("psi") == ["psi[0]", "psi[1]", "psi[2]"]
    assert np.array_equal(
        record.matrix(["psi[2]", "y", "psi[0]"]), np.column_stack([psi[:, 2], [1, 0, 1, 1], psi[:, 0]])
    )
    with pytest.raises(InputError, match="several numbers a row"):
        record.classes("psi")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n,3\n", "nothing in column 'a' at row 1"),
        ("a,b\n1,2\n-inf,3\n", "-inf"),
        ("a,b\n1,2\nx7,3\n", "holds 'x7' at row 1"),
        ("a,a\n1,2\n", "two columns called 'a'"),
        ("a,b\n1,2,3\n", "cannot be read as CSV"),
        ("a,b\n", "it has no rows"),
        ("1,2\n3,4\n", "names of its columns in the first line"),
        ("aa,b\n1,2\n", "has no column 'a'; did you mean 'aa'? it has aa, b"),
    ],
)
def test_errors_name_the_place(tmp_path, text, message):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        DataFile.open(path, "1 GB").matrix(["a"])
    assert message in str(error.value)
    assert str(path) in str(error.value)


def test_words(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("word,n\nyes,1\n,2\n")
    with pytest.raises(InputError, match="nothing in column 'word' at row 1"):
        DataFile.open(path, "1 GB").classes("word")
    table = pa.table({"n": [1, 2], "list": [["a"], ["b"]], "kind": pa.array(["u", "v"]).dictionary_encode()})
    parquet.write_table(table, tmp_path / "data.parquet")
    record = DataFile.open(tmp_path / "data.parquet", "1 GB")
    assert record.classes("kind").tolist() == ["u", "v"]
    with pytest.raises(InputError, match="neither words nor numbers"):
        record.classes("list")
    with pytest.raises(InputError, match="has no column 'kin'"):
        record.classes("kin")


def test_time_order(tmp_path):
    times = np.array(["2024-01-01", "2024-01-01", "2024-01-03", "2024-01-02"], dtype="datetime64[s]")
    parquet.write_table(pa.table({"t": times, "n": [1, 2, 2, 3], "word": list("abcd")}), tmp_path / "t.parquet")
    record = DataFile.open(tmp_path / "t.parquet", "1 GB")
    record.check_order("n")
    with pytest.raises(InputError, match=r"not in time order: .* at row 3"):
        record.check_order("t")
    with pytest.raises(InputError, match="'word'"):
        record.check_order("word")
