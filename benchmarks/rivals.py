"""The data sets of the table of times to the same accuracy, their exact fits, and other libraries' ways there.

Every coordinate of the features is an AR(1) process of correlation 0.9, independent of the others ("AR(.9)"); or the
same with variances spread evenly in their logarithms from 1e-4 to 1, in random order, turned by an orthogonal cosine
transform, so that their covariance has condition number 1e4 and equal diagonal entries on average ("cond 1e4"). The
noise is independent. The exact fit is Newton's method in NumPy until its steps are below 1e-10 standard errors, which
are those under dependence, from 32 batch means of J⁻¹F̂.
Usage: python benchmarks/rivals.py prints how far every rival ends from the exact fit at its tightest setting, small
data; the times are in benchmarks/accuracy.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.fft import dct
from scipy.signal import lfilter
from scipy.special import expit
from sklearn import config_context
from sklearn import linear_model as sklearn

from multireplay.show.text import TextTable

Array = NDArray[np.float64]
WORLDS = ("AR(.9)", "cond 1e4")
CURVED = ("logistic", "Poisson")
PROBLEMS = ("policy evaluation", "linear", *CURVED)
CORRELATION, GAMMA, BATCHES = 0.9, 0.9, 32
BLOCK = 2**22
"""Bytes of features in a block, unless it is wide."""
TOLERANCES = tuple(10.0**-k for k in range(1, 9))
FINER = tuple(float(f"{10 ** (-k / 2):.1g}") for k in range(2, 17))
"""For many cheap iterations; the others' steps are large."""


class Data(NamedTuple):
    """What everybody is given: a trajectory of one row more than there are targets, and the targets or rewards."""

    problem: str
    path: Array
    targets: Array

    @property
    def features(self) -> Array:
        """A row a target."""
        return self.path[:-1]

    @property
    def next_features(self) -> Array:
        """The same, one row on."""
        return self.path[1:]

    @property
    def directions(self) -> Array:
        """What x is multiplied with: for policy evaluation a new array, so ask for it block by block."""
        here = self.features
        return here - GAMMA * self.next_features if self.problem == "policy evaluation" else here

    def blocks(self, batches: int) -> Iterator[tuple[int, Data]]:
        """Consecutive rows, none across two batches, with the number of their batch."""
        rows, dim = len(self.targets), self.path.shape[1]
        step = max(BLOCK // (8 * dim), 2 * dim)  # so that adding up d × d matrices is little beside making them
        for batch in range(batches):
            first, end = rows * batch // batches, rows * (batch + 1) // batches
            for low in range(first, end, step):
                high = min(low + step, end)
                yield batch, Data(self.problem, self.path[low : high + 1], self.targets[low:high])

    def every(self, stride: int) -> Data:
        """One row in so many, for regression."""
        kept = self.path[:-1:stride]
        return Data(self.problem, np.concatenate([kept, kept[-1:]]), self.targets[::stride])


def trajectory(world: str, rows: int, dim: int) -> Array:
    """One row more than asked for, made in blocks."""
    rng = np.random.default_rng(dim)
    path = np.empty((rows + 1, dim))
    variances = rng.permutation(np.geomspace(1e-4, 1.0, dim))
    scales = np.sqrt(variances * dim / variances.sum())
    carried = CORRELATION * rng.standard_normal((1, dim))
    for low in range(0, rows + 1, step := max(1, BLOCK // (8 * dim))):
        block = path[low : low + step]
        rng.standard_normal(out=block)
        block *= np.sqrt(1 - CORRELATION**2)
        block[:], carried = lfilter([1.0], [1.0, -CORRELATION], block, axis=0, zi=carried)
        if world == "cond 1e4":
            block[:] = dct(block * scales, norm="ortho", axis=1)
    return path


def with_targets(problem: str, path: Array) -> Data:
    """Targets of a random x that gives scores of variance 1, a quarter for Poisson."""
    rng = np.random.default_rng(path.shape[1] + 1)
    scores = path[:-1] @ rng.standard_normal(path.shape[1])
    scores /= scores.std()
    if problem == "logistic":
        return Data(problem, path, (rng.random(len(scores)) < expit(scores)).astype(np.float64))
    if problem == "Poisson":
        return Data(problem, path, rng.poisson(np.exp(scores / 2)).astype(np.float64))
    return Data(problem, path, scores + rng.standard_normal(len(scores)))


def means_and_slopes(problem: str, scores: Array) -> tuple[Array, Array]:
    """The link and its derivative."""
    if problem == "logistic":
        return (means := expit(scores)), means * (1 - means)
    return (np.exp(scores),) * 2 if problem == "Poisson" else (scores, np.ones_like(scores))


def batch_residuals(data: Data, x: Array) -> Array:
    """A column a batch, whose mean is F̂(x)."""
    sums = np.zeros((len(x), BATCHES))
    for batch, block in data.blocks(BATCHES):
        means, _ = means_and_slopes(data.problem, block.directions @ x)
        sums[:, batch] += block.features.T @ (means - block.targets)
    return sums * (BATCHES / len(data.targets))


def jacobian(data: Data, x: Array) -> Array:
    """Of F̂ at x."""
    total = np.zeros((len(x), len(x)))
    for _, block in data.blocks(1):
        if data.problem == "policy evaluation":
            total += block.features.T @ block.directions
        else:
            _, slopes = means_and_slopes(data.problem, block.features @ x)
            weighted = np.sqrt(slopes)[:, None] * block.features
            total += weighted.T @ weighted
    return total / len(data.targets)


def newton(data: Data, x: Array, until: float) -> tuple[Array, Array]:
    """The root of F̂ and its standard errors; J is worked out anew while steps are above one standard error."""
    linear = data.problem in ("policy evaluation", "linear")
    factors, before = None, np.inf
    for _ in range(60):
        factors = factors or scipy.linalg.lu_factor(jacobian(data, x))
        moves = scipy.linalg.lu_solve(factors, batch_residuals(data, x))
        step, errors = moves.mean(axis=1), moves.std(axis=1, ddof=1) / np.sqrt(BATCHES)
        x, size = x - step, np.abs(step / errors).max()
        if size < until or (size < 1e-6 and size > before / 2):  # nothing but rounding is left
            return x, errors
        if not linear and (size > 1 or size > before / 4):
            factors = None
        before = size
    raise RuntimeError(f"the exact fit was not found: the last step was {size:.1e} standard errors")


def exact_fit(data: Data) -> tuple[Array, Array]:
    """The exact fit and its standard errors, from that of one row in so many on."""
    x, stride = np.zeros(data.path.shape[1]), len(data.targets) // max(20 * data.path.shape[1], 20_000)
    if stride > 1 and data.problem in ("logistic", "Poisson"):
        x, _ = newton(data.every(stride), x, until=0.1)
    return newton(data, x, until=1e-10)


def lstd(data: Data, _: None) -> Array:
    F = data.features
    return np.linalg.solve(F.T @ (F - GAMMA * data.next_features), F.T @ data.targets)


def lstd_in_blocks(data: Data, _: None) -> Array:
    total = np.zeros((data.path.shape[1],) * 2)
    for _, block in data.blocks(1):
        total += block.features.T @ block.directions
    return np.linalg.solve(total, data.features.T @ data.targets)


def normal_equations(data: Data, _: None) -> Array:
    F = data.features
    return scipy.linalg.solve(F.T @ F, F.T @ data.targets, assume_a="pos")


def least_squares(data: Data, _: None) -> Array:
    return sklearn.LinearRegression(fit_intercept=False, copy_X=False).fit(data.features, data.targets).coef_


def ridge(data: Data, _: None) -> Array:
    model = sklearn.Ridge(alpha=1e-9, solver="cholesky", fit_intercept=False, copy_X=False)
    return model.fit(data.features, data.targets).coef_


def by_sklearn(solver: str) -> Callable[[Data, float], Array]:
    def fit(data: Data, tol: float) -> Array:
        how: dict[str, Any] = {"solver": solver, "tol": tol, "max_iter": 10_000, "fit_intercept": False}
        logistic = data.problem == "logistic"
        model = sklearn.LogisticRegression(C=np.inf, **how) if logistic else sklearn.PoissonRegressor(alpha=0, **how)
        return np.ravel(model.fit(data.features, data.targets).coef_)

    return fit


def by_glum(data: Data, tol: float) -> Array:
    from glum import GeneralizedLinearRegressor

    family = {"linear": "normal", "logistic": "binomial", "Poisson": "poisson"}[data.problem]
    model = GeneralizedLinearRegressor(
        alpha=0, family=family, fit_intercept=False, gradient_tol=tol, max_iter=1000, copy_X=False, check_input=False
    )
    return model.fit(data.features, data.targets).coef_


def by_statsmodels(data: Data, tol: float) -> Array:
    import statsmodels.api as sm

    if data.problem == "linear":
        return sm.OLS(data.targets, data.features).fit().params
    if data.problem == "logistic":
        return sm.Logit(data.targets, data.features).fit(method="newton", tol=tol, maxiter=1000, disp=0).params
    return sm.GLM(data.targets, data.features, family=sm.families.Poisson()).fit(tol=tol, maxiter=1000).params


class Method(NamedTuple):
    """A way to fit, the problems it is for, its settings from loose to tight, and up to which d it ends.

    One whose rows cost O(d) may come back at larger d after it was slow; others cost O(d²) and only fall behind.
    """

    fit: Callable[[Data, Any], Any]
    problems: tuple[str, ...]
    settings: tuple[float | None, ...] = (None,)
    widest: int = 10**9
    may_come_back: bool = False


RIVALS = {
    "LSTD": Method(lstd, ("policy evaluation",)),
    "LSTD in blocks": Method(lstd_in_blocks, ("policy evaluation",)),
    "normal equations": Method(normal_equations, ("linear",)),
    "LinearRegression": Method(least_squares, ("linear",)),
    "Ridge": Method(ridge, ("linear",)),
    "newton-cholesky": Method(by_sklearn("newton-cholesky"), CURVED, TOLERANCES),
    "L-BFGS": Method(by_sklearn("lbfgs"), CURVED, FINER, may_come_back=True),
    "glum": Method(by_glum, ("linear", *CURVED), TOLERANCES),
    "statsmodels": Method(by_statsmodels, ("linear", *CURVED), TOLERANCES, widest=100),
}


def check(rows: int = 20_000, dim: int = 16) -> TextTable:
    """How far every rival ends from the exact fit, worst coordinate in standard errors."""
    lines = []
    for world in WORLDS:
        path = trajectory(world, rows, dim)
        for problem in PROBLEMS:
            data = with_targets(problem, path)
            x, errors = exact_fit(data)
            for name, method in RIVALS.items():
                if problem in method.problems:
                    distance = np.abs((method.fit(data, method.settings[-1]) - x) / errors).max()
                    lines.append({"world": world, "problem": problem, "rival": name, "distance": f"{distance:.0e}"})
    return TextTable(lines, title=f"Worst coordinate, in standard errors from the exact fit: {rows} rows, d = {dim}")


if __name__ == "__main__":
    with warnings.catch_warnings(), config_context(assume_finite=True):
        warnings.simplefilter("ignore")
        print(check())
