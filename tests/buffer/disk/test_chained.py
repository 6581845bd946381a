"""Transitions of several series in one file: none is made of two."""

from __future__ import annotations

import gc
import shutil
import tempfile
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import multireplay as mr
from multireplay.buffer.disk import StoredBuffer

TRANSITIONS = {"features": ["x", "one"], "next_features": (["x", "one"], +1), "rewards": "r"}


def table(**more):
    rng = np.random.default_rng(31)
    x = rng.standard_normal(60)
    return {"x": x, "one": np.ones(60), "r": 2 * x + rng.standard_normal(60), **more}


def by_hand(columns, chains):
    """The transitions within chains, which are lists of rows."""
    rows = np.column_stack([columns["x"], columns["one"]])
    now, then = (np.concatenate([np.array(chain)[part] for chain in chains]) for part in (slice(-1), slice(1, None)))
    return mr.Buffer(features=rows[now], next_features=rows[then], rewards=columns["r"][now])


def alike(found, wanted):
    for name in ("features", "next_features", "rewards"):
        np.testing.assert_array_equal(found[name], wanted[name])
    problem = mr.PolicyEvaluation(0.9)
    np.testing.assert_array_equal(problem.fit_exactly(found), problem.fit_exactly(wanted))


def test_no_transition_joins_two_groups(tmp_path):
    columns = table(id=["a"] * 25 + ["b"] * 35)
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    found = mr.Buffer.open(tmp_path / "a.parquet", TRANSITIONS, groups="id")
    alike(found, by_hand(columns, [range(25), range(25, 60)]))
    assert (found.chains.count, found.chains.left_out) == (2, 1)
    assert "1 row left out" in found.chains.sentences[-1]
    assert found.groups.tolist() == ["a"] * 24 + ["b"] * 34
    joined = mr.Buffer.open(tmp_path / "a.parquet", TRANSITIONS)
    assert len(joined) == 59


def test_series_that_take_turns_are_brought_together(tmp_path):
    columns = table(id=[0, 1, 2] * 20, t=np.repeat(np.arange(20), 3))
    np.savez(tmp_path / "a.npz", **columns)
    found = mr.Buffer.open(tmp_path / "a.npz", TRANSITIONS, groups="id", time="t")
    alike(found, by_hand(columns, [range(start, 60, 3) for start in range(3)]))
    assert found.chains.left_out == 2


def test_no_transition_goes_over_a_gap_or_a_time_that_is_there_twice(tmp_path):
    days = np.arange("2024-01-20", "2024-04-30", dtype="datetime64[D]")[:62]
    days = np.delete(days, [20, 21, 22])
    days = np.insert(days, 40, days[39])
    columns = table(day=days.astype("datetime64[s]"))
    texts = {**columns, "day": [f"{day.astype(object):%d/%m/%Y}" for day in days]}
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    csv.write_csv(pa.table(texts), tmp_path / "a.csv")
    for path in ("a.parquet", "a.csv"):
        found = mr.Buffer.open(tmp_path / path, TRANSITIONS, time="day")
        said = " ".join(found.chains.sentences)
        assert "first from 2024-02-08 to 2024-02-12" in said
        assert "there twice, first 2024-03-02 at row 40" in said
        wanted = by_hand(columns, [range(20), range(20, 40), range(40, 60)])
        assert found.chains.left_out == 2
        np.testing.assert_allclose(found["features"], wanted["features"])
        np.testing.assert_allclose(found["next_features"], wanted["next_features"])


def test_times_that_go_back_within_a_group_are_named(tmp_path):
    path = tmp_path / "a.csv"
    csv.write_csv(pa.table(table(id=["a"] * 25 + ["b"] * 35, t=[*range(25), *range(10), 8, *range(11, 35)])), path)
    with pytest.raises(mr.InputError, match=r"t is 8 at row 35 .* after 9 at row 34"):
        mr.Buffer.open(path, TRANSITIONS, groups="id", time="t")


def test_the_last_row_of_an_episode_that_ended_stays(tmp_path):
    over = np.zeros(60, dtype=bool)
    over[24] = True
    np.savez(tmp_path / "a.npz", **table(id=np.repeat([0, 1, 2], [25, 20, 15]), over=over))
    found = mr.Buffer.open(tmp_path / "a.npz", {**TRANSITIONS, "terminated": "over"}, groups="id")
    assert (len(found), found.chains.left_out) == (58, 1)
    assert found["terminated"].sum() == 1


ON_DISK = {"features": "x", "next_features": ("x", 1), "rewards": "r"}
LENGTHS = [9_000, 1, 6_000, 2, 2, 4_995, 20_000]


def grouped(path, ids=None, **more):
    """Three megabytes of several series, one after the other, and the transitions within them by hand."""
    rng, count = np.random.default_rng(32), sum(LENGTHS)
    x, r = rng.standard_normal((count, 8)), rng.standard_normal(count)
    labels = np.repeat(np.arange(len(LENGTHS)), LENGTHS)
    path.mkdir()
    for name, column in {"x": x, "r": r, "id": labels if ids is None else ids, **more}.items():
        np.save(path / f"{name}.npy", column)
    now = np.flatnonzero(np.append(labels[1:] == labels[:-1], False))
    return mr.Buffer(features=x[now], next_features=x[now + 1], rewards=r[now])


def from_disk(path, memory="5 MB", **more):
    return mr.Buffer.open(path, {**ON_DISK, **more}, memory=memory, groups="id")


def test_a_record_on_disk_joins_no_two_groups(tmp_path):
    wanted = grouped(tmp_path / "a")
    stored = from_disk(tmp_path / "a")
    assert (type(stored).__name__, len(stored), stored.left_out) == ("StoredBuffer", len(wanted), len(LENGTHS) - 1)
    assert "39993 rows (6 left out)" in repr(stored)
    inside = from_disk(tmp_path / "a", memory="100 MB")
    assert inside.chains.left_out == 6
    for name in wanted:
        np.testing.assert_array_equal(inside[name], wanted[name])
        for first in (0, 8_998, 8_999, 14_998, len(wanted) - 1):
            parts = list(stored.blocks([name], first))
            assert [start for start, _ in parts] == np.cumsum(
                [first, *(len(part[name]) for _, part in parts[:-1])]
            ).tolist()
            np.testing.assert_array_equal(np.concatenate([part[name] for _, part in parts]), wanted[name][first:])
    rows = np.random.default_rng(33).integers(len(wanted), size=500)
    np.testing.assert_array_equal(stored.take(rows)["next_features"], wanted["next_features"][rows])
    np.testing.assert_array_equal(stored.load()["next_features"], wanted["next_features"])
    assert stored.fingerprint() != mr.Buffer.open(tmp_path / "a", ON_DISK, memory="5 MB").fingerprint()
    stored.save(tmp_path / "saved")
    np.testing.assert_array_equal(mr.Buffer.open(tmp_path / "saved")["next_features"], wanted["next_features"])


@pytest.mark.parametrize("how", [{}, {"replay": mr.Serial()}, {"replay": mr.Shuffle(seed=1)}, {"replay": mr.Dyadic()},
                                 {"replay": mr.Multiscale()}, {"update": mr.Newton()}])  # fmt: skip
def test_and_gives_the_bits_of_the_transitions_in_memory(tmp_path, how):
    wanted = grouped(tmp_path / "a")
    problem = mr.PolicyEvaluation(0.9)
    here, there = (mr.solve(problem, buffer, **how) for buffer in (wanted, from_disk(tmp_path / "a")))
    np.testing.assert_array_equal(there.x, here.x)
    np.testing.assert_array_equal(there.uncertainty.standard_error, here.uncertainty.standard_error)


def test_a_regression_on_the_row_before_gives_the_same_bits_too(tmp_path):
    grouped(tmp_path / "a")
    names = {"features": ("x", -1), "targets": "r"}
    here, there = (mr.Buffer.open(tmp_path / "a", names, memory=memory, groups="id") for memory in ("100 MB", "5 MB"))
    assert (there.left_out, here.chains.left_out) == (6, 6)
    np.testing.assert_array_equal(*(mr.solve(mr.GLM(), buffer).x for buffer in (here, there)))


def test_on_disk_the_last_row_of_an_episode_that_ended_stays(tmp_path):
    over = np.zeros(sum(LENGTHS), dtype=bool)
    over[[8_999, 9_000]] = True
    grouped(tmp_path / "a", over=over)
    stored = from_disk(tmp_path / "a", terminated="over")
    assert stored.left_out == 4
    assert stored.take([8_999, 9_000, 9_001], ["terminated"])["terminated"].tolist() == [True, True, False]


@pytest.mark.parametrize("timed", [False, True])
def test_groups_on_disk_that_take_turns_are_brought_together(tmp_path, monkeypatch, timed):
    """Within the memory that is given, with the bits of the record in memory, and nothing stays behind."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    rows = sum(LENGTHS)
    ids = np.random.default_rng(4).integers(0, 3, rows)
    grouped(tmp_path / "a", ids=ids)
    np.save(tmp_path / "a" / "t.npy", np.arange(rows) + 5 * (np.arange(rows) > rows / 2))
    more = {"time": "t"} if timed else {}
    here, there = (
        mr.Buffer.open(tmp_path / "a", ON_DISK, memory=memory, groups="id", **more) for memory in ("100 MB", "5 MB")
    )
    assert isinstance(there, StoredBuffer)
    assert there.left_out == here.chains.left_out >= 2
    np.testing.assert_array_equal(there.load()["next_features"], here["next_features"])
    again = mr.Buffer.open(tmp_path / "a", ON_DISK, memory="5 MB", groups="id", **more)
    assert again.fingerprint() == there.fingerprint()
    np.testing.assert_array_equal(*(mr.solve(mr.PolicyEvaluation(0.9), buffer).x for buffer in (here, there)))
    del again, there
    gc.collect()
    assert not list((tmp_path / "temporary").iterdir())


def test_without_room_to_bring_groups_together_it_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=10))
    grouped(tmp_path / "a", ids=np.arange(sum(LENGTHS)) % 2)
    with pytest.raises(mr.InputError, match=r"take turns.*sort it by group, or set TMPDIR"):
        from_disk(tmp_path / "a")


def test_groups_on_disk_that_leave_nothing_are_said(tmp_path):
    grouped(tmp_path / "b", ids=np.arange(sum(LENGTHS)))
    with pytest.raises(mr.InputError, match="every chain is too short"):
        from_disk(tmp_path / "b")


def test_nothing_is_left_out_where_nothing_is_put_together(tmp_path):
    grouped(tmp_path / "a")
    whole = mr.Buffer.open(tmp_path / "a", {"features": "x", "targets": "r"}, memory="5 MB", groups="id")
    assert len(whole) == sum(LENGTHS)


def test_chains_too_short_for_the_shift_are_said(tmp_path):
    np.savez(tmp_path / "a.npz", **table(id=np.arange(60)))
    with pytest.raises(mr.InputError, match="every chain is too short"):
        mr.Buffer.open(tmp_path / "a.npz", TRANSITIONS, groups="id")
    with pytest.raises(mr.InputError, match="no column 'idd'"):
        mr.Buffer.open(tmp_path / "a.npz", TRANSITIONS, groups="idd")
