"""Problems that run one row at a time and over batches, their data in arrays of any library, and a comparison."""

from __future__ import annotations

import numpy as np
from every_set import DIM
from own_operators import rotation
from reference import LINKS

import multireplay as mr
from multireplay.buffer import foreign as arrays

ROWS = 21
ALL = mr.Multiscale(phases="all")


def rotation_of_rows(X, batch):
    turn = arrays.like(np.kron(np.eye(DIM // 2), [[1.0, -1.0], [1.0, 1.0]]), X)
    return X @ turn.T - batch


def softened(z):
    return z / (1.0 + abs(z))


def make_data(rows=ROWS, dtype=np.float64, weighted=False):
    rng = np.random.default_rng(7)
    F = rng.standard_normal((rows + 1, DIM))
    weights = {"weights": rng.random(rows)} if weighted else {}
    return weights | {
        "features": F[:-1].astype(dtype),
        "next_features": F[1:].astype(dtype),
        "rewards": rng.standard_normal(rows),
        "terminated": rng.random(rows) < 0.3,
        "targets": rng.random(rows) < 0.5,
        "samples": rng.standard_normal((rows, DIM)).astype(dtype),
    }


def buffer_of(library=np.array, **options):
    return mr.Buffer(**{name: library(column) for name, column in make_data(**options).items()})


GLMS = {link: (mr.GLM(link), mr.GLM(link)) for link in LINKS}
PROBLEMS = {
    **GLMS,
    "own link": (mr.GLM(softened), mr.GLM(softened)),
    "weighted": (mr.GLM("logistic", ridge=0.3, unpenalized=2), mr.GLM("logistic", ridge=0.3, unpenalized=2)),
    "policy evaluation": (mr.PolicyEvaluation(0.7), mr.PolicyEvaluation(0.7)),
    "penalized": (mr.PolicyEvaluation(0.7, ridge=0.4), mr.PolicyEvaluation(0.7, ridge=0.4)),
    "own operator": (
        mr.VariationalInequality(rotation, dim=DIM),
        mr.VariationalInequality(rotation_of_rows, dim=DIM, batched=True),
    ),
}


def assert_same(one, other, tolerance=1e-12):
    assert len(one.epochs) == len(other.epochs)
    for found, expected in zip(one.epochs, other.epochs, strict=True):
        assert (found.k, found.length, found.taken) == (expected.k, expected.length, expected.taken)
        for name in ("last", "average", "answer"):
            assert getattr(found, name).dtype == np.float64
            error = np.abs(getattr(found, name) - getattr(expected, name)).max()
            assert error <= tolerance * max(1.0, np.abs(getattr(expected, name)).max()), name
    assert one.status == other.status
