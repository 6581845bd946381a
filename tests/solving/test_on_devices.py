"""The default on arrays of other libraries: the same routes, answers and words as on NumPy arrays."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from arrays_of import EVERY, LIBRARIES, device_array, torch_array
from scipy.signal import lfilter

import multireplay as mr
from multireplay.buffer import foreign
from multireplay.problems import batched_features, over_batches
from multireplay.problems.batched import as_batched
from multireplay.updates import coarse
from multireplay.updates.slope import Slope


def record(rows=40_000, dim=12, seed=3, link="logistic"):
    """Features that depend on the past, with targets of one link and rewards."""
    rng = np.random.default_rng(seed)
    F = lfilter([0.6], [1.0, -0.8], rng.standard_normal((rows + 1, dim)), axis=0)
    F[:, -1] = 1.0
    scores = F[:-1] @ np.linspace(-0.5, 0.5, dim)
    targets = {
        "logistic": lambda: (rng.random(rows) < 1 / (1 + np.exp(-scores))).astype(float),
        "exp": lambda: rng.poisson(np.exp(scores / 2)).astype(float),
        "identity": lambda: scores + rng.standard_normal(rows),
    }[link]()
    rewards = F[:-1, 0] + 0.5 * rng.standard_normal(rows)
    return {"features": F[:-1], "next_features": F[1:], "targets": targets, "rewards": rewards}


def both(problem, columns, library, dtype=np.float64, **options):
    """The solutions on NumPy arrays by the other engines, and on arrays of the library."""
    there = {name: np.array(column, dtype=dtype) for name, column in columns.items()}
    here = mr.solve(problem, mr.Buffer(**there), **options)
    return here, mr.solve(
        problem, mr.Buffer(**{name: library(column) for name, column in there.items()}), backend="batched", **options
    )


def assert_equal(here, there):
    assert there.run.route == here.run.route
    assert there.status.code == here.status.code
    assert there.notes == here.notes
    assert there.free == here.free
    fixed = np.isfinite(here.standard_error) & (here.standard_error > 0)
    away = np.abs(there.x - here.x)[fixed] / here.standard_error[fixed]
    assert away.max(initial=0.0) <= 0.01 + here.distance + there.distance
    assert np.allclose(there.standard_error[fixed], here.standard_error[fixed], rtol=0.1)
    assert np.array_equal(np.isinf(there.standard_error), np.isinf(here.standard_error))


TIGHT = mr.Newton(tolerance=0.001)
PROBLEMS = {
    "logistic": mr.GLM("logistic"),
    "exp": mr.GLM("exp", ridge=0.01, unpenalized=1),
    "identity": mr.GLM("identity"),
    "policy evaluation": mr.PolicyEvaluation(0.9),
}


@EVERY
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("update", [TIGHT, mr.Exact()], ids=["corrections", "exact"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_answers_are_those_of_the_cpu(name, update, dtype, library):
    link = name if name in ("exp", "identity") else "logistic"
    here, there = both(PROBLEMS[name], record(link=link), library, dtype, update=update)
    assert here.converged
    assert_equal(here, there)


@EVERY
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_default_takes_the_same_route(name, library):
    link = name if name in ("exp", "identity") else "logistic"
    for rows in (5000, 100_000):
        here, there = both(PROBLEMS[name], record(rows, link=link), library)
        assert here.converged
        assert_equal(here, there)


def test_rows_that_do_not_settle_everything_are_fitted_exactly_here_too():
    columns = record(9000, 6)
    columns["features"][:, 2] = columns["features"][:, 0] - columns["features"][:, 1]
    columns["features"][:, 4] = 0.0
    for problem in (mr.GLM("logistic"), mr.GLM()):
        for library in (torch_array, device_array):
            here, there = both(problem, columns, library)
            assert there.free == ((0, 1, 2), (4,))
            assert_equal(here, there)


@pytest.mark.parametrize("library", [torch_array, device_array])
def test_a_feature_that_is_seldom_active(library):
    columns = record(120_000, 5)
    columns["features"][:, 1] = 0.0
    columns["features"][7::5000, 1] = 1.0
    for problem in (mr.GLM("logistic"), mr.PolicyEvaluation(0.5)):
        here, there = both(problem, columns, library, update=TIGHT)
        assert there.converged
        assert np.abs((there.x - here.x) / here.standard_error).max() <= 0.01


@pytest.mark.parametrize("library", [torch_array, device_array])
@pytest.mark.parametrize(
    "feasible", [mr.sets.NonNegative(), mr.sets.Simplex(), mr.sets.L1Ball(0.4), mr.sets.Ball(0.3)], ids=repr
)
def test_on_feasible_sets(feasible, library):
    for problem in (mr.GLM(), mr.GLM("logistic"), mr.PolicyEvaluation(0.6)):
        here, there = both(problem, record(9000, 6), library, constraint=feasible)
        assert there.converged
        assert np.allclose(there.x, here.x, atol=1e-6)
        assert there.run.route == here.run.route == "exact"


@pytest.mark.parametrize("library", [torch_array, device_array])
def test_weights_and_ends_of_episodes_count(library):
    columns, rng = record(30_000, 5), np.random.default_rng(1)
    columns["weights"] = rng.random(30_000)
    columns["terminated"] = rng.random(30_000) < 0.1
    for problem in (mr.GLM("logistic"), mr.GLM(), mr.PolicyEvaluation(0.9)):
        names = [name for name in (*problem.required, *problem.optional) if name in columns]
        chosen = {name: columns[name] for name in names}
        here = mr.solve(problem, mr.Buffer(**chosen), update=mr.Exact())
        for update in (mr.Exact(), TIGHT):
            buffer = mr.Buffer(**{name: library(column) for name, column in chosen.items()})
            there = mr.solve(problem, buffer, update=update, backend="batched")
            assert np.abs((there.x - here.x) / here.standard_error).max() <= 0.01


@pytest.mark.parametrize("library", [torch_array, device_array])
def test_what_is_said_of_data(library):
    columns = record(9000, 3)
    columns["targets"] = (columns["features"][:, 0] > 0).astype(float)
    with pytest.warns(mr.ConvergenceWarning):
        here, there = both(mr.GLM("logistic"), columns, library)
    assert "does not exist" in there.notes[0]
    assert here.notes[0].replace(" by x[0] alone", "") == there.notes[0]  # which column it is, is seen on the host
    columns["targets"][5] = 2.0
    there = mr.Buffer(**{name: library(column) for name, column in columns.items()})
    with pytest.raises(mr.InputError, match=r"'targets' holds 2 at row 5 .* values in \[0, 1\]"):
        mr.solve(mr.GLM("logistic"), there, backend="batched")


@pytest.mark.parametrize("rows", [32, 33, 64, 1000, 4099])
@EVERY
def test_sums_over_stretches(library, rows):
    rng = np.random.default_rng(0)
    weights, features = rng.standard_normal(rows), rng.standard_normal((rows, 3))
    for count in (1, 8, 32):
        bounds = np.linspace(0, rows, count + 1).astype(np.int64)
        found = foreign.as_numpy(foreign.stretch_sums(library(weights), library(features), bounds))
        expected = [weights[a:b] @ features[a:b] for a, b in pairwise(bounds)]
        assert np.allclose(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("library", [np.array, torch_array])
def test_the_values_of_next_states_are_not_worked_out_twice(library):
    trajectory = library(record(300, 4)["features"])
    now, then = trajectory[:-2], trajectory[2:]
    assert foreign.rows_between(now, then) == 2
    assert foreign.rows_between(then, now) is None
    assert foreign.rows_between(now, library(foreign.as_numpy(then))) is None
    assert foreign.rows_between(trajectory[:-1, :3], trajectory[1:, :3]) is None
    assert foreign.rows_between(trajectory[:-2], trajectory[2:, :]) == 2
    rewards = library(record(300, 4)["rewards"][2:])
    problem = mr.PolicyEvaluation(0.9)
    found, expected = (
        mr.solve(problem, mr.Buffer(features=now, next_features=following, rewards=rewards), backend="batched")
        for following in (then, library(foreign.as_numpy(then)))
    )
    assert np.allclose(found.x, expected.x, rtol=1e-10)


@pytest.mark.parametrize("library", LIBRARIES.values(), ids=LIBRARIES)
def test_matrices_of_any_library_are_divided_by(library):
    rng = np.random.default_rng(2)
    square, values, ones = rng.standard_normal((5, 5)), rng.standard_normal((5, 2)), np.ones(5)
    for matrix in (square, square @ square.T):
        found = Slope(library(matrix), ones)
        assert np.allclose(matrix @ found.divide(values), values)
        assert np.allclose(matrix.T @ found.divide(values, transposed=True), values)
        exact = 1 / np.linalg.cond(matrix, 1)
        assert exact / 2 <= found.condition <= 5 * exact
        largest = np.linalg.norm(np.linalg.solve(matrix, square), 2)
        assert found.factors.rate(library(square), 60) == pytest.approx(largest, rel=0.01)
    for bad in (np.zeros((3, 3)), np.full((3, 3), np.nan), np.ones((3, 3))):
        assert not Slope(library(bad), ones[:3]).dependable
    assert Slope(library(square @ square.T + np.triu(square)), ones).factors.is_monotone(0.0) == (
        np.linalg.eigvalsh(2 * square @ square.T + np.triu(square) + np.triu(square).T)[0] > 0
    )
    assert not Slope(library(square @ square.T - 100 * np.eye(5)), ones).factors.is_monotone(0.0)


@pytest.fixture
def halves(monkeypatch):
    """A device on which numbers of half precision are multiplied fast, from 8 columns on."""
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(foreign, "product_of_halves", lambda left, right: (left.float().mT @ right.float()).sum(0))
    for module in (foreign, over_batches):
        monkeypatch.setattr(module, "multiplies_halves", lambda array: True)
    for module in (foreign, coarse):
        monkeypatch.setattr(module, "WIDE", 8)
    return torch


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", PROBLEMS)
def test_quick_products_change_nothing(name, dtype, halves, monkeypatch):
    link = name if name in ("exp", "identity") else "logistic"
    columns, update = record(link=link), mr.Newton(tolerance=0.001)
    seen, crossed = [], batched_features.crossed
    monkeypatch.setattr(
        batched_features, "crossed", lambda left, *rights: seen.append(len(left)) or crossed(left, *rights)
    )
    here, there = both(PROBLEMS[name], columns, torch_array, dtype, update=update)
    assert seen
    assert_equal(here, there)


def test_ends_of_episodes_and_weights_count_in_quick_products_too(halves):
    columns, rng = record(30_000, 8), np.random.default_rng(1)
    columns["weights"], columns["terminated"] = rng.random(30_000), rng.random(30_000) < 0.1
    del columns["targets"]
    problem = mr.PolicyEvaluation(0.9)
    there = mr.Buffer(**{name: torch_array(column) for name, column in columns.items()})
    batched = as_batched(problem, there["features"])
    chosen = {name: batched.column(there, name) for name in columns}
    exact, rough = (
        foreign.as_numpy(sums(np.zeros(8), {name: column.astype(np.float32) for name, column in chosen.items()}))
        for sums in (batched.jacobian_sum, batched.rough_jacobian_sum)
    )
    assert np.abs(rough - exact).max() <= 1e-3 * np.abs(exact).max()


def test_a_rough_jacobian_is_no_use_where_features_are_all_but_combinations(halves):
    columns = record(40_000, 8)
    rng = np.random.default_rng(5)
    columns["features"][:, 1] = columns["features"][:, 0] + 0.02 * rng.standard_normal(40_000)
    here, there = both(mr.GLM("logistic"), columns, torch_array, np.float32, update=TIGHT)
    assert_equal(here, there)
    samples = coarse.coarse_fit(there.run.record, np.zeros(8)).samples
    assert not samples.rough


@pytest.mark.parametrize("size", [1e-12, 0.01, 1.0, 100.0, 1e12])
def test_sizes_of_features_do_not_matter(size):
    columns = record(20_000, 5)
    for problem in (mr.GLM("logistic"), mr.PolicyEvaluation(0.9)):
        one, other = (
            mr.solve(
                problem,
                mr.Buffer(
                    **{
                        name: torch_array(column * (factor if column.ndim == 2 else 1.0))
                        for name, column in columns.items()
                        if name in problem.required
                    }
                ),
                backend="batched",
                update=TIGHT,
            )
            for factor in (1.0, np.array([size, 1.0, 1.0, 1.0, 1.0]))
        )
        moved = other.x * np.array([size, 1.0, 1.0, 1.0, 1.0])
        assert np.abs((moved - one.x) / one.standard_error).max() <= 0.01


def test_large_matrices_on_a_device_are_inverted_by_products():
    rng = np.random.default_rng(2)
    near = np.eye(300) + 0.02 * rng.standard_normal((300, 300))
    far = near.copy()
    far[0] = far[1] + 1e-7 * far[0]
    values = rng.standard_normal((300, 2))
    for matrix in (near, far):
        found = Slope(device_array(matrix), np.ones(300))
        assert np.allclose(matrix @ found.divide(values), values, atol=1e-6)
        assert np.allclose(matrix.T @ found.divide(values, transposed=True), values, atol=1e-6)
    far[0] = far[1]
    assert not Slope(device_array(far), np.ones(300)).dependable
