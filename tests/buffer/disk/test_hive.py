"""Folders of files: keys of folders as columns, many small files, and borders between them that make no difference."""

from __future__ import annotations

import os
import resource

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from written import joined, stored

import multireplay as mr
from multireplay.buffer.disk.hive import table_files

TRANSITIONS = {"features": ["x", "one"], "next_features": (["x", "one"], +1), "rewards": "r"}


def table(rows, seed=3, **more):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(rows)
    return pa.table({"x": x, "one": np.ones(rows), "r": 2 * x + rng.standard_normal(rows), **more})


def put(path, data, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(data, path, **options)


def cut(whole, folder, ends):
    """One table as several files."""
    for number, (first, last) in enumerate(zip((0, *ends), (*ends, whole.num_rows), strict=True)):
        put(folder / f"part-{number}.parquet", whole.slice(first, last - first))


def test_keys_are_columns_in_the_natural_order_of_paths(tmp_path):
    for year, month, rows in ((2024, "01", 3), (2023, "9", 2), (2023, "10", 4)):
        put(tmp_path / f"year={year}" / f"month={month}" / "b.parquet", table(rows, place=["n"] * rows))
    (tmp_path / "_SUCCESS").write_text("")
    wanted = {"year": "year", "x": "x", "month": "month"}
    for found in (mr.Buffer.open(tmp_path, wanted).columns, joined(stored(tmp_path, wanted, rows=2))):
        np.testing.assert_array_equal(found["year"], [2023] * 6 + [2024] * 3)
        np.testing.assert_array_equal(found["month"], [9] * 2 + [10] * 4 + [1] * 3)
        np.testing.assert_array_equal(found["x"][2:6], table(4).column("x").to_numpy())
    np.testing.assert_array_equal(mr.Buffer.open(tmp_path, {"m": "month"})["m"], [9] * 2 + [10] * 4 + [1] * 3)
    np.testing.assert_array_equal(stored(tmp_path, {"m": "month"}).take([8, 0, 3])["m"], [1, 9, 10])
    with pytest.raises(
        mr.InputError, match=r"year=2024.month=01.b.parquet has month = 1 at row 0 .*after 10 in the la"
    ):
        mr.Buffer.open(tmp_path, {"x": "x"}, time="month")


def test_a_file_that_moves_to_another_key_is_another_record(tmp_path):
    put(tmp_path / "k=1" / "a.parquet", table(20))
    one = stored(tmp_path, {"k": "k"})
    before = one.fingerprint(), stored(tmp_path, {"x": "x"}).fingerprint()
    (tmp_path / "k=1").rename(tmp_path / "k=2")
    assert stored(tmp_path, {"k": "k"}).fingerprint() != before[0]
    assert stored(tmp_path, {"x": "x"}).fingerprint() == before[1]
    with pytest.raises(mr.InputError, match=r"k=1.a.parquet disappeared"):
        joined(one)


def test_keys_that_are_text_tell_groups_apart(tmp_path):
    for place in ("south", "north%20east"):
        put(tmp_path / f"place={place}" / "a.parquet", table(20))
    found = mr.Buffer.open(tmp_path, TRANSITIONS, groups="place")
    assert found.groups.tolist() == ["north east"] * 19 + ["south"] * 19
    with pytest.raises(mr.InputError, match=r"column 'place' of .* holds string, which is not real numbers"):
        mr.Buffer.open(tmp_path)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (("year=1/a.parquet", "b.parquet"), "has a folder year=1 besides Parquet files"),
        (("year=1/a.parquet", "other/b.parquet"), "has a folder other besides Parquet files"),
        (("year=1/a.parquet", "month=2/b.parquet"), r"month=2.b.parquet is in folders of month, but .* of year"),
        (
            ("year=1/x=1/a.parquet", "year=2/b.parquet"),
            r"a.parquet is in folders of year/x, but .*b.parquet in .* year",
        ),
        (("x=1/a.parquet",), r"a.parquet has a column 'x', which is a key of its folders too"),
        (("2024/a.parquet",), "has no .npy or Parquet files in it, but 2024"),
    ],
)
def test_folders_that_do_not_fit_together(tmp_path, files, said):
    for file in files:
        put(tmp_path / file, table(5))
    with pytest.raises(mr.InputError, match=said):
        mr.Buffer.open(tmp_path)


def test_a_key_with_nothing(tmp_path):
    for value in ("3", "__HIVE_DEFAULT_PARTITION__"):
        put(tmp_path / f"k={value}" / "a.parquet", table(5))
    with pytest.raises(
        mr.InputError, match=r"k=__HIVE_DEFAULT_PARTITION__.a.parquet has nothing in column 'k' at row 0"
    ):
        mr.Buffer.open(tmp_path)


def test_many_small_files_need_few_open_ones(tmp_path):
    rng = np.random.default_rng(5)
    values = rng.standard_normal((600, 10))
    for number, rows in enumerate(values):
        put(tmp_path / f"day={number // 20}" / f"part-{number}.parquet", pa.table({"a": rows}))
    before, most = resource.getrlimit(resource.RLIMIT_NOFILE), len(os.listdir("/proc/self/fd")) + 30
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, before[1]))
    try:
        buffer = stored(tmp_path, {"a": "a", "day": "day"}, rows=100)
        found = joined(buffer)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    np.testing.assert_array_equal(found["a"], values.ravel())
    np.testing.assert_array_equal(found["day"], np.repeat(np.arange(30), 200))
    rows = rng.permutation(6000)[:50]
    np.testing.assert_array_equal(buffer.take(rows)["a"], values.ravel()[rows])
    assert len(table_files(tmp_path).files) == 600


@pytest.mark.parametrize("ends", [(1, 2, 59), (25,), (20, 21, 22, 40), tuple(range(1, 60))])
@pytest.mark.parametrize("how", [{}, {"groups": "id"}, {"time": "t"}, {"groups": "id", "time": "t"}])
def test_borders_between_files_make_no_difference(tmp_path, ends, how):
    times = np.arange(60)
    times[20:] += 50  # a gap, at the border of two files in one case and within one in others
    times[25:] -= 0 if "groups" not in how else 40
    whole = table(60, id=np.repeat([0, 1, 2], [25, 20, 15]), t=times)
    put(tmp_path / "one.parquet", whole)
    cut(whole, tmp_path / "parts", ends)
    one, parts = (mr.Buffer.open(tmp_path / name, TRANSITIONS, **how) for name in ("one.parquet", "parts"))
    for name in TRANSITIONS:
        np.testing.assert_array_equal(parts[name], one[name])
    if how:
        np.testing.assert_array_equal(parts.chains.numbers, one.chains.numbers)
        assert parts.chains.sentences == one.chains.sentences
    streamed = joined(stored(tmp_path / "parts", TRANSITIONS, rows=7))
    for name in TRANSITIONS:
        np.testing.assert_array_equal(streamed[name], mr.Buffer.open(tmp_path / "one.parquet", TRANSITIONS)[name])


def test_transitions_of_files_are_solved_as_those_of_one(tmp_path):
    whole = table(5000)
    put(tmp_path / "one.parquet", whole)
    cut(whole, tmp_path / "parts", (7, 1300, 1301, 4000))
    problem = mr.PolicyEvaluation(0.9)
    one, parts = (
        mr.solve(problem, stored(tmp_path / name, TRANSITIONS, rows=500)) for name in ("one.parquet", "parts")
    )
    np.testing.assert_array_equal(one.x, parts.x)
    np.testing.assert_array_equal(one.standard_error, parts.standard_error)


def test_files_out_of_time_order_are_both_named(tmp_path):
    whole = table(60, id=["a"] * 60, t=np.arange(60), day=[f"2024-01-{1 + row // 2:02}" for row in range(60)])
    cut(whole.take(np.r_[0:20, 40:60, 20:40]), tmp_path, (20, 40))
    said = r"part-2.parquet has t = 20 at row 0 \(counting from 0\), after 59 in the last row of .*part-1.parquet"
    with pytest.raises(mr.InputError, match=said):
        mr.Buffer.open(tmp_path, TRANSITIONS, time="t")
    for how in ({"groups": "id", "time": "t"}, {"time": "day"}):
        with pytest.raises(mr.InputError, match=r"at row 0 of .*part-2.parquet .* at row 19 of .*part-1.parquet"):
            mr.Buffer.open(tmp_path, TRANSITIONS, **how)


def test_time_is_checked_within_groups_where_the_record_stays_on_disk(tmp_path):
    rows = 60_000
    times = np.arange(rows)
    times[41_000] = 5
    whole = table(rows, id=np.repeat([0, 1], rows // 2), t=times)
    wide = {f"x{k}": np.zeros(rows) for k in range(30)}
    cut(pa.table({**{name: whole.column(name) for name in whole.column_names}, **wide}), tmp_path, (20_000, 40_000))
    wanted = {"features": ["x", *wide]}
    with pytest.raises(mr.InputError, match=r"t is 5 at row 1000 of .*part-2.parquet"):
        mr.Buffer.open(tmp_path, wanted, memory="24 MB", groups="id", time="t")


def test_a_file_whose_index_changed_though_size_and_time_did_not(tmp_path):
    path = tmp_path / "a.parquet"
    put(path, table(100, seed=1))
    buffer, kept = stored(path, {"x": "x"}), os.stat(path)
    for seed in range(2, 50):
        put(path, table(100, seed=seed))
        if os.stat(path).st_size == kept.st_size:
            break
    os.utime(path, ns=(kept.st_atime_ns, kept.st_mtime_ns))
    assert os.stat(path).st_size == kept.st_size
    with pytest.raises(mr.InputError, match=r"a.parquet has changed since it was opened"):
        joined(buffer)


def test_groups_that_end_where_files_do_are_left_out_on_disk_as_in_one_file(tmp_path):
    rows = 40_000
    whole = table(rows, id=np.repeat([0, 1, 2, 3], [10_000, 5000, 15_000, 10_000]), t=np.arange(rows))
    wide = {f"x{k}": np.full(rows, float(k)) for k in range(40)}
    whole = pa.table({**{name: whole.column(name) for name in whole.column_names}, **wide})
    put(tmp_path / "one.parquet", whole)
    cut(whole, tmp_path / "parts", (10_000, 12_000, 15_000, 30_001))
    columns = {"features": ["x", "one", *wide], "next_features": (["x", "one", *wide], +1), "rewards": "r"}
    for how in ({"groups": "id"}, {"groups": "id", "time": "t"}):
        one, parts = (
            mr.Buffer.open(tmp_path / name, columns, memory="24 MB", **how) for name in ("one.parquet", "parts")
        )
        assert isinstance(parts, mr.StoredBuffer)
        assert len(parts) == len(one) == rows - 4  # a row less for the end of every group
        here, there = joined(one), joined(parts)
        for name in columns:
            np.testing.assert_array_equal(here[name], there[name])
