"""Data on which the default says that it finished, and has not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

import multireplay as mr


def away(problem, buffer, **options):
    """The distance of the default's answer to the exact fit in standard errors; 0 where it says that it failed."""
    result = mr.solve(problem, buffer, holdout=None, **options)
    errors = mr.solve(problem, buffer, update=mr.Exact()).standard_error
    return np.abs((result.x - problem.fit_exactly(buffer)) / errors).max() if result.status.ok else 0.0


def skewed(seed, dim, slope, shift):
    rng = np.random.default_rng(seed)
    A = np.exp(1.5 * rng.standard_normal((40_000, dim)))
    return mr.GLM("logistic"), mr.Buffer(
        features=A, targets=(rng.random(40_000) < expit(slope * A.sum(1) + shift)) * 1.0
    )


def skewed_counts(seed):
    rng = np.random.default_rng(seed)
    A = np.exp(1.5 * rng.standard_normal((40_000, 2)))
    return mr.GLM("exp"), mr.Buffer(features=A, targets=rng.poisson(np.exp(-0.1 * A.sum(1) - 1)).astype(float))


def rare(seed):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((40_000, 1)) * (rng.random((40_000, 1)) < 0.01)
    return mr.GLM("logistic"), mr.Buffer(features=A, targets=(rng.random(40_000) < expit(A[:, 0])) * 1.0)


def heavy(seed):
    rng = np.random.default_rng(seed)
    A = rng.standard_t(2.1, (40_000, 40))
    y = rng.random(40_000) < expit(A @ rng.standard_normal(40) * 0.1 - 3)
    return mr.GLM("logistic"), mr.Buffer(features=A, targets=y * 1.0)


def plain(seed):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((40_000, 3))
    return mr.GLM("logistic"), mr.Buffer(features=A, targets=(rng.random(40_000) < expit(0.5 * A.sum(1))) * 1.0)


LUCK = "after one correction the distance is that times the half difference of two Jacobians, which may be 0 by chance"
BREAKING = {
    "skewed": lambda: skewed(23, 1, -0.3, 0.0),  # 7.4 standard errors off, and 31 of 40 seeds more than 0.15
    "two skewed": lambda: skewed(0, 2, -0.5, -1.0),  # 85
    "skewed counts": lambda: skewed_counts(17),  # 8.6, and 29 of 40 seeds
    "rare": lambda: rare(29),  # 0.9, and 5 of 40 seeds
    "heavy": lambda: heavy(29),  # 0.6, and 2 of 32
    "plain": lambda: plain(0),  # 0.17, and 1 of 40
}


@pytest.mark.xfail(strict=True, reason=LUCK)
@pytest.mark.parametrize("name", BREAKING)
def test_finished_is_within_reach_of_the_exact_fit(name):
    assert away(*BREAKING[name]()) < 0.15


@pytest.mark.parametrize("link", ["identity", "logistic", "exp"])
def test_features_beyond_all_bounds_get_a_sentence(link):
    A = 1e200 * np.random.default_rng(0).standard_normal((3000, 3))
    with pytest.raises(mr.InputError, match=r"feature \d .* beyond the range"), np.errstate(all="ignore"):
        mr.solve(mr.GLM(link), mr.Buffer(features=A, targets=np.arange(3000.0) % 2))


@pytest.mark.xfail(strict=True, reason="LAPACK is handed an empty matrix or NaN, steps are tried, or not converged")
@pytest.mark.parametrize("link", ["identity", "logistic", "exp"])
@pytest.mark.parametrize("what", ["no feature", "no weight"])
def test_a_record_that_says_nothing(link, what):
    """Everything is free, and the shortest solution is 0."""
    A, y = np.random.default_rng(0).standard_normal((3000, 3)), np.arange(3000.0) % 2
    columns = {"features": 0 * A} if what == "no feature" else {"features": A, "weights": np.zeros(3000)}
    result = mr.solve(mr.GLM(link), mr.Buffer(targets=y, **columns))
    assert result.x.tolist() == [0.0, 0.0, 0.0]
    assert result.converged
    assert result.free


@pytest.mark.xfail(
    strict=True, reason="a 1 x 1 matrix is symmetric, Cholesky's factor of a negative one does not exist"
)
def test_a_root_of_one_coordinate_that_is_not_monotone():
    """Values that grow faster than they are discounted: LSTD has an answer, and the note says what it is worth."""
    rng = np.random.default_rng(0)
    psi = rng.uniform(1, 2, (3000, 1))
    problem = mr.PolicyEvaluation(0.9)
    buffer = mr.Buffer(features=psi, next_features=1.5 * psi, rewards=rng.standard_normal(3000) + 1)
    result = mr.solve(problem, buffer)
    assert np.allclose(result.x, problem.fit_exactly(buffer), rtol=1e-9)
    assert result.converged
    assert "not monotone" in str(result.status)
