"""Newton corrections against the exact fit and a literal version of themselves."""

from __future__ import annotations

import numpy as np
import pytest

import multireplay as mr
from multireplay.updates import coarse


def transitions(rows=20_000, seed=0, gamma=0.9):
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((rows + 1, 4))
    states = np.empty_like(noise)
    states[0] = noise[0]
    for t in range(1, rows + 1):
        states[t] = 0.9 * states[t - 1] + noise[t]
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
    assert np.abs(result.x - exact).max() < 0.2 * result.standard_error.min()
    assert result.passes < 4


def literal(problem, buffer, count):
    """The epoch's exact fit, then x − J⁻¹F̂(x) by hand; the second one combined with the first as Anderson did."""
    T, golden = coarse.COARSE, (5**0.5 - 1) / 2
    ends = [t * len(buffer) // T for t in range(T + 1)]
    stretches = [(ends[t - 1], ends[t], t * golden % 1) for t in range(1, T + 1)]
    rows = np.array([end - 1 - int(place * (end - begin)) for begin, end, place in stretches])
    part = mr.Buffer(**{name: column[rows] for name, column in buffer.columns.items()})
    x = problem.fit_exactly(part)
    A, Y = part["features"], part["next_features"]
    J = A.T @ (A - problem.gamma * Y) / len(A)
    root = np.linalg.cholesky(A.T @ A / len(A)).T
    points, moves = [], []
    for _ in range(count):
        moves.append(-np.linalg.solve(J, problem.mean_operator(x, buffer.columns)))
        points.append(x)
        x = x + moves[-1]
        if len(moves) == 2:
            change = moves[1] - moves[0]
            weight = (root @ change) @ (root @ moves[1]) / np.sum((root @ change) ** 2)
            x = x - weight * (points[1] - points[0] + change)
    return x


@pytest.mark.parametrize("count", [1, 2])
def test_against_a_literal_version(count):
    problem, buffer = transitions()
    assert np.allclose(mr.solve(problem, buffer, passes=count).x, literal(problem, buffer, count), rtol=1e-9)


def test_standard_errors_cover_the_truth_under_dependence():
    process = mr.simulate.paper_mrp(0.9)
    inside = []
    for seed in range(12):
        result = mr.solve(process.problem, process.buffer(2**15, seed=seed))
        inside.append(np.abs(result.x - process.solution) <= 2 * result.standard_error)
    assert 0.88 <= np.mean(inside) <= 0.99  # 192 coordinates; the t distribution with 31 degrees of freedom has .945


def test_the_coarse_epoch_grows_where_its_halves_disagree():
    rng = np.random.default_rng(0)
    rare = (rng.random((2**17, 2)) < [0.5, 0.002]) * rng.standard_normal((2**17, 2))
    common = rng.standard_normal((2**17, 2))
    y = rng.standard_normal(2**17)
    taken = {
        name: mr.solve(mr.GLM(), mr.Buffer(features=A, targets=y)).epochs[0].taken
        for name, A in (("rare", rare), ("common", common))
    }
    assert taken["common"] == coarse.COARSE
    assert taken["rare"] > coarse.COARSE


@pytest.mark.parametrize(
    ("buffer", "options"),
    [
        (mr.Buffer(features=np.ones((100, 2)), targets=np.arange(100.0)), {}),  # two features are the same
        (mr.Buffer(features=np.eye(30), targets=np.arange(30.0)), {}),  # too few rows
        (mr.Buffer(features=np.ones((100, 1)), targets=np.arange(100.0)), {"constraint": mr.sets.Ball(1.0)}),
        (mr.Buffer(features=np.column_stack([np.ones(100), np.zeros(100)]), targets=np.arange(100.0)), {}),
    ],
)
def test_where_they_cannot_be_used_steps_are_taken(buffer, options):
    assert "variance reduction" in str(mr.solve(mr.GLM(), buffer, holdout=None, **options).status)
    with pytest.raises(mr.InputError, match=r"mr.Newton\(\) cannot be used here"):
        mr.solve(mr.GLM(), buffer, update=mr.Newton(), **options)


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
    assert "1 Newton correction " in str(result.status)
    assert np.linalg.norm(problem.mean_operator(result.x, buffer.columns)) < 1e-10
    assert result.x[3] == 0
    assert "variance reduction" in str(mr.solve(mr.GLM(link), buffer, holdout=None).status)


def test_a_feature_that_the_coarse_epoch_misses_is_not_left_to_the_ridge():
    A = np.random.default_rng(0).standard_normal((40_000, 2))
    A[1:, 1] = 0.0
    buffer = mr.Buffer(features=A, targets=A @ [1.0, 1.0])
    assert "variance reduction" in str(mr.solve(mr.GLM(ridge=1e-6), buffer).status)


def test_separable_classes_take_steps():
    A = np.linspace(-1, 1, 400)[:, None]
    result = mr.solve(mr.GLM("logistic"), mr.Buffer(features=A, targets=(A[:, 0] > 0).astype(float)))
    assert np.isfinite(result.x).all()
    assert "variance reduction" in str(result.status)


def test_an_order_is_refused():
    with pytest.raises(mr.InputError, match="reads the record in order"):
        mr.solve(*regression(), update=mr.Newton(), replay=mr.Serial())


def test_errors_are_tracked():
    problem, buffer = transitions()
    exact = problem.fit_exactly(buffer)
    result = mr.solve(problem, buffer, track=exact)
    errors = [epoch.curve.end_last for epoch in result.epochs]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] == pytest.approx(np.sum((result.x - exact) ** 2))


@pytest.mark.parametrize(("value", "offset"), [(1.0, 0.0), (0.0, 0.0), (3.7, -2.2)])
@pytest.mark.parametrize("scale", [1.0, 1e8])
def test_a_record_without_noise_needs_no_more_than_rounding(value, offset, scale):
    A = np.column_stack([np.random.default_rng(0).standard_normal(20_000), np.ones(20_000)])
    result = mr.solve(mr.GLM(), mr.Buffer(features=scale * A, targets=scale * A @ [value, offset]))
    assert np.allclose(result.x, [value, offset], atol=1e-12)
    assert len(result.epochs) <= 3
    assert "of its standard error" not in str(result.status)
    five = mr.solve(mr.GLM(), mr.Buffer(features=np.ones((5, 1)), targets=np.ones(5)), holdout=None)
    assert five.x == pytest.approx([1.0], rel=1e-14)
    assert "1 Newton correction " in str(five.status)
    assert str(five.status).endswith("another correction would be rounding.")


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
