"""The distance to the exact fit as it is estimated, against the distance itself."""

from __future__ import annotations

import pickle
from itertools import pairwise

import numpy as np
import pytest
from disk_records import record, stored
from scipy.signal import lfilter

import multireplay as mr
from multireplay.inference.residuals import standard_errors
from multireplay.solving.resolve import resolve
from multireplay.updates.measure import measured

FAMILIES = ["identity", "logistic", "exp", "policy evaluation"]


def instance(seed):
    """A problem of one of four kinds, of any size, dependence and number of features."""
    rng = np.random.default_rng(seed)
    rows, dim = int(10 ** rng.uniform(3.3, 4.7)), int(rng.integers(2, 41))
    rho = rng.choice([0.0, 0.5, 0.9, 0.99])
    A = lfilter([np.sqrt(1 - rho**2)], [1.0, -rho], rng.standard_normal((rows + 1, dim)), axis=0)
    A = A @ (np.eye(dim) + 0.3 * rng.standard_normal((dim, dim)) / np.sqrt(dim))
    scores = A[:-1] @ rng.standard_normal(dim) / np.sqrt(dim)
    name = FAMILIES[seed % 4]
    if name == "policy evaluation":
        rewards = scores + rng.standard_normal(rows)
        return mr.PolicyEvaluation(0.9), mr.Buffer(features=A[:-1], next_features=A[1:], rewards=rewards)
    y = {
        "identity": lambda: scores + rng.standard_normal(rows),
        "logistic": lambda: (rng.random(rows) < 1 / (1 + np.exp(1 - scores))).astype(float),
        "exp": lambda: rng.poisson(np.exp(scores - 1)).astype(float),
    }[name]()
    return mr.GLM(name), mr.Buffer(features=A[:-1], targets=y)


def away(x, problem, buffer):
    exact = mr.solve(problem, buffer, update=mr.Exact(), holdout=None)
    assert np.allclose(exact.x, problem.fit_exactly(buffer), atol=1e-5 * exact.standard_error.min())
    return float(np.abs((x - exact.x) / standard_errors(exact.images.values)).max())


@pytest.mark.parametrize("seed", range(40))
def test_what_has_converged_is_within_a_tenth_of_a_standard_error(seed):
    problem, buffer = instance(seed)
    for update in (None, mr.Newton()):
        result = mr.solve(problem, buffer, update=update, holdout=None)
        assert result.status.ok == result.converged == (result.distance <= 0.1)
        assert result.converged
        assert away(result.x, problem, buffer) < 0.1


@pytest.mark.parametrize("seed", range(8))
def test_the_distance_of_any_point_is_measured(seed):
    """One pass, with the Jacobian of spread rows: right to a third, near and far."""
    problem, buffer = instance(seed + 100)
    exact = mr.solve(problem, buffer, update=mr.Exact(), holdout=None)
    rng = np.random.default_rng(seed)
    for far in (0.05, 0.5, 2.0):
        plain = standard_errors(exact.images.values)  # the distance is in those of the batches as they are
        x = exact.x + far * plain * rng.uniform(-1, 1, len(exact.x))
        found = measured(exact.run, x)
        true = np.abs((x - exact.x) / plain).max()
        assert found.distance == pytest.approx(true, rel=0.4)
        assert far > 0.5 or np.allclose(found.error, plain, rtol=0.5)


@pytest.mark.parametrize("seed", range(4))
def test_steps_are_measured_when_asked(seed):
    problem, buffer = instance(seed + 200)
    result = mr.solve(problem, buffer, update=mr.Plain(), holdout=None)
    assert result.status.code == "ran"
    assert result.status.ok
    assert "result.distance" in str(result.status)
    assert result.measured is None
    true = away(result.x, problem, buffer)
    assert result.distance == pytest.approx(true, rel=0.5)
    assert result.converged == (result.distance <= 0.1)


def test_variance_reduction_is_measured_without_being_asked():
    problem, buffer = instance(1)
    with pytest.warns(mr.ConvergenceWarning, match="Not converged"):
        short = mr.solve(problem, buffer, update=mr.VarianceReduced(rounds=1))
    assert short.status.code == "not converged"
    assert not short.status.ok
    assert short.measured == pytest.approx(away(short.x, problem, buffer), rel=0.4)
    long = mr.solve(problem, buffer, update=mr.VarianceReduced(rounds=100))
    assert long.converged
    assert away(long.x, problem, buffer) < 0.1


@pytest.mark.parametrize("feasible", [mr.sets.NonNegative(), mr.sets.Ball(0.3), mr.sets.Simplex()], ids=repr)
def test_on_a_set_the_projected_problem_is_measured(feasible):
    problem, buffer = instance(0)
    exact = mr.solve(problem, buffer, constraint=feasible)
    assert exact.converged
    run = resolve_with(problem, buffer, constraint=feasible)
    assert measured(run, exact.x).distance < 1e-3
    other = feasible.projected(exact.x + 3 * np.nan_to_num(exact.standard_error))
    assert measured(run, other).distance > 0.5
    free = mr.solve(problem, buffer)
    assert measured(resolve_with(problem, buffer), exact.x).distance > 0.5  # it is not the fit on the whole space
    assert not np.allclose(free.x, exact.x)


def resolve_with(problem, buffer, **options):
    """The run of one call that is not carried out."""
    given = dict.fromkeys(("replay", "update", "passes", "x0", "constraint", "track", "threads", "checkpoint"))
    given |= {"step": "auto", "average": 0.875, "backend": "auto", "holdout": None, "precision": "float64"}
    return resolve({"problem": problem, "buffer": buffer, "progress": False, **given, **options})


def test_the_same_on_disk_and_on_any_number_of_threads(tmp_path):
    buffer = record(20_000, 4)
    disk = stored(tmp_path, buffer)
    for problem in (mr.GLM("logistic"), mr.PolicyEvaluation(0.9)):
        found = {
            measured(resolve_with(problem, where, threads=threads), np.full(4, 0.1)).distance
            for where in (buffer, disk)
            for threads in (1, 2, 3)
        }
        assert len(found) == 1


def test_an_operator_without_a_jacobian_is_measured_by_its_mean():
    rng = np.random.default_rng(0)
    samples = rng.standard_normal((3000, 70))
    problem = mr.VariationalInequality(lambda x, s: x - s, dim=70, lipschitz=1.0)
    buffer = mr.Buffer(samples=samples)
    run = resolve_with(problem, buffer)
    ends = np.linspace(0, 3000, 33).astype(int)
    means = np.array([samples[a:b].mean(axis=0) for a, b in pairwise(ends)])
    errors = means.std(axis=0, ddof=1) / np.sqrt(32)
    x = samples.mean(axis=0) + 0.7 * errors * np.r_[1.0, np.zeros(69)]
    found = measured(run, x)
    assert found.error is None
    assert found.distance == pytest.approx(0.7, rel=1e-6)


def test_a_result_that_left_its_record_behind_is_not_measured():
    problem, buffer = instance(0)
    result = pickle.loads(pickle.dumps(mr.solve(problem, buffer, update=mr.Plain())))
    assert np.isnan(result.distance)
    assert not result.converged


def separated(rows=20_000, often=50, seed=4):
    """A sticky feature, one that is on in 2 of so many rows, and a constant; coin flips, but 1 where the one is on."""
    rng = np.random.default_rng(seed)
    slow = lfilter([0.4], [1, -0.9], rng.standard_normal(rows))
    on = (np.arange(rows) % often < 2) * 1.0
    return np.column_stack([slow, on, np.ones(rows)]), np.maximum(rng.random(rows) < 0.5, on), rng


def marks_of(problem, **columns):
    return {i for i, why in mr.solve(problem, mr.Buffer(**columns)).uncertainty.doubts.items() if "penalty" in why}


@pytest.mark.parametrize("ridge", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("link", ["logistic", "probit", "exp", "softplus"])
def test_what_runs_away_without_the_penalty_is_marked(link, ridge):
    """There the rows are as curved as the penalty is, so that shares of the curvature do not show it."""
    A, y, rng = separated()
    if link in ("exp", "softplus"):
        y = rng.poisson(1.0, len(y)) * (1 - A[:, 1])
    assert marks_of(mr.GLM(link, ridge=ridge, unpenalized=1), features=A, targets=y) == {1}


def test_it_is_marked_however_features_are_coded():
    A, y, _ = separated()
    other = np.column_stack([A[:, 0] + A[:, 1], A[:, 0] - A[:, 1], A[:, 2]])
    assert marks_of(mr.GLM("logistic", ridge=1e-4, unpenalized=1), features=other, targets=y) == {0, 1}
    other = np.column_stack([A[:, 0], 1 - A[:, 1], A[:, 2]])
    assert marks_of(mr.GLM("logistic", ridge=1e-4, unpenalized=1), features=other, targets=y) == {1, 2}
    other = A[:, [0, 1, 0, 2]]  # and two columns say the same
    assert marks_of(mr.GLM("logistic", ridge=1e-4, unpenalized=1), features=other, targets=y) == {0, 1, 2}


def test_one_of_three_classes_that_is_separated_in_part():
    """The contrast of the other two is known."""
    A, _, rng = separated()
    labels = np.where(A[:, 1] > 0, rng.integers(0, 2, len(A)), rng.integers(0, 3, len(A)))
    found = mr.solve(mr.Multinomial(3, ridge=1e-4, unpenalized=1), mr.Buffer(features=A, targets=labels)).uncertainty
    assert {i for i, why in found.doubts.items() if "penalty" in why} == {4}


def test_rows_that_spread_rows_lack_decide(tmp_path):
    """One row in 200,000 on the other side: the fit exists. On disk it is the same."""
    A, y, _ = separated(200_000, often=2000)
    problem = mr.GLM("logistic", ridge=1e-7, unpenalized=1)
    for where in (mr.Buffer(features=A, targets=y), stored(tmp_path, mr.Buffer(features=A, targets=y))):
        assert "penalty" in mr.solve(problem, where).uncertainty.doubts[1]
    y[np.flatnonzero(A[:, 1])[40]] = 0.0
    assert marks_of(problem, features=A, targets=y) == set()


@pytest.mark.parametrize("ridge", [1e-4, 1e-2, 1.0])
@pytest.mark.parametrize("steep", [1.0, 30.0])
def test_a_strong_penalty_alone_is_no_reason(steep, ridge):
    A, _, rng = separated()
    A[:, 1] = rng.standard_normal(len(A))
    y = (rng.random(len(A)) < 1 / (1 + np.exp(-steep * (A[:, 0] - A[:, 1])))) * 1.0
    assert marks_of(mr.GLM("logistic", ridge=ridge, unpenalized=1), features=A, targets=y) == set()
    counts = rng.poisson(np.exp(A[:, 0] / 2)) * 1.0
    assert marks_of(mr.GLM("exp", ridge=ridge, unpenalized=1), features=A, targets=counts) == set()
