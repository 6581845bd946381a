from __future__ import annotations

import datetime
import decimal
import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from written import joined, stored, table

import multireplay as mr
from multireplay.buffer.disk import parquet

RNG = np.random.default_rng(0)


def part(rows, width=3, start=0):
    values = RNG.standard_normal((rows, width))
    return table({"features": values, "targets": values[:, 0].copy(), "t": np.arange(start, start + rows)}, "fixed")


@pytest.fixture
def folder(tmp_path):
    for number in (10, 2, 1):  # written in another order than that of their numbers
        pq.write_table(part(100, start=100 * number), tmp_path / f"part-{number}.parquet", row_group_size=30)
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / ".part-1.parquet.crc").write_text("")
    return tmp_path


def test_files_are_in_the_order_of_their_numbers(folder):
    expected = np.concatenate([np.arange(100 * n, 100 * n + 100) for n in (1, 2, 10)])
    assert np.array_equal(joined(stored(folder, rows=7))["t"], expected)
    assert np.array_equal(mr.Buffer.open(folder)["t"], expected)
    assert list(mr.Buffer.open(folder, time="t")) == ["features", "targets"]
    assert list(mr.Buffer.open(folder, {"t": "t"}, time="t")) == ["t"]


def test_files_out_of_order(folder):
    (folder / "part-10.parquet").rename(folder / "part-0.parquet")
    said = r"part-1.parquet has t = 100 at row 0 \(counting from 0\), after 1099 in the last row of .*part-0.parquet"
    with pytest.raises(mr.InputError, match=said):
        mr.Buffer.open(folder, time="t")


def test_rows_out_of_order(folder):
    times = np.arange(200, 300)
    times[57] = 7
    pq.write_table(part(100).set_column(2, "t", pa.array(times)), folder / "part-2.parquet")
    said = r"part-2.parquet has t = 7 at row 57 \(counting from 0\), after 256 in row 56 of the same file"
    with pytest.raises(mr.InputError, match=said):
        mr.Buffer.open(folder, time="t")


@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.date32(), pa.timestamp("ns", "UTC")])
def test_dates_say_the_order(tmp_path, kind):
    days = [datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(days=day) for day in range(5)]
    days = [day.date() for day in days] if kind == pa.date32() else days
    given = pa.table({"when": pa.array(days, kind), "a": [0.0, 1.0, 2.0, 3.0, 4.0]})
    path = tmp_path / "a.parquet"
    pq.write_table(given, path)
    assert list(mr.Buffer.open(path, time="when")) == ["a"]
    with pytest.raises(mr.InputError, match=r"column 'when' of .*a.parquet holds (timestamp|date).* not real numbers"):
        mr.Buffer.open(path)
    pq.write_table(given.take([0, 1, 3, 2, 4]), path)
    with pytest.raises(mr.InputError, match=r"not in time order: .*a.parquet has when = \d+ at row 3"):
        mr.Buffer.open(path, time="when")


@pytest.mark.parametrize("use", [lambda b: list(b.blocks()), lambda b: b.load(), lambda b: b.take([0, 150, 250])])
def test_a_file_that_disappears_or_changes(folder, use):
    buffer = stored(folder, rows=7)
    (folder / "part-2.parquet").rename(folder / "gone")
    with pytest.raises(mr.InputError, match=r"part-2.parquet disappeared while it was being read, at row \d+"):
        use(buffer)
    pq.write_table(part(100), folder / "part-2.parquet")
    with pytest.raises(mr.InputError, match=r"part-2.parquet has changed since it was opened"):
        use(buffer)


def test_a_file_that_disappears_half_way(folder):
    blocks = stored(folder, rows=7).blocks()
    next(blocks)
    (folder / "part-10.parquet").unlink()
    with pytest.raises(mr.InputError, match=r"part-10.parquet disappeared while it was being read, at row 0 "):
        list(blocks)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_truncated(folder, share):
    path = folder / "part-2.parquet"
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(mr.InputError, match=r"part-2.parquet cannot be read as Parquet: "):
        mr.Buffer.open(folder)


@pytest.mark.parametrize("options", [{"compression": "snappy"}, {"compression": "none"}, {"compression": "zstd"}])
def test_a_flipped_bit_is_noticed(tmp_path, options):
    """With page checksums every flipped bit in a page is noticed; in the rest the reader notices most by itself."""
    path = tmp_path / "a.parquet"
    columns = {"features": RNG.standard_normal((200, 4))}
    pq.write_table(table(columns, "fixed"), path, write_page_checksum=True, row_group_size=50, **options)
    right = path.read_bytes()
    group = pq.ParquetFile(path).metadata.row_group(2).column(0)
    first = group.dictionary_page_offset or group.data_page_offset
    for share in (0.3, 0.6, 0.95):
        content = bytearray(right)
        content[first + int(share * group.total_compressed_size)] ^= 16
        path.write_bytes(content)
        with pytest.raises(mr.InputError, match=r"a.parquet is corrupt at row \d+ or after it \(counting from 0\): "):
            mr.Buffer.open(path)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (
            part(100, width=4),
            r"column 'features' is fixed_size_list<.*>\[3\] in .*part-1.parquet, but .*\[4\] in .*part-2.pa",
        ),
        (part(100).drop_columns(["targets"]), r"part-2.parquet has no column 'targets', but .*part-1.parquet has one"),
        (
            part(100).append_column("x", pa.array(np.zeros(100))),
            r"part-1.parquet has no column 'x', but .*part-2.parquet",
        ),
        (
            part(100).set_column(1, "targets", pa.array(np.zeros(100, "f4"))),
            r"'targets' is double in .*1.*, but float in .*2",
        ),
    ],
)
def test_columns_that_change_between_files(folder, other, message):
    pq.write_table(other, folder / "part-2.parquet")
    with pytest.raises(mr.InputError, match=message):
        mr.Buffer.open(folder)


def test_lists_that_change_their_length(tmp_path):
    for number, width in enumerate((3, 3, 4)):
        pq.write_table(table({"a": RNG.standard_normal((20, width))}, "ragged"), tmp_path / f"{number}.parquet")
    with pytest.raises(mr.InputError, match=r"2.parquet holds a list of 4 numbers in column 'a' at row 0 .* hold 3"):
        mr.Buffer.open(tmp_path)
    one = pa.table({"a": pa.array([[1.0, 2.0]] * 9 + [[1.0]], pa.list_(pa.float64()))})
    pq.write_table(one, tmp_path / "one.parquet", row_group_size=4)
    with pytest.raises(mr.InputError, match=r"one.parquet holds a list of 1 numbers in column 'a' at row 9 "):
        mr.Buffer.open(tmp_path / "one.parquet")


MISSING = r"1 \(counting" if int(pa.__version__.split(".")[0]) >= 26 else "0 or after it"
"""Where a list of a fixed length is missing, as closely as Arrow lets one say it."""


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([1.0, None]), r"a.parquet has nothing in column 'a' at row 1 \(counting from 0\)"),
        (pa.array([[1.0, 2.0], None], pa.list_(pa.float64(), 2)), rf"has nothing in column 'a' at row {MISSING}"),
        (pa.array([[1.0, 2.0], [3.0, None]], pa.list_(pa.float64(), 2)), "has nothing in column 'a' at row 1"),
        (pa.array([[1.0, 2.0], [None, 3.0]], pa.list_(pa.float64())), "has nothing in column 'a' at row 1"),
        (pa.array([None, [3.0]], pa.list_(pa.float64())), "has nothing in column 'a' at row 0"),
        (pa.array([[], []], pa.list_(pa.float64())), "has nothing in column 'a' at row 0"),
        (pa.array([1.0, float("nan")]), r"a.parquet holds nan in column 'a' at row 1 \(counting from 0\)"),
        (pa.array(["x", "y"]), "column 'a' of .*a.parquet holds string, which is not real numbers"),
        (pa.array(["x", "y"]).dictionary_encode(), "holds dictionary<.*, which is not real numbers"),
        (pa.array([[[1.0]], [[1.0]]]), "holds list<.*, which is not real numbers"),
    ],
)
def test_columns_that_cannot_be_used(tmp_path, column, message):
    given = pa.table({"a": column, "b": [1.0, 2.0]})
    pq.write_table(given, tmp_path / "a.parquet")
    with pytest.raises(mr.InputError, match=message):
        mr.Buffer.open(tmp_path / "a.parquet")
    with pytest.raises(mr.InputError, match=message):
        mr.Buffer.open(tmp_path / "a.parquet", {"x": "a"})
    assert mr.Buffer.open(tmp_path / "a.parquet", {"x": "b"})["x"][1] == 2.0


@pytest.mark.parametrize("lists", [False, True])
def test_decimals_are_numbers(tmp_path, lists):
    cells = [decimal.Decimal("1.5"), decimal.Decimal("-2.5")]
    column = pa.array([[cell] for cell in cells] if lists else cells)
    pq.write_table(pa.table({"a": column}), tmp_path / "a.parquet")
    assert np.ravel(mr.Buffer.open(tmp_path / "a.parquet")["a"]).tolist() == [1.5, -2.5]


def test_numbers_in_a_dictionary(tmp_path):
    given = pa.table({"a": pa.array([1.5, 1.5, 2.5]).dictionary_encode(), "b": pa.array([True, False, True])})
    pq.write_table(given, tmp_path / "a.parquet")
    buffer = mr.Buffer.open(tmp_path / "a.parquet")
    assert buffer["a"].tolist() == [1.5, 1.5, 2.5]
    assert buffer["b"].tolist() == [True, False, True]


def test_columns_side_by_side_of_several_types(tmp_path):
    given = pa.table({"a": [1, 2], "b": [0.5, 1.5], "c": [[1.0, 2.0], [3.0, 4.0]]})
    given = given.set_column(2, "c", given["c"].cast(pa.list_(pa.float64(), 2)))
    pq.write_table(given, tmp_path / "a.parquet")
    buffer = mr.Buffer.open(tmp_path / "a.parquet", {"features": ["a", "c", "b"], "again": "a", "one": ["b"]})
    assert buffer["features"].tolist() == [[1.0, 1.0, 2.0, 0.5], [2.0, 3.0, 4.0, 1.5]]
    assert buffer["again"].tolist() == [1, 2]
    assert buffer["one"].tolist() == [[0.5], [1.5]]
    large = 2**60 + 1  # beside a float it is rounded, on its own it must not be
    pq.write_table(pa.table({"a": [large], "b": [0.5]}), tmp_path / "a.parquet")
    mixed = stored(tmp_path / "a.parquet", {"features": ["a", "b"], "states": "a"})
    assert joined(mixed)["states"].tolist() == [large]


def test_empty(tmp_path):
    pq.write_table(part(0), tmp_path / "a.parquet")
    with pytest.raises(mr.InputError, match=r"a.parquet is empty: it has no rows"):
        mr.Buffer.open(tmp_path / "a.parquet")
    pq.write_table(part(5), tmp_path / "b.parquet")
    assert len(mr.Buffer.open(tmp_path)) == 5  # an empty file among others is none
    pq.write_table(pa.table({"a": ["x"]}), tmp_path / "c.parquet")
    with pytest.raises(mr.InputError, match=r"c.parquet has no columns of numbers; it has a"):
        mr.Buffer.open(tmp_path / "c.parquet")
    two = pa.table([pa.array([1.0]), pa.array([1.0])], ["a", "a"])
    pq.write_table(two, tmp_path / "c.parquet")
    with pytest.raises(mr.InputError, match=r"c.parquet has two columns called 'a'"):
        mr.Buffer.open(tmp_path / "c.parquet")


def test_no_thread_is_left_by_an_error(folder):
    before = threading.active_count()
    (folder / "part-10.parquet").rename(folder / "part-0.parquet")
    with pytest.raises(mr.InputError) as caught:  # whose traceback keeps the frames
        mr.Buffer.open(folder, time="t")
    buffer = stored(folder, rows=7)
    (folder / "part-2.parquet").unlink()
    with pytest.raises(mr.InputError) as also:
        list(buffer.blocks())
    assert caught.value is not also.value
    assert threading.active_count() == before


def test_many_columns_are_compared_in_one_go():
    """Arrow makes the list of names anew whenever it is asked for: 16,000 columns took a minute and a half."""

    class Schema:
        asked = 0

        def __init__(self, schema):
            self.schema = schema

        @property
        def names(self):
            Schema.asked += 1
            return self.schema.names

        def __iter__(self):
            return iter(self.schema)

        def field(self, name):
            return self.schema.field(name)

        def equals(self, other):
            return False

    one = Schema(pa.schema([(f"c{place}", pa.float64()) for place in range(100)]))
    parquet._compare("a.parquet", one, "b.parquet", one)
    assert Schema.asked <= 4
