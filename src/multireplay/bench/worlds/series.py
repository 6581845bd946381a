"""Autoregressive series with the solution known: regressions on them, the values of their states, and a real one."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
from scipy.signal import lfilter
from scipy.special import expit

import multireplay as mr
from multireplay._check import Vector
from multireplay.bench.world import LENGTHS, Listing, Size, World, needed, simulated_world
from multireplay.diagnose.autocorrelation import integrated_autocorrelation_time
from multireplay.simulate import AutoregressiveLogistic

DIM = 20
LINKS = {"identity": ("linear", 1.0), "logistic": ("logistic", 2.0), "exp": ("Poisson", 0.5)}
"""Name and standard deviation of aᵀx* by link; small for Poisson, so that no rate explodes."""

WIDE: dict[Size, int] = {"full": 1000, "small": 40}
WIDE_RHO, WIDE_GAMMA = 0.9, 0.5

LAGS = (1, 2, 3, 4, 6, 8, 13, 26, 39, 52)


def autoregression(rho: float, length: int, dim: int, rng: np.random.Generator) -> Vector:
    """`dim` independent stationary AR(1) series of variance 1."""
    shocks = rng.standard_normal((length, dim))
    shocks[1:] *= np.sqrt(1 - rho**2)
    return np.asarray(lfilter([1.0], [1.0, -rho], shocks, axis=0))


def glm(link: str, rho: float, noise_rho: float, size: Size, cache: Path) -> World:
    """y of mean f(aᵀx*) with a_{t+1} = ρa_t + ε_t in 20 dimensions, of covariance .5^|i−j|.

    Linear targets have Gaussian noise of variance 1, itself AR(1) with parameter `noise_rho`.
    """
    problem = mr.GLM(link)
    covariance = scipy.linalg.toeplitz(0.5 ** np.arange(DIM))
    root = np.linalg.cholesky(covariance)
    direction = np.random.default_rng(11).standard_normal(DIM)
    solution = LINKS[link][1] * direction / np.sqrt(direction @ covariance @ direction)

    def record(seed: Any) -> mr.Buffer:
        rng = np.random.default_rng(seed)
        features = autoregression(rho, LENGTHS[size], DIM, rng) @ root.T
        scores = features @ solution
        if link == "logistic":
            targets = (rng.random(len(scores)) < expit(scores)).astype(np.float64)
        elif link == "exp":
            targets = rng.poisson(np.exp(scores)).astype(np.float64)
        else:
            targets = scores + autoregression(noise_rho, len(scores), 1, rng)[:, 0]
        return mr.Buffer(features=features, targets=targets)

    slope = mean_slope(problem, covariance, solution)
    time = -1 / np.log(rho) if rho else 0.0
    return World(problem, record, solution, covariance, slope, time, yardstick="maximum likelihood")


def mean_slope(problem: mr.GLM, covariance: Vector, x: Vector) -> Vector:
    """E[f'(aᵀx) aaᵀ] for a ~ N(0, Σ), by Gauss–Hermite quadrature along the one direction that matters."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    weights = weights / weights.sum()
    spread = float(np.sqrt(x @ covariance @ x))
    slopes = problem.link.derivative(spread * nodes)
    along = covariance @ x / spread
    flat, curved = weights @ slopes, weights @ (slopes * nodes**2)
    return np.asarray(flat * covariance + (curved - flat) * np.outer(along, along))


def vector_autoregression(size: Size, cache: Path) -> World:
    """s_{t+1} = M s_t + ε_t in 10 dimensions with spectral radius .95; the next first coordinate is predicted."""
    rng = np.random.default_rng(5)
    matrix = rng.standard_normal((10, 10))
    matrix *= 0.95 / np.abs(np.linalg.eigvals(matrix)).max()
    covariance = scipy.linalg.solve_discrete_lyapunov(matrix, np.eye(10))
    root = np.linalg.cholesky(covariance)

    def record(seed: Any) -> mr.Buffer:
        rng = np.random.default_rng(seed)
        states = rng.standard_normal((LENGTHS[size] + 1, 10))
        states[0] = root @ states[0]
        for t in range(LENGTHS[size]):
            states[t + 1] += matrix @ states[t]
        return mr.Buffer(features=states[:-1], targets=np.ascontiguousarray(states[1:, 0]))

    return World(mr.GLM(), record, matrix[0], covariance, covariance, -1 / np.log(0.95), yardstick="least squares")


def logistic_world(simulated: AutoregressiveLogistic, length: int, ridges: tuple[float, ...] = (0.0,)) -> World:
    """Records of the paper's logistic regression: maximum likelihood overfits, the best ridge does not."""
    slope = mean_slope(simulated.problem, simulated.weight, simulated.solution)
    return simulated_world(simulated, length, slope, -1 / np.log(0.995), ridges=ridges, yardstick="best ridge")


def paper_logistic(size: Size, cache: Path) -> World:
    """The paper's logistic regression, d = 1000 and 10000 rows.

    One matrix A and one solution for all records, unlike in the paper's figure, where both are new every time.
    """
    dim, length = (1000, 10_000) if size == "full" else (60, 600)
    simulated = AutoregressiveLogistic(dim, dim * 2 // 5, seed=3)
    return logistic_world(simulated, length, (1e-2, 3e-2, 1e-1, 3e-1, 1.0))


def wide(size: Size, cache: Path) -> World:
    """Policy evaluation with many features, where an exact fit costs d times as much as a pass.

    s' = φs + ε in 1000 independent coordinates, φ = .9, and r = ⟨w, s⟩ + noise that is AR(1) with the same φ. The
    features are the state itself, so that the value function is ⟨w, s⟩/(1 − γφ) for every s; γ = .5.
    """
    dim = WIDE[size]
    weights = np.random.default_rng(13).standard_normal(dim) / np.sqrt(dim)
    slope = 1 - WIDE_GAMMA * WIDE_RHO

    def record(seed: Any) -> mr.Buffer:
        rng = np.random.default_rng(seed)
        states = autoregression(WIDE_RHO, LENGTHS[size] + 1, dim, rng)
        noise = autoregression(WIDE_RHO, LENGTHS[size], 1, rng)[:, 0]
        return mr.Buffer(features=states[:-1], next_features=states[1:], rewards=states[:-1] @ weights + noise)

    problem, eye = mr.PolicyEvaluation(WIDE_GAMMA), np.eye(dim)
    return World(problem, record, weights / slope, eye, slope * eye, -1 / np.log(WIDE_RHO))


def weekly_changes() -> Vector:
    """Week-to-week changes of CO2 at Mauna Loa, shipped with statsmodels, gaps interpolated, scaled to variance 1."""
    extra = "the CO2 record needs statsmodels: pip install 'multireplay[compare]'"
    co2 = needed("statsmodels.datasets.co2", extra)
    values = np.asarray(co2.load_pandas().data["co2"], dtype=np.float64)
    known = np.isfinite(values)
    weeks = np.arange(len(values))
    changes = np.diff(np.interp(weeks, weeks[known], values[known]))
    return np.asarray(changes / changes.std())


def carbon_dioxide(size: Size, cache: Path) -> World:
    """Next week's change by linear regression on ten lags and a constant.

    No population solution exists. The reference x* is least squares on the whole record; the methods and the
    yardstick see a window of two thirds of it, which starts at a place that depends on the seed.
    """
    changes, start, problem = weekly_changes(), max(LAGS), mr.GLM()
    columns = [changes[start - lag : len(changes) - lag] for lag in LAGS]
    features = np.column_stack([*columns, np.ones(len(columns[0]))])
    whole = mr.Buffer(features=features, targets=changes[start:])
    gram = features.T @ features / len(features)
    length = int(2 / 3 * len(features))

    def record(seed: Any) -> mr.Buffer:
        first = int(np.random.default_rng(seed).integers(len(features) - length + 1))
        return whole[first : first + length]

    return World(
        problem=problem,
        record=record,
        solution=problem.fit_exactly(whole),
        weight=gram,
        jacobian=gram,
        time=float(np.max(integrated_autocorrelation_time(changes))) / 2,
        yardstick="least squares",
        reference="least squares on the whole record; methods see windows of two thirds of it",
    )


WORLDS = (
    Listing("paper logistic d=1000", "paper", paper_logistic, 30.0),
    Listing("AR states, 1000 features", "hard", wide, 24.0),
    *(
        Listing(f"{name} ρ={rho:g}", "glm", partial(glm, link, rho, 0.0), 1.5)
        for link, (name, _) in LINKS.items()
        for rho in (0.0, 0.9, 0.99, 0.999)
    ),
    *(Listing(f"linear ρ={rho:g}, AR noise", "glm", partial(glm, "identity", rho, rho), 1.5) for rho in (0.9, 0.99)),
    Listing("vector autoregression", "glm", vector_autoregression, 1.5),
    Listing("CO2 at Mauna Loa (real)", "glm", carbon_dioxide, 0.5),
)
