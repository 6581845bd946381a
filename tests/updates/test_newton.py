"""Newton corrections against the exact fit and a literal version of themselves."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.signal
from disk_records import record, stored
from scipy.signal import lfilter

import multireplay as mr
from multireplay.updates import coarse


def transitions(rows=20_000, seed=0, gamma=0.9):
    rng = np.random.default_rng(seed)
    states = lfilter([1.0], [1.0, -0.9], rng.standard_normal((rows + 1, 4)), axis=0)
    rewards = states[:-1] @ [1.0, -1.0, 0.5, 0.0] + rng.standard_normal(rows)
    return mr.PolicyEvaluation(gamma), mr.Buffer(features=states[:-1], next_features=states[1:], rewards=rewards)


def regression(link="logistic", rows=20_000, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((rows, 3))
    mean = mr.GLM(link).link.function(A @ [0.5, -0.5, 0.2])
    y = (
        (rng.random(rows) < mean).astype(float)
        if link in ("logistic", "probit")
        else rng.poisson(np.maximum(mean, 0.0))
    )
    return mr.GLM(link), mr.Buffer(features=A, targets=y)


CASES = {
    "policy evaluation": transitions,
    **{link: lambda link=link: regression(link) for link in ("identity", "logistic", "probit", "exp", "softplus")},
}


@pytest.mark.parametrize("case", CASES)
def test_they_come_to_the_exact_fit(case):
    problem, buffer = CASES[case]()
    exact = problem.fit_exactly(buffer)
    gaps = [np.abs(mr.solve(problem, buffer, update=mr.Newton(count)).x - exact).max() for count in (1, 2, 4)]
    assert gaps[1] < gaps[0] / 3
    assert gaps[2] < 1e-6
    result = mr.solve(problem, buffer)
    assert (np.abs(result.x - exact) < 0.1 * result.standard_error).all()
    assert result.converged
    assert result.passes < 5


def literal(problem, buffer, count):
    """The fit of spread rows, then x − J⁻¹F̂(x) by hand; from the second on combined with those before (Anderson)."""
    T, golden = coarse.COARSE, (5**0.5 - 1) / 2
    ends = [t * len(buffer) // T for t in range(T + 1)]
    stretches = [(ends[t - 1], ends[t], t * golden % 1) for t in range(1, T + 1)]
    rows = np.array([end - 1 - int(place * (end - begin)) for begin, end, place in stretches])
    part = mr.Buffer(**{name: column[rows] for name, column in buffer.columns.items()})
    x = problem.fit_exactly(part)
    A, Y = part["features"], part["next_features"]
    J = A.T @ (A - problem.gamma * Y) / len(A) / (1 - A.shape[1] / T)  # whose inverse is too large on average
    batches = np.linspace(0, len(buffer), 33).astype(int)
    points, moves = [], []
    for _ in range(count):
        parts = [problem.columns(buffer[a:b]) for a, b in pairwise(batches)]
        images = np.linalg.solve(J, np.array([problem.mean_operator(x, part) for part in parts]).T).T
        units = images.std(axis=0, ddof=1)
        damping = (1 - A.shape[1] / T) / (1 + A.shape[1] / T)
        moves.append(-damping * np.linalg.solve(J, problem.mean_operator(x, buffer.columns)))
        points.append(x)
        steps, changes = np.diff(points, axis=0), np.diff(moves, axis=0)
        x = x + moves[-1]
        if len(moves) > 1:
            weights = np.linalg.lstsq((changes / units).T, moves[-1] / units, rcond=None)[0]
            x = x - weights @ (steps + changes)
    return x


@pytest.mark.parametrize("count", [1, 2, 3])
def test_against_a_literal_version(count):
    """To what the single precision of the coarse fit leaves: it is shrunk by every correction."""
    problem, buffer = transitions()
    result, expected = mr.solve(problem, buffer, update=mr.Newton(count)), literal(problem, buffer, count)
    before = np.abs(literal(problem, buffer, count - 1) - expected).max()
    assert np.abs(result.x - expected).max() < 1e-3 * before + 1e-10


def test_standard_errors_cover_the_truth_under_dependence():
    process = mr.simulate.paper_mrp(0.9)
    inside = []
    for seed in range(12):
        result = mr.solve(process.problem, process.buffer(2**15, seed=seed))
        inside.append(np.abs(result.x - process.solution) <= 2 * result.standard_error)
    assert 0.88 <= np.mean(inside) <= 0.99  # 192 coordinates; the t distribution with 31 degrees of freedom has .945


def test_rows_that_do_not_agree_give_way_to_all_rows():
    """A feature in 1 of 500 rows: 16 rows of the coarse epoch have it, and their halves disagree."""
    rng = np.random.default_rng(0)
    rare = (rng.random((2**16, 2)) < [0.5, 0.002]) * rng.standard_normal((2**16, 2))
    common = rng.standard_normal((2**16, 2))
    y = (rng.random(2**16) < 0.3).astype(float)
    for A, whole in ((rare, True), (common, False)):
        problem, buffer = mr.GLM("logistic"), mr.Buffer(features=A, targets=y)
        result = mr.solve(problem, buffer, update=mr.Newton())
        assert ("with the Jacobian of all rows" in str(result.status)) == whole
        assert result.epochs[0].taken == coarse.COARSE
        assert result.converged
        assert (np.abs(result.x - problem.fit_exactly(buffer)) < 0.1 * result.standard_error).all()


@pytest.mark.parametrize(
    ("buffer", "free"),
    [
        (mr.Buffer(features=np.ones((100, 2)), targets=np.arange(100.0)), ((0, 1),)),  # two features are the same
        (mr.Buffer(features=np.column_stack([np.ones(100), np.zeros(100)]), targets=np.arange(100.0)), ((1,),)),
    ],
)
def test_where_they_cannot_be_used_the_fit_is_exact(buffer, free):
    result = mr.solve(mr.GLM(), buffer)
    exact = np.linalg.lstsq(buffer["features"], buffer["targets"], rcond=None)[0]
    assert result.run.route == "exact"
    assert np.allclose(result.x, exact)
    assert result.free == free
    assert result.converged
    with pytest.raises(mr.InputError, match=r"mr.Newton\(\) cannot be used here"):
        mr.solve(mr.GLM(), buffer, update=mr.Newton())


def test_corrections_on_a_feasible_set():
    """Each is the solution of the variational inequality that is linearized at the point before."""
    problem, buffer = regression()
    for feasible in (mr.sets.Ball(0.3), mr.sets.NonNegative(), mr.sets.L1Ball(0.5)):
        result = mr.solve(problem, buffer, update=mr.Newton(), constraint=feasible)
        exact = mr.solve(problem, buffer, update=mr.Exact(), constraint=feasible)
        assert result.converged
        assert feasible.contains(result.x)
        assert np.array_equal(np.isnan(result.standard_error), np.isnan(exact.standard_error))  # on the boundary
        assert (np.abs(result.x - exact.x) <= 0.1 * np.nan_to_num(exact.standard_error)).all()


@pytest.mark.parametrize("tolerance", [0.1, 1e-3, 1e-6])
@pytest.mark.parametrize("case", CASES)
def test_a_tolerance_is_kept(case, tolerance):
    problem, buffer = CASES[case]()
    result = mr.solve(problem, buffer, update=mr.Newton(tolerance=tolerance))
    assert result.distance <= tolerance
    assert (np.abs(result.x - problem.fit_exactly(buffer)) < tolerance * result.standard_error + 1e-9).all()


@pytest.mark.parametrize("seed", [4, 10, 1])
def test_a_tolerance_is_kept_with_few_rows_a_coordinate_in_the_coarse_epoch(seed, monkeypatch):
    monkeypatch.setattr(coarse, "COARSE", 256)  # 8 rows a coordinate, as with a thousand of them
    rng = np.random.default_rng(seed)
    A = lfilter([1.0], [1.0, -0.9], rng.standard_normal((8192, 128)), axis=0)
    buffer = mr.Buffer(features=A, targets=A @ rng.standard_normal(128) + rng.standard_normal(8192))
    result = mr.solve(mr.GLM(), buffer, update=mr.Newton(tolerance=1e-3))
    away = (np.abs(result.x - mr.GLM().fit_exactly(buffer)) / result.standard_error).max()
    assert away <= result.distance <= 1e-3


def test_too_few_corrections_are_said_to_be_so():
    rng = np.random.default_rng(0)
    F = scipy.signal.lfilter([1.0], [1.0, -0.9], rng.standard_normal((60_001, 60)), axis=0)
    problem = mr.PolicyEvaluation(0.95)
    buffer = mr.Buffer(features=F[:-1], next_features=F[1:], rewards=F[:-1, 0] + rng.standard_normal(60_000))
    with pytest.warns(mr.ConvergenceWarning, match="Not converged"):
        result = mr.solve(problem, buffer, update=mr.Newton(1))
    off = np.abs(result.x - problem.fit_exactly(buffer)) / result.standard_error
    assert (off.max() > 0.1) == (not result.converged)
    assert result.status.ok == result.converged


def test_the_same_bits_on_disk_and_on_any_number_of_threads(tmp_path):
    buffer = record(40_000, 6)
    disk = stored(tmp_path, buffer)
    for problem in (mr.GLM("logistic"), mr.GLM(), mr.PolicyEvaluation(0.9)):
        found = [
            mr.solve(problem, where, update=mr.Newton(), threads=threads)
            for where in (buffer, disk)
            for threads in (1, 2, 3)
        ]
        assert len({result.x.tobytes() for result in found}) == 1
        assert len({result.standard_error.tobytes() for result in found}) == 1
        assert len({result.distance for result in found}) == 1


@pytest.mark.parametrize("rows", [2, 15, 60])
@pytest.mark.parametrize("link", ["identity", "logistic", "exp"])
def test_a_ridge_settles_what_few_rows_leave_open(rows, link):
    """Fewer rows than coordinates, a feature that is always 0, two that are the same."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((rows, 20))
    A[:, 3], A[:, 5] = 0.0, A[:, 6]
    buffer = mr.Buffer(features=A, targets=(np.arange(rows) % 2).astype(float))
    problem = mr.GLM(link, ridge=0.01)
    result = mr.solve(problem, buffer, holdout=None)
    assert result.converged
    assert result.free == ()
    assert np.linalg.norm(problem.mean_operator(result.x, buffer.columns)) < 1e-6
    assert abs(result.x[3]) < 1e-12


@pytest.mark.parametrize("link", ["identity", "logistic"])
def test_a_feature_that_the_coarse_epoch_misses_is_not_left_to_the_ridge(link):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((40_000, 2))
    A[1:, 1] = 0.0
    problem = mr.GLM(link, ridge=1e-4)
    buffer = mr.Buffer(features=A, targets=(rng.random(40_000) < 0.5).astype(float))
    result = mr.solve(problem, buffer)
    assert result.converged
    assert np.allclose(result.x, problem.fit_exactly(buffer), rtol=1e-6)


def test_an_order_is_refused():
    with pytest.raises(mr.InputError, match="reads the record in order"):
        mr.solve(*regression(), update=mr.Newton(), replay=mr.Serial())


def test_errors_are_tracked():
    problem, buffer = transitions()
    exact = problem.fit_exactly(buffer)
    result = mr.solve(problem, buffer, update=mr.Newton(3), track=exact)
    errors = [epoch.curve.end_last for epoch in result.epochs]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] == pytest.approx(np.sum((result.x - exact) ** 2))


@pytest.mark.parametrize(("value", "offset"), [(1.0, 0.0), (0.0, 0.0), (3.7, -2.2)])
@pytest.mark.parametrize("scale", [1.0, 1e8])
@pytest.mark.parametrize("update", [None, mr.Newton()], ids=["default", "newton"])
def test_a_record_without_noise_needs_no_more_than_rounding(value, offset, scale, update):
    A = np.column_stack([np.random.default_rng(0).standard_normal(20_000), np.ones(20_000)])
    result = mr.solve(mr.GLM(), mr.Buffer(features=scale * A, targets=scale * A @ [value, offset]), update=update)
    assert np.allclose(result.x, [value, offset], atol=1e-12)
    assert len(result.epochs) <= 4
    assert result.converged
    five = mr.solve(mr.GLM(), mr.Buffer(features=np.ones((5, 1)), targets=np.ones(5)), holdout=None, update=update)
    assert five.x == pytest.approx([1.0], rel=1e-12)
    assert five.converged


@pytest.mark.parametrize("period", [2, 8, 64])
@pytest.mark.parametrize("options", [{}, {"update": mr.VarianceReduced()}], ids=["newton", "variance reduced"])
def test_a_period_of_the_record_does_no_harm(period, options):
    rng = np.random.default_rng(0)
    rows = 2**15
    season = np.arange(rows) % period == 0
    A = np.column_stack([np.ones(rows), season, rng.standard_normal(rows)])
    y = A @ [1.0, 2.0, -1.0] + 0.1 * rng.standard_normal(rows)
    buffer = mr.Buffer(features=A, targets=y)
    exact = mr.GLM().fit_exactly(buffer)
    result = mr.solve(mr.GLM(), buffer, **options)
    bound = 0.01 if not options else 0.5
    assert np.abs(result.x - exact).max() < bound


@pytest.mark.parametrize("rows", [2**15, 40_000])
@pytest.mark.parametrize("update", [mr.VarianceReduced(), mr.VarianceReduced(rounds=4)], ids=["auto", "4 rounds"])
def test_rounding_is_no_reason_to_shuffle(rows, update):
    A = np.random.default_rng(0).standard_normal((rows, 3))
    buffer = mr.Buffer(features=A, targets=A @ [1.0, 2.0, -1.0])
    result = mr.solve(mr.GLM(), buffer, update=update)
    assert np.allclose(result.x, [1.0, 2.0, -1.0], rtol=1e-12)
    assert "shuffled" not in str(result.status)
    begun = mr.solve(mr.GLM(), buffer, update=mr.VarianceReduced(), x0=[1.0, 2.0, -1.0])
    assert "no round 1" in str(begun.status)


def test_an_order_that_was_asked_for_is_not_shuffled():
    rows = 2**13
    A = np.column_stack([np.ones(rows), np.arange(rows) % 2])
    buffer = mr.Buffer(features=A, targets=A @ [1.0, 2.0] + 0.1 * np.random.default_rng(0).standard_normal(rows))
    asked, free = (
        mr.solve(mr.GLM(), buffer, update=mr.VarianceReduced(), **options) for options in ({"replay": mr.Dyadic()}, {})
    )
    exact = mr.GLM().fit_exactly(buffer)
    assert "shuffled" not in str(asked.status)
    assert "was shuffled" in str(free.status)
    assert np.linalg.norm(free.x - exact) < 0.1 * np.linalg.norm(asked.x - exact)
