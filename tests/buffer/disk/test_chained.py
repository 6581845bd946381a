"""Transitions of several series in one file: none is made of two."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import multireplay as mr

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


def test_a_record_on_disk_is_refused_rather_than_joined(tmp_path):
    rng = np.random.default_rng(32)
    np.savez(tmp_path / "a.npz", x=rng.standard_normal((40_000, 40)), id=np.repeat([0, 1], 20_000))
    shifted = {"features": "x", "next_features": ("x", 1)}
    with pytest.raises(mr.InputError, match=r"1 rows of .* of two chains, the first at row 19999 .*memory="):
        mr.Buffer.open(tmp_path / "a.npz", shifted, memory="20 MB", groups="id")
    assert len(mr.Buffer.open(tmp_path / "a.npz", shifted, memory="70 MB", groups="id")) == 39_998
    whole = mr.Buffer.open(tmp_path / "a.npz", {"features": "x"}, memory="20 MB", groups="id")
    assert len(whole) == 40_000  # nothing is put together


def test_chains_too_short_for_the_shift_are_said(tmp_path):
    np.savez(tmp_path / "a.npz", **table(id=np.arange(60)))
    with pytest.raises(mr.InputError, match="every chain is too short"):
        mr.Buffer.open(tmp_path / "a.npz", TRANSITIONS, groups="id")
    with pytest.raises(mr.InputError, match="no column 'idd'"):
        mr.Buffer.open(tmp_path / "a.npz", TRANSITIONS, groups="idd")
