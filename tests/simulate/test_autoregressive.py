"""The autoregressive world of the paper's logistic regression: its laws, along the eigenvectors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.special import expit

import multireplay as mr
from multireplay.simulate import AutoregressiveLogistic


def along_eigenvectors(world, buffer):
    return buffer["features"] @ world.rotation


def autocorrelation(z):
    return (z[1:] * z[:-1]).mean(axis=0) / (z**2).mean(axis=0)


@pytest.fixture(scope="module")
def world():
    return AutoregressiveLogistic(dim=6, slow=3, seed=1)


def test_rotation_and_solution(world):
    assert np.allclose(world.rotation @ world.rotation.T, np.eye(6), atol=1e-14)
    assert np.linalg.norm(world.solution) == pytest.approx(1.0)
    assert np.linalg.norm(AutoregressiveLogistic(6, 3, radius=2.5).solution) == pytest.approx(2.5)
    assert np.array_equal(world.eigenvalues[:3], [0.995] * 3)
    assert np.abs(world.eigenvalues[3:]).max() < 0.05
    assert np.allclose(world.weight @ world.rotation, world.rotation * world.variances)


def test_the_stationary_variances_are_those_of_the_recursion(world):
    assert np.allclose(world.variances, world.eigenvalues**2 * world.variances + 0.01)


def test_variances_and_autocorrelation_of_a_record(world):
    z = along_eigenvectors(world, world.buffer(400_000, seed=2))
    # a slow coordinate of this length is worth about 1000 independent ones
    assert (z**2).mean(axis=0) / world.variances == pytest.approx(np.ones(6), abs=0.2)
    assert (z[:, 3:] ** 2).mean(axis=0) / world.variances[3:] == pytest.approx(np.ones(3), abs=0.01)
    assert autocorrelation(z) == pytest.approx(world.eigenvalues, abs=0.01)
    assert autocorrelation(z)[:3] == pytest.approx(0.995, abs=0.002)
    shocks = z[1:] - world.eigenvalues * z[:-1]
    assert shocks.std(axis=0) == pytest.approx(np.full(6, 0.1), rel=0.01)


@pytest.mark.parametrize("burn_in", [0, 1, 100, 10_000])
def test_law_after_the_burn_in(burn_in):
    world = AutoregressiveLogistic(dim=4, slow=2, seed=1, burn_in=burn_in)
    first = np.array([along_eigenvectors(world, world.buffer(1, seed=seed))[0] for seed in range(4000)])
    expected = np.zeros(4)
    for _ in range(burn_in):
        expected = world.eigenvalues**2 * expected + 0.01
    assert (first**2).mean(axis=0) == pytest.approx(expected, rel=0.12)
    if burn_in == 0:
        assert not first.any()


def test_one_record_is_one_recursion_also_after_its_start():
    world = AutoregressiveLogistic(dim=4, slow=2, seed=1, burn_in=0)
    second = np.array([along_eigenvectors(world, world.buffer(2, seed=seed))[1] for seed in range(4000)])
    assert (second**2).mean(axis=0) == pytest.approx(np.full(4, 0.01), rel=0.12)


def test_bernoulli_targets_have_the_right_mean(world):
    buffer = world.independent_buffer(200_000, seed=3)
    mean = expit(buffer["features"] @ world.solution)
    assert set(np.unique(buffer["targets"])) == {0.0, 1.0}
    edges = np.quantile(mean, np.linspace(0, 1, 11))
    for low, high in itertools.pairwise(edges):
        inside = (mean >= low) & (mean <= high)
        assert buffer["targets"][inside].mean() == pytest.approx(mean[inside].mean(), abs=0.015)
    assert np.allclose(world.problem.fit_exactly(buffer), world.solution, atol=0.15)


def test_gaussian_targets():
    world = AutoregressiveLogistic(dim=4, slow=2, seed=1, response="gaussian", noise=0.3)
    buffer = world.buffer(100_000, seed=3)
    residuals = buffer["targets"] - expit(buffer["features"] @ world.solution)
    assert residuals.mean() == pytest.approx(0.0, abs=0.005)
    assert residuals.std() == pytest.approx(0.3, rel=0.02)


def test_independent_samples_have_the_same_law_and_no_memory(world):
    z = along_eigenvectors(world, world.independent_buffer(100_000, seed=2))
    assert (z**2).mean(axis=0) / world.variances == pytest.approx(np.ones(6), abs=0.03)
    assert autocorrelation(z) == pytest.approx(np.zeros(6), abs=0.02)


def test_seeds(world):
    assert np.array_equal(world.buffer(10, seed=4)["features"], world.buffer(10, seed=4)["features"])
    assert not np.array_equal(world.buffer(10, seed=4)["features"], world.buffer(10, seed=5)["features"])


def test_its_own_problem_takes_gaussian_targets():
    world = AutoregressiveLogistic(dim=4, slow=2, seed=1, response="gaussian", noise=0.3)
    buffer = world.independent_buffer(50_000, seed=3)
    assert buffer["targets"].min() < 0
    assert buffer["targets"].max() > 1
    assert world.problem.fit_exactly(buffer) == pytest.approx(world.solution, abs=0.1)
    assert mr.solve(world.problem, buffer).x == pytest.approx(world.solution, abs=0.1)
    slowly = mr.solve(world.problem, buffer, replay=mr.Shuffle(0), step=0.05, average="full").x
    assert slowly == pytest.approx(world.solution, abs=0.2)
    with pytest.raises(mr.InputError, match="the logistic link needs values in"):
        AutoregressiveLogistic(dim=4, slow=2).problem.fit_exactly(buffer)


def test_wrong_noise():
    with pytest.raises(mr.InputError, match="noise must be a number of at least 0"):
        AutoregressiveLogistic(dim=4, slow=2, response="gaussian", noise=-1.0)
