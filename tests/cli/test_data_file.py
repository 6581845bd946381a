"""Records in files: every format gives the same columns, and errors name the file, the column and the row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, feather, parquet

from multireplay.cli.data_file import DataFile
from multireplay.cli.model import ModelKind
from multireplay.cli.prepared import Missing, Wanted, prepare
from multireplay.errors import InputError


def wanted(target="heat", *features, kind=ModelKind.linear, **more):
    return Wanted(target, kind, features or None, **more)


def test_every_format_gives_the_same_columns(tmp_path, data, columns):
    table = csv.read_csv(data)
    parquet.write_table(table, tmp_path / "data.parquet", row_group_size=500)
    feather.write_feather(table, tmp_path / "data.feather")
    (tmp_path / "parts").mkdir()
    for part in range(4):
        parquet.write_table(table[1000 * part : 1000 * (part + 1)], tmp_path / "parts" / f"part-{part}.parquet")
    rows = np.column_stack([columns["z"], columns["x"]])
    for path in (data, tmp_path / "data.parquet", tmp_path / "data.feather", tmp_path / "parts"):
        record = DataFile.open(path, "1 GB")
        assert record.source.rows == len(rows)
        assert set(record.names) == set(columns)
        found = prepare(record, wanted("fails", "z", "x", kind=ModelKind.logistic, time="when"))
        assert np.array_equal(found.matrix, rows)
        assert found.targets.tolist() == columns["fails"].tolist()
        counts = prepare(record, wanted("count", "z", kind=ModelKind.logistic))
        assert counts.targets.tolist() == columns["count"].tolist()


def test_a_large_record_stays_on_disk(tmp_path):
    numbers = np.random.default_rng(0).standard_normal((100_000, 12))
    np.save(tmp_path / "samples.npy", numbers)
    record = DataFile.open(tmp_path / "samples.npy", "9 MB")
    blocks = list(record.batches(["samples"]))
    assert len(blocks) > 1
    assert [first for first, _ in blocks[:2]] == [0, blocks[0][1].num_rows]
    flat = np.concatenate([block.column("samples").flatten().to_numpy() for _, block in blocks])
    assert np.array_equal(flat.reshape(-1, 12), numbers)
    with pytest.raises(InputError, match="more than half of 9 MB; choose fewer columns, or give more memory"):
        record.table(["samples"])


def test_columns_with_several_numbers_a_row(tmp_path):
    psi = np.arange(12.0).reshape(4, 3)
    np.savez(tmp_path / "run.npz", psi=psi, y=[1.0, 0.0, 1.0, 1.0])
    record = DataFile.open(tmp_path / "run.npz", "1 GB")
    assert list(record.features) == ["psi[0]", "psi[1]", "psi[2]", "y"]
    assert prepare(record, wanted("y")).recipe.names == ("psi[0]", "psi[1]", "psi[2]")
    picked = prepare(record, wanted("psi[1]", "psi[2]", "y", "psi[0]"))
    assert np.array_equal(picked.matrix, np.column_stack([psi[:, 2], [1, 0, 1, 1], psi[:, 0]]))
    assert picked.targets.tolist() == psi[:, 1].tolist()
    with pytest.raises(InputError, match="several numbers a row"):
        prepare(record, wanted("psi", "y"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n,3\n", "1 of 2 rows cannot be used, the first at row 1 (counting from 0): 1 with nothing in 'a'"),
        ("a,b\n1,2\n-inf,3\n", "infinity in 'a'"),
        ("a,b\n1,2\nx7,3\n3,4\n", "text in 1 of 3 rows: 'x7' at row 1"),
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
        prepare(DataFile.open(path, "1 GB"), wanted("b", "a"))
    assert message in str(error.value)
    assert str(path) in str(error.value)


def test_rows_without_a_class_or_a_feature_are_dropped_when_asked(tmp_path):
    table = pa.table(
        {"n": [1.0, 2.0, None, 4.0, 5.0], "kind": pa.array(["u", None, "v", "v", "u"]).dictionary_encode()}
    )
    parquet.write_table(table, tmp_path / "data.parquet")
    record = DataFile.open(tmp_path / "data.parquet", "1 GB")
    found = prepare(record, wanted("kind", kind=ModelKind.logistic, missing=Missing.drop))
    assert found.targets.tolist() == ["u", "v", "u"]
    assert found.chains.starts.tolist() == [True, True, False]
    assert "Dropped 2 rows: 1 with nothing in 'n', 1 with nothing in 'kind'" in found.sentences()[0]
    with pytest.raises(InputError, match="2 of 5 rows cannot be used"):
        prepare(record, wanted("kind", kind=ModelKind.logistic))
    with pytest.raises(InputError, match="has no column 'kin'"):
        prepare(record, wanted("kin"))


def test_the_one_column_of_dates_is_the_time_and_what_numbers_the_rows_is_left_out(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"when": pd.date_range("2024-01-01", periods=40, freq="h"), "x": np.arange(40.0) % 7})
    frame["y"] = 2 * frame.x
    frame["name"] = [f"row {k}" for k in range(40)]
    frame.drop(index=[20]).reset_index(drop=True).to_csv(tmp_path / "a.csv")
    found = prepare(DataFile.open(tmp_path / "a.csv", "1 GB"), wanted("y"))
    assert found.time == "when"
    assert found.recipe.names == ("x",)
    assert set(found.left_out) == {"", "name"}
    assert found.chains.count == 2
    frame.set_index("when").to_parquet(tmp_path / "b.parquet")
    assert prepare(DataFile.open(tmp_path / "b.parquet", "1 GB"), wanted("y")).time == "when"
    frame.iloc[::-1].to_csv(tmp_path / "c.csv", index=False)
    with pytest.raises(InputError, match=r"not in time order: when is 2024-01-02 14:00 at row 1"):
        prepare(DataFile.open(tmp_path / "c.csv", "1 GB"), wanted("y"))
