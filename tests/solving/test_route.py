"""Which way the default takes, and that it says so."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
from arrays_of import EVERY

import multireplay as mr
from multireplay.buffer.record import as_record
from multireplay.problems.batched import as_batched
from multireplay.sets import Ball, WholeSpace
from multireplay.solving.resolve import choose_route
from multireplay.updates.coarse import WIDEST


class Sized:
    """A record of any size, of which nothing but that is asked."""

    on_disk = False

    def __init__(self, problem, length, dim, sparse=False):
        features = scipy.sparse.csr_array((2, dim)) if sparse else np.zeros((2, dim))
        columns = {"features": features, "targets": np.zeros(2), "rewards": np.zeros(2), "next_features": features}
        self.problem, self.length, self.dim = problem, length, dim
        self.example = problem.samples(problem.columns(mr.Buffer(**columns)))


TABLE = [
    # problem, rows, coordinates, set, route
    (mr.GLM(), 10**6, 8, WholeSpace(), "exact"),
    (mr.GLM(), 10**6, 2000, WholeSpace(), "corrections"),
    (mr.GLM(ridge=0.1), 10**6, 8, WholeSpace(), "exact"),
    (mr.PolicyEvaluation(0.9), 10**6, 8, WholeSpace(), "exact"),
    (mr.PolicyEvaluation(0.9), 10**6, 2000, WholeSpace(), "corrections"),
    (mr.GLM("logistic"), 10**4, 8, WholeSpace(), "exact"),
    (mr.GLM("logistic"), 10**6, 8, WholeSpace(), "corrections"),
    (mr.GLM("logistic"), 10**6, 1000, WholeSpace(), "corrections"),
    (mr.GLM("exp"), 10**6, 50, WholeSpace(), "corrections"),
    (mr.GLM("logistic"), 10**6, 50, Ball(1.0), "exact"),
    (mr.GLM(), 10**6, 50, Ball(1.0), "exact"),
    (mr.GLM(), 10**7, WIDEST, Ball(1.0), "corrections"),
    (mr.GLM(), 10**7, WIDEST + 1, WholeSpace(), "rounds"),
    (mr.GLM("logistic"), 10**7, WIDEST + 1, Ball(1.0), "rounds"),
    (mr.GLM(), 60, 16_000, WholeSpace(), "exact"),
    (mr.GLM(ridge=0.1), 60, 16_000, WholeSpace(), "exact"),
    (mr.GLM(), 60, 16_000, Ball(1.0), "rounds"),
    (mr.GLM(), 5_100, 5_000, WholeSpace(), "corrections"),
    (mr.GLM(lambda z: z), 10**5, 8, WholeSpace(), "rounds"),
]


@pytest.mark.parametrize(("problem", "rows", "dim", "feasible", "route"), TABLE)
def test_the_cheapest_way_that_is_open(problem, rows, dim, feasible, route):
    update, why = choose_route(Sized(problem, rows, dim), feasible, None)
    assert update.route == route
    assert why


def test_the_choice_changes_once_as_coordinates_grow():
    """The moments of a row cost d², corrections about d: there is one place where they are the same."""
    for problem in (mr.GLM(), mr.PolicyEvaluation(0.9)):
        routes = [choose_route(Sized(problem, 10**6, dim), WholeSpace(), None)[0].route for dim in range(2, 1500, 7)]
        changes = [one != other for one, other in pairwise(routes)]
        assert sum(changes) == 1
        assert routes[0] == "exact"


def test_sparse_rows_of_a_linear_problem_are_summed():
    assert choose_route(Sized(mr.GLM(), 10**6, 500, sparse=True), WholeSpace(), None)[0].route == "exact"


def test_passes_are_steps_where_there_is_no_jacobian():
    record = Sized(mr.GLM(lambda z: z), 10**5, 8)
    for passes, name in ((1, "steps"), (2, "steps"), (3, "rounds"), (None, "rounds")):
        assert choose_route(record, WholeSpace(), passes)[0].route == name


@EVERY
def test_over_batches_the_route_is_that_of_arrays(library):
    columns = {"features": library(np.ones((50, 2))), "targets": library(np.ones(50))}
    record = as_record(as_batched(mr.GLM(), columns["features"]), mr.Buffer(**columns))
    assert choose_route(record, WholeSpace(), None)[0].route == "exact"


@pytest.mark.parametrize(
    ("options", "route", "why"),
    [
        ({}, "exact", "moments of all rows"),
        ({"update": mr.Newton()}, "corrections", "update=... is given"),
        ({"replay": mr.Serial()}, "steps", "replay=... is given"),
        ({"step": 0.1}, "rounds", "step=... is given"),
        ({"step": (0.1, 0.2)}, "steps", "step=... is given"),
        ({"precision": "float32", "passes": 1}, "steps", "precision=... is given"),
        ({"constraint": mr.sets.Ball(1.0)}, "exact", "Ball"),
    ],
)
def test_the_run_says_which_and_why(options, route, why):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((400, 2))
    result = mr.solve(mr.GLM(), mr.Buffer(features=A, targets=A @ [1.0, 2.0] + rng.standard_normal(400)), **options)
    assert result.run.route == route
    assert why in result.run.why


def test_another_way_is_said_to_have_been_taken():
    """Corrections are chosen by cost, and the data do not allow them."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((40_000, 2))[:, [0, 1, 0]]
    result = mr.solve(mr.GLM("logistic"), mr.Buffer(features=A, targets=(rng.random(40_000) < 0.5) * 1.0))
    assert result.run.route == "exact"
    assert result.run.update == mr.Exact()
    assert "combinations of others" in result.run.why


def test_passes_limit_corrections():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((40_000, 2))
    buffer = mr.Buffer(features=A, targets=(rng.random(40_000) < 1 / (1 + np.exp(-A[:, 0]))) * 1.0)
    for passes in (1, 2):
        result = mr.solve(mr.GLM("logistic"), buffer, passes=passes)
        assert result.passes == pytest.approx(passes + 8192 / 40_000)
        assert result.status.ok == result.converged
