"""Transitions that a stream makes of single steps, against those made by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streaming.worlds import exact, same

import multireplay as mr

RNG = np.random.default_rng(0)
FEATURES, REWARDS = RNG.standard_normal((60, 2)), RNG.standard_normal(60)


def by_hand(groups, ended, breaks):
    """Every transition, in the order in which it is complete."""
    rows, last = [], {}
    for t, group in enumerate(groups):
        if t in breaks:
            last = {}
        if group in last:
            rows.append((FEATURES[last[group]], FEATURES[t], REWARDS[last[group]], False))
        last.pop(group, None)
        if ended[t]:
            rows.append((FEATURES[t], np.zeros(2), REWARDS[t], True))
        else:
            last[group] = t
    return [np.array(column) for column in zip(*rows, strict=True)]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(0, 2), min_size=60, max_size=60),
    st.lists(st.booleans(), min_size=60, max_size=60),
    st.sets(st.integers(1, 59), max_size=5),
)
def test_transitions_of_groups_with_gaps(groups, ended, breaks):
    problem = mr.PolicyEvaluation(0.7, ridge=0.1)
    blocks, single = mr.Stream(problem), mr.Stream(problem)
    edges = [0, *sorted(breaks), 60]
    for start, stop in itertools.pairwise(edges):
        cut = slice(start, stop)
        blocks.observe_many(
            features=FEATURES[cut], rewards=REWARDS[cut], terminated=np.array(ended)[cut], group=groups[cut]
        )
        for t in range(start, stop):
            single.observe(features=FEATURES[t], rewards=REWARDS[t], terminated=ended[t], group=groups[t])
        blocks.break_here()
        single.break_here()
    assert same(blocks.state(), single.state())
    assert blocks.position == 60
    features, following, rewards, terminated = by_hand(groups, ended, breaks)
    columns = {"features": features, "next_features": following, "rewards": rewards, "terminated": terminated}
    assert np.allclose(blocks.x, exact(problem, columns))


def test_a_break_of_one_group_leaves_the_others():
    stream = mr.Stream(mr.PolicyEvaluation(0.5))
    for group in (1, 2):
        stream.observe(features=[1.0], rewards=1.0, group=group)
    stream.break_here(1)
    again = mr.Stream.from_state(mr.PolicyEvaluation(0.5), stream.state())
    for one in (stream, again):
        one.observe(features=[[1.0], [1.0]], rewards=[1.0, 1.0], group=[1, 2])
        assert one.position == 4
        assert one.result().rows == 1
    with pytest.raises(mr.InputError, match="whole number"):
        stream.observe(features=[1.0], rewards=1.0, group="north")


def test_sensors_have_times_of_their_own():
    """Rows of one sensor come in order of time, and need not with those of another; one by one and together."""
    rng = np.random.default_rng(43)
    features, groups = rng.standard_normal((200, 2)), rng.integers(3, size=200)
    times = np.arange(200.0) - 30.0 * groups
    rows = {"features": features, "targets": features[:, 0] + rng.standard_normal(200), "time": times, "group": groups}
    streams = [mr.Stream(mr.GLM(), clock="time", window=150.0) for _ in range(3)]
    streams[0].observe_many(rows)
    for row in range(200):
        streams[1].observe(**{name: column[row] for name, column in rows.items()})
    streams[2].observe_many({name: column[:90] for name, column in rows.items()})
    streams[2] = mr.Stream.from_state(mr.GLM(), streams[2].state())
    streams[2].observe_many({name: column[90:] for name, column in rows.items()})
    assert all(same(stream.state(), streams[0].state()) for stream in streams)
    alone = mr.Stream(mr.GLM(), clock="time", window=150.0)
    alone.observe_many({**rows, "group": None, "time": np.maximum.accumulate(times)})
    assert np.array_equal(alone.x, streams[0].x)
    for late in ({"group": 1, "time": times[groups == 1].max() - 1}, {"time": times[groups == 0].max() - 1}):
        with pytest.raises(mr.InputError, match="time falls"):
            streams[0].observe(features=features[0], targets=0.0, **late)


@pytest.mark.parametrize(
    "bad",
    [
        {"features": [1.0, 2.0, 3.0], "rewards": 1.0},
        {"features": [1.0, 2.0], "rewards": 1.0, "terminated": False},
        {"features": [1.0, 2.0], "rewards": 1.0, "weights": -1.0},
    ],
)
@pytest.mark.parametrize("before", ["nothing", "a step", "a transition", "a gap"])
def test_a_step_that_cannot_be_used_is_refused_when_it_comes(bad, before, tmp_path):
    """And not the next one, for ever, with which it would be a transition."""
    good = {"features": [1.0, 2.0], "rewards": 1.0}
    known = ["nothing", "a step", "a transition", "a gap"].index(before)
    for how in ("refuse", "quarantine"):
        stream = mr.Stream(mr.PolicyEvaluation(0.5), store=tmp_path / how, bad=how)
        for _ in range(known):
            stream.observe(**good)
        if before == "a gap":
            stream.break_here()
        if known or "weights" in bad:
            if how == "refuse":
                with pytest.raises(mr.InputError):
                    stream.observe(**bad)
            else:
                stream.observe(**bad, group=1)
                assert stream.quarantined == 1
        for _ in range(3):
            stream.observe(**good)
            stream.observe(**good, group=1)
        stream.close()
        state = mr.Stream.open(tmp_path / how, read_only=True).state()
        assert same(state, stream.state())
