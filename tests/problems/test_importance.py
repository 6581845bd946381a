"""`weights` of policy evaluation are importance ratios: honoured by every engine, or refused."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import multireplay as mr
from multireplay.problems.batched import as_batched

GAMMA, ROWS, DIM = 0.6, 512, 3


@pytest.fixture(scope="module")
def record():
    """Transitions of a chain under one policy, with the ratios to another."""
    rng = np.random.default_rng(14)
    F = rng.standard_normal((ROWS + 1, DIM))
    F[:, 0] = 1.0
    columns = {"features": F[:-1], "next_features": F[1:], "rewards": rng.standard_normal(ROWS) + F[1:, 1]}
    return {**columns, "terminated": rng.random(ROWS) < 0.1, "weights": rng.exponential(size=ROWS)}


def literal_sums(record):
    """Σ wψ(ψ − γψ')ᵀ and Σ wrψ, row by row."""
    matrix, vector = np.zeros((DIM, DIM)), np.zeros(DIM)
    for i in range(ROWS):
        psi, weight = record["features"][i], record["weights"][i]
        discount = 0.0 if record["terminated"][i] else GAMMA
        matrix += weight * np.outer(psi, psi - discount * record["next_features"][i])
        vector += weight * record["rewards"][i] * psi
    return matrix, vector


def test_every_sum_over_the_rows_counts_them_with_their_weights(record):
    problem, x = mr.PolicyEvaluation(GAMMA), np.array([0.3, -1.0, 2.0])
    columns = problem.columns(mr.Buffer(**record))
    matrix, vector = literal_sums(record)
    moments = problem.moments(columns)
    assert np.allclose(moments[0], matrix, rtol=1e-12)
    assert np.allclose(moments[1], vector, rtol=1e-12)
    assert np.allclose(problem.jacobian(x, columns), matrix / ROWS, rtol=1e-12)
    assert np.allclose(problem.operator_sums(x[None, :], columns)[0], matrix @ x - vector, rtol=1e-11)
    batched = as_batched(problem, record["features"])
    over_batches = batched.operator_sums(x[None, :], batched.columns(mr.Buffer(**record)))[0]
    assert np.allclose(over_batches, matrix @ x - vector, rtol=1e-11)
    weights, lengths = record["weights"], (record["features"] ** 2).sum(axis=1)
    samples = problem.samples(columns)
    assert problem.lipschitz(samples) == pytest.approx((weights * lengths).max())
    assert problem.limit(samples, np.zeros(DIM)) == pytest.approx(1e8 * weights.max() * np.abs(record["rewards"]).max())
    assert {int((weights * lengths).argmax()), int(weights.argmax())} <= set(problem.extreme_rows(samples, x).tolist())


@pytest.mark.parametrize("how", [{}, {"update": mr.Exact()}, {"update": mr.VarianceReduced(rounds=8), "step": 0.02},
                                 {"backend": "batched"}])  # fmt: skip
def test_default_exact_and_reduced_routes_come_to_the_weighted_fit(record, how):
    matrix, vector = literal_sums(record)
    exact = np.linalg.solve(matrix, vector)
    unweighted = mr.PolicyEvaluation(GAMMA).fit_exactly(mr.Buffer(**{**record, "weights": np.ones(ROWS)}))
    assert np.abs(exact - unweighted).max() > 0.05  # so that ignoring them would show
    assert np.allclose(mr.PolicyEvaluation(GAMMA).fit_exactly(mr.Buffer(**record)), exact, rtol=1e-10)
    found = mr.solve(mr.PolicyEvaluation(GAMMA), mr.Buffer(**record), **how)
    assert np.abs(found.x - exact).max() < 0.1 * np.abs(exact - unweighted).max()


@pytest.mark.parametrize("order", [mr.Multiscale(), mr.Multiscale(phases="all"), mr.Interleaved(4), mr.Serial()])
def test_named_orders_take_the_same_weighted_steps_in_every_engine(record, order):
    backends = ["python", "compiled", "batched"]
    runs = [
        mr.solve(mr.PolicyEvaluation(GAMMA), mr.Buffer(**record), replay=order, step=0.02, backend=name)
        for name in backends
    ]
    for epoch, *others in zip(*(run.epochs for run in runs), strict=True):
        for other in others:
            assert np.allclose(epoch.last, other.last, rtol=1e-9)
            assert np.allclose(epoch.average, other.average, rtol=1e-9)


def test_weights_of_one_are_no_weights(record):
    ones, none = {**record, "weights": np.ones(ROWS)}, {name: record[name] for name in record if name != "weights"}
    problem = mr.PolicyEvaluation(GAMMA)
    for options in ({"replay": mr.Multiscale(), "step": 0.02}, {}):
        with_ones, without = (mr.solve(problem, mr.Buffer(**columns), **options).x for columns in (ones, none))
        assert np.allclose(with_ones, without, rtol=1e-12)
    assert problem.samples(problem.columns(mr.Buffer(**none))).weights is None  # the loop is compiled without them


@pytest.mark.parametrize("kind", ["sparse", "table", "negative"])
def test_weights_that_cannot_be_honoured_are_refused(record, kind):
    problem, columns, words = mr.PolicyEvaluation(GAMMA), dict(record), "'weights' needs dense features"
    if kind == "sparse":
        columns = {**columns, **{name: scipy.sparse.csr_array(record[name]) for name in ("features", "next_features")}}
    elif kind == "table":
        states = np.arange(ROWS + 1) % 5
        columns = {"states": states[:-1], "next_states": states[1:], "rewards": record["rewards"]}
        columns["weights"], problem = record["weights"], mr.PolicyEvaluation(GAMMA, table=np.eye(5))
    else:
        columns["weights"], words = -record["weights"], r"'weights' holds -.* at row 0 .*; a weight is at least 0"
    with pytest.raises(mr.InputError, match=words):
        mr.solve(problem, mr.Buffer(**columns))
