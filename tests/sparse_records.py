"""The same small record as dense, sparse and indexed columns, so that their answers can be compared."""

from __future__ import annotations

import numpy as np
import scipy.sparse

import multireplay as mr

DIM = 6
STATES = 9
ROWS = 37


def random_rows(rng, rows, dim, density=0.4, dtype=np.float64):
    """Sparse rows with an empty row and an empty column."""
    dense = np.where(rng.random((rows, dim)) < density, rng.standard_normal((rows, dim)), 0.0)
    dense[rows // 2] = 0.0
    dense[:, dim // 2] = 0.0
    return dense.astype(dtype)


def transitions(rng=None, rows=ROWS, dim=DIM, states=STATES, gamma=0.7, dtype=np.float64, **more):
    """{"dense", "sparse", "table", "sparse table"}: problem and buffer of each; `more` goes to the problem."""
    rng = np.random.default_rng(7) if rng is None else rng
    table = random_rows(rng, states, dim, dtype=dtype)
    s = rng.integers(0, states, rows + 1)
    outcome = {"rewards": rng.standard_normal(rows), "terminated": rng.random(rows) < 0.3}
    numbers = mr.Buffer(states=s[:-1], next_states=s[1:], **outcome)
    S = scipy.sparse.csr_array(table)[s]
    plain = mr.PolicyEvaluation(gamma, **more)
    return {
        "dense": (plain, mr.Buffer(features=table[s[:-1]], next_features=table[s[1:]], **outcome)),
        "sparse": (plain, mr.Buffer(features=S[:-1], next_features=S[1:], **outcome)),
        "table": (mr.PolicyEvaluation(gamma, table=table, **more), numbers),
        "sparse table": (mr.PolicyEvaluation(gamma, table=scipy.sparse.csr_array(table), **more), numbers),
    }


def regression(link, rng=None, rows=ROWS, dim=DIM, dtype=np.float64, **more):
    """{"dense", "sparse"}: problem and buffer of each."""
    rng = np.random.default_rng(7) if rng is None else rng
    A = random_rows(rng, rows, dim, dtype=dtype)
    y = (rng.random(rows) < 0.5).astype(np.float64)
    problem = mr.GLM(link, **more)
    return {
        "dense": (problem, mr.Buffer(features=A, targets=y)),
        "sparse": (problem, mr.Buffer(features=scipy.sparse.csr_array(A), targets=y)),
    }


def kinds(**more):
    """Every other kind with its dense counterpart: {name: ((dense problem, buffer), (problem, buffer))}."""
    found = {}
    for link in ("identity", "logistic"):
        pair = regression(link, **more)
        found[f"GLM {link}"] = pair["dense"], pair["sparse"]
    both = transitions(**more)
    return {**found, **{f"policy evaluation, {name}": (both["dense"], both[name]) for name in list(both)[1:]}}
