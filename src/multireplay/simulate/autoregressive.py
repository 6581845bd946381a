"""Autoregressive covariates and a response of logistic mean: the paper's logistic regression."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from scipy.special import expit

from multireplay._check import Vector, number_in, whole_number
from multireplay._jit import jit
from multireplay.buffer.buffer import Buffer
from multireplay.errors import InputError
from multireplay.problems import GLM

SLOW = 0.995


class AutoregressiveLogistic:
    """Covariates a_{t+1} = A a_t + ε_t with A = QEQᵀ, responses y_t of mean f(a_tᵀx*) (Eq. autoregressive).

    The first `slow` eigenvalues of A are 0.995, the others draws from N(0, 10⁻⁴); Q is a uniformly random rotation;
    ε_t has independent N(0, 10⁻²) entries. The process is simulated in the eigenbasis, coordinate by coordinate, and
    rotated by one matrix product, which is exact. So is the burn-in: after n steps from 0 a coordinate with
    eigenvalue λ has law N(0, 10⁻²(1 − λ²ⁿ)/(1 − λ²)), from which it is drawn.

    Parameters
    ----------
    dim, slow : int
        d and d_L of the paper.
    seed : int or sequence of int
        Seed of A and x*.
    burn_in : int
        Steps from 0 before the first covariate.
    response, noise : "bernoulli" or "gaussian", float
        Bernoulli targets, or f(a_tᵀx*) plus N(0, noise²), which is the paper's model (Eq. GLM_model).
    radius : float
        x* is uniform on the sphere of this radius.

    Attributes
    ----------
    problem, solution
        Logistic regression, what to solve from its buffers, and x*. Gaussian targets leave [0, 1], so that it is
        ``GLM("logistic", check_targets=False)`` for them.
    eigenvalues, rotation
        E, and Q with the eigenvectors as columns.

    Examples
    --------
    >>> from multireplay import simulate
    >>> world = simulate.AutoregressiveLogistic(dim=20, slow=8, seed=0)
    >>> buffer = world.buffer(length=1000, seed=1)
    >>> buffer
    Buffer(1000 rows: features (1000, 20) float64, targets (1000,) float64)
    >>> round(float(world.variances.max()), 4)
    1.0025
    """

    def __init__(
        self,
        dim: int = 1000,
        slow: int = 400,
        seed: Any = 0,
        burn_in: int = 10_000,
        response: Literal["bernoulli", "gaussian"] = "bernoulli",
        noise: float = 0.1,
        radius: float = 1.0,
    ) -> None:
        dim = whole_number("dim", dim, least=1)
        slow = whole_number("slow", slow, least=0)
        if slow > dim:
            raise InputError(f"slow must be at most dim, {dim}, not {slow}")
        if response not in ("bernoulli", "gaussian"):
            raise InputError(f"response must be 'bernoulli' or 'gaussian', not {response!r}")
        rng = np.random.default_rng(seed)
        self.eigenvalues = np.concatenate([np.full(slow, SLOW), 0.01 * rng.standard_normal(dim - slow)])
        q, r = np.linalg.qr(rng.standard_normal((dim, dim)))
        self.rotation = q * np.sign(np.diag(r))  # the signs make it uniform over all rotations and reflections
        direction = rng.standard_normal(dim)
        self.solution = radius * direction / np.linalg.norm(direction)
        self.burn_in = whole_number("burn_in", burn_in, least=0)
        self.response = response
        self.noise = number_in("noise", noise)
        self.problem = GLM("logistic", check_targets=response == "bernoulli")

    @property
    def variances(self) -> Vector:
        """Stationary variance along each eigenvector."""
        return 0.01 / (1 - self.eigenvalues**2)

    @property
    def weight(self) -> Vector:
        """The stationary covariance Σ, the matrix of the norm ‖aᵀx‖_π."""
        return np.asarray((self.rotation * self.variances) @ self.rotation.T)

    def buffer(self, length: int, seed: Any) -> Buffer:
        """`length` consecutive samples, after the burn-in."""
        length = whole_number("length", length, least=1)
        rng = np.random.default_rng(seed)
        scale = np.sqrt(self.variances * (1 - self.eigenvalues ** (2 * self.burn_in)))
        start = scale * rng.standard_normal(len(scale))
        shocks = 0.1 * rng.standard_normal((length, len(scale)))
        return self._observe(_autoregression(start, self.eigenvalues, shocks), rng)

    def independent_buffer(self, length: int, seed: Any) -> Buffer:
        """`length` independent samples from the stationary law N(0, Σ): what no one has, for comparison."""
        length = whole_number("length", length, least=1)
        rng = np.random.default_rng(seed)
        return self._observe(np.sqrt(self.variances) * rng.standard_normal((length, len(self.variances))), rng)

    def _observe(self, coordinates: Vector, rng: np.random.Generator) -> Buffer:
        features = coordinates @ self.rotation.T
        mean = expit(features @ self.solution)
        if self.response == "bernoulli":
            targets = (rng.random(len(mean)) < mean).astype(np.float64)
        else:
            targets = mean + self.noise * rng.standard_normal(len(mean))
        return Buffer(features=features, targets=targets)

    def __repr__(self) -> str:
        slow = int((self.eigenvalues == SLOW).sum())
        return f"AutoregressiveLogistic(dim={len(self.eigenvalues)}, slow={slow}, response={self.response!r})"


@jit
def _autoregression(start: Vector, eigenvalues: Vector, shocks: Vector) -> Vector:
    """z_1 = start, z_{t+1} = λ z_t + ε_t by coordinate, written over the shocks."""
    state = start.copy()
    for t in range(len(shocks)):
        for j in range(len(state)):
            shock = shocks[t, j]
            shocks[t, j] = state[j]
            state[j] = eigenvalues[j] * state[j] + shock
    return shocks
