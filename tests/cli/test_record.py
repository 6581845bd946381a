"""Records in files: every format gives the same columns, and errors name the file, the column and the row."""

from __future__ import annotations

import gzip

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, feather, parquet

from multireplay.cli.record import Record
from multireplay.errors import InputError


def test_every_format_gives_the_same_columns(tmp_path, data, columns):
    table = csv.read_csv(data)
    parquet.write_table(table, tmp_path / "data.parquet")
    feather.write_feather(table, tmp_path / "data.feather")
    csv.write_csv(table, tmp_path / "data.tsv", csv.WriteOptions(delimiter="\t"))
    with gzip.open(tmp_path / "data.csv.gz", "wb") as file:
        file.write(data.read_bytes())
    for path in [*tmp_path.iterdir()]:
        record = Record.read(path)
        assert record.names == tuple(columns)
        assert np.array_equal(record.matrix(["x", "count"]), np.column_stack([columns["x"], columns["count"]]))
        assert record.labels("fails").tolist() == columns["fails"].tolist()


def test_a_first_line_of_numbers_is_not_a_header(tmp_path):
    path = tmp_path / "bare.csv"
    path.write_text("1,2\n3,4\n")
    record = Record.read(path)
    assert record.names == ("f0", "f1")
    assert record.numbers("f0").tolist() == [1.0, 3.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n,3\n,4\n", "column 'a' has no number in row 2 and in 1 more;"),
        ("a,b\n1,2\nnan,3\n", "column 'a' has no number in row 2;"),
        ("a,b\n1,2\n-inf,3\n", "column 'a' is -inf in row 2;"),
        ("a,b\n1,2\nx7,3\n", "column 'a' holds 'x7' in row 2, not a number"),
        ("a,a\n1,2\n", "2 columns named 'a'"),
        ("a,b\n1,2,3\n", "cannot be read"),
        ("a,b\n", "has no rows"),
        ("", "cannot be read"),
        ("c,b\n1,2\n", "has no column 'a'; it has c, b"),
    ],
)
def test_errors_name_the_place(tmp_path, text, message):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        Record.read(path).numbers("a")
    assert message in str(error.value)
    assert str(path) in str(error.value)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        Record.read(tmp_path / "no.csv")
    (tmp_path / "data.xlsx").write_bytes(b"PK")
    with pytest.raises(InputError, match=r"must end in \.csv"):
        Record.read(tmp_path / "data.xlsx")
    (tmp_path / "data.parquet").write_bytes(b"nonsense")
    with pytest.raises(InputError, match="cannot be read"):
        Record.read(tmp_path / "data.parquet")


def test_time_order(tmp_path):
    times = np.array(["2024-01-01", "2024-01-01", "2024-01-03", "2024-01-02"], dtype="datetime64[s]")
    parquet.write_table(pa.table({"t": times, "f": [1.0, np.nan, 2.0, 3.0], "n": [1, 2, 2, 3]}), tmp_path / "t.parquet")
    record = Record.read(tmp_path / "t.parquet")
    record.check_order("n")
    with pytest.raises(InputError, match="goes back in row 4, from 2024-01-03 00:00:00 to 2024-01-02"):
        record.check_order("t")
    with pytest.raises(InputError, match="'f' is nan in row 2"):
        record.check_order("f")
