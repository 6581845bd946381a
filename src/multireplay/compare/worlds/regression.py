"""Regressions on autoregressive covariates, with the solution known."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
from scipy.signal import lfilter
from scipy.special import expit

from multireplay._check import Vector
from multireplay.buffer.buffer import Buffer
from multireplay.compare.worlds.base import LENGTHS, Entry, World, fit
from multireplay.problems import GLM
from multireplay.reproduce.worlds import Size
from multireplay.simulate import AutoregressiveLogistic

DIM = 20
SPREADS = {"identity": 1.0, "logistic": 2.0, "exp": 0.5}
"""Standard deviation of aᵀx* by link; small for Poisson, so that no rate explodes."""


def autoregression(rho: float, length: int, dim: int, rng: np.random.Generator) -> Vector:
    """`dim` independent stationary AR(1) series of variance 1."""
    shocks = rng.standard_normal((length, dim))
    shocks[1:] *= np.sqrt(1 - rho**2)
    return np.asarray(lfilter([1.0], [1.0, -rho], shocks, axis=0))


def glm(link: str, rho: float, noise_rho: float, size: Size, cache: Path) -> World:
    """y of mean f(aᵀx*) with a_{t+1} = ρa_t + ε_t in 20 dimensions, of covariance .5^|i−j|.

    Linear targets have Gaussian noise of variance 1, itself AR(1) with parameter `noise_rho`.
    """
    problem = GLM(link)
    covariance = scipy.linalg.toeplitz(0.5 ** np.arange(DIM))
    root = np.linalg.cholesky(covariance)
    direction = np.random.default_rng(11).standard_normal(DIM)
    solution = SPREADS[link] * direction / np.sqrt(direction @ covariance @ direction)

    def record(seed: Any) -> Buffer:
        rng = np.random.default_rng(seed)
        features = autoregression(rho, LENGTHS[size], DIM, rng) @ root.T
        scores = features @ solution
        if link == "logistic":
            targets = (rng.random(len(scores)) < expit(scores)).astype(np.float64)
        elif link == "exp":
            targets = rng.poisson(np.exp(scores)).astype(np.float64)
        else:
            targets = scores + autoregression(noise_rho, len(scores), 1, rng)[:, 0]
        return Buffer(features=features, targets=targets)

    return World(
        problem=problem,
        record=record,
        solution=solution,
        weight=covariance,
        jacobian=mean_slope(problem, covariance, solution),
        time=-1 / np.log(rho) if rho else 0.0,
        exact=fit(problem),
        yardstick="maximum likelihood",
    )


def mean_slope(problem: GLM, covariance: Vector, x: Vector) -> Vector:
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
    problem = GLM()

    def record(seed: Any) -> Buffer:
        rng = np.random.default_rng(seed)
        states = rng.standard_normal((LENGTHS[size] + 1, 10))
        states[0] = root @ states[0]
        for t in range(LENGTHS[size]):
            states[t + 1] += matrix @ states[t]
        return Buffer(features=states[:-1], targets=np.ascontiguousarray(states[1:, 0]))

    return World(
        problem=problem,
        record=record,
        solution=matrix[0],
        weight=covariance,
        jacobian=covariance,
        time=-1 / np.log(0.95),
        exact=fit(problem),
        yardstick="least squares",
    )


def paper_logistic(size: Size, cache: Path) -> World:
    """The paper's logistic regression, d = 1000 and 10000 rows: maximum likelihood overfits, the best ridge does not.

    One matrix A and one solution for all records, unlike in the paper's figure, where both are new every time.
    """
    dim, length = (1000, 10_000) if size == "full" else (60, 600)
    simulated = AutoregressiveLogistic(dim, dim * 2 // 5, seed=3)
    return World(
        problem=simulated.problem,
        record=partial(simulated.buffer, length),
        solution=simulated.solution,
        weight=simulated.weight,
        jacobian=mean_slope(simulated.problem, simulated.weight, simulated.solution),
        time=-1 / np.log(0.995),
        exact=fit(simulated.problem),
        ridges=(1e-2, 3e-2, 1e-1, 3e-1, 1.0),
        yardstick="best ridge",
    )


_NAMES = {"identity": "linear", "logistic": "logistic", "exp": "Poisson"}

ENTRIES = (
    Entry("paper logistic d=1000", "paper", paper_logistic, 30.0),
    *(
        Entry(f"{name} ρ={rho:g}", "glm", partial(glm, link, rho, 0.0), 1.5)
        for link, name in _NAMES.items()
        for rho in (0.0, 0.9, 0.99, 0.999)
    ),
    *(Entry(f"linear ρ={rho:g}, AR noise", "glm", partial(glm, "identity", rho, rho), 1.5) for rho in (0.9, 0.99)),
    Entry("vector autoregression", "glm", vector_autoregression, 1.5),
)
