"""The online algorithm on states with a table, and what it says to sparse rows."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from reference import online_mer, td_operator
from sparse_records import DIM, STATES, random_rows

import multireplay as mr

RNG = np.random.default_rng(3)
TABLE = random_rows(RNG, STATES, DIM)
S = RNG.integers(0, STATES, 201)
REWARDS = RNG.standard_normal(200)
COLUMNS = {"states": S[:-1], "next_states": S[1:], "rewards": REWARDS}


@pytest.mark.parametrize("table", [TABLE, sp.csr_array(TABLE)], ids=["dense", "sparse"])
@pytest.mark.parametrize("constraint", [None, mr.sets.Box(-0.3, 0.3)])
def test_a_stream_of_states_against_the_literal_algorithm(table, constraint):
    problem = mr.PolicyEvaluation(0.7, table=table)
    run = mr.Online(problem, capacity=32, step=0.2, average="none", constraint=constraint)
    for t in range(40):  # single samples, then a block
        run.observe(states=S[t], next_states=S[t + 1], rewards=REWARDS[t])
    with pytest.warns(UserWarning, match="were not used"):
        run.observe(**{name: column[40:] for name, column in COLUMNS.items()})
    clip = (lambda x: x) if constraint is None else (lambda x: np.clip(x, -0.3, 0.3))
    stream = zip(TABLE[S[:-1]], TABLE[S[1:]], REWARDS, strict=True)
    steps = list(online_mer(stream, 32, td_operator(0.7), 0.2, 5, np.zeros(DIM), clip))
    ends = [x for k, t, x in steps if t == 2**k]
    assert run.done
    for epoch, expected in zip(run.epochs, ends, strict=True):
        assert np.allclose(epoch.last, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("table", [TABLE, sp.csr_array(TABLE)], ids=["dense", "sparse"])
def test_save_and_load(table, tmp_path):
    whole, half = (mr.Online(mr.PolicyEvaluation(0.7, table=table), capacity=32) for _ in range(2))
    parts = [{name: column[rows] for name, column in COLUMNS.items()} for rows in (slice(0, 61), slice(61, 94))]
    for part in parts:
        whole.observe(**part)
    half.observe(**parts[0])
    half.save(tmp_path / "run")
    half = mr.Online.load(tmp_path / "run")
    half.observe(**parts[1])
    assert np.array_equal(half.x, whole.x)
    assert np.array_equal(half.iterate, whole.iterate)


def test_sparse_rows_are_refused_with_a_way_out():
    run = mr.Online(mr.GLM(), capacity=32, step=0.1)
    with pytest.raises(
        mr.InputError, match=r"features is sparse; an online run stores dense rows. Give features.toarr"
    ):
        run.observe(features=sp.csr_array(np.eye(3)), targets=np.ones(3))


def test_a_bad_state_is_named():
    run = mr.Online(mr.PolicyEvaluation(0.7, table=TABLE), capacity=32)
    with pytest.raises(mr.InputError, match="column 'states' holds 99 at row 0"):
        run.observe(states=99, next_states=0, rewards=1.0)
