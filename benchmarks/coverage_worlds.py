"""Records with a known truth for the table of coverage, and how many independent rows each is worth.

Regressions have a constant and features that are AR(ρ) each, normal, independent of each other and of the noise.
What makes the noise dependent leaves the mean response, and so the truth, exactly as it is:

- linear: y = xθ + u with u an AR(ρ).
- logistic: y = 1 where Φ(z) > 1 − Λ(xθ), z a normal AR(ρ): marginally P(y = 1 | x) = Λ(xθ), whatever ρ.
- Poisson: y is Poisson with mean exp(xθ) g, log g a normal AR(ρ) with E g = 1: E(y | x) = exp(xθ), overdispersed.

Other noises: t₃ innovations ("heavy"), a cycle of 24 in features and noise, a quarter apart, with AR(.9) on both
("periodic"), ARFIMA(0, .3, 0) in both ("long memory"), white noise that hides .1 AR(.999) ("hidden"), an indicator that
is on in 2 % of the rows, 20 at a time ("rare"). Chains have 10 states in a table of their own ("tabular", with
one that 2 % of the jumps lead to), or 50 on a ring with 5 features that cannot hold the value ("misspecified"); they
stay where they are with probability ρ. Their truth is the projected fixed point of the known chain,
ΦᵀD(I − γP)Φθ = ΦᵀDr.
Usage: python benchmarks/coverage_worlds.py prints all cells.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, rfft
from scipy.special import expit, ndtr

import multireplay as mr

Array = NDArray[np.float64]
LINKS = {"linear": "identity", "logistic": "logistic", "Poisson": "exp"}
MEANS = {"linear": lambda score: score, "logistic": expit, "Poisson": np.exp}
SLOPES = {"logistic": lambda score: expit(score) * expit(-score), "Poisson": np.exp}
CURVED = tuple(SLOPES)
CHAINS = ("tabular", "misspecified")
RHOS, ROWS, DIMS = (0.0, 0.5, 0.9, 0.99), (2_000, 20_000, 200_000), (5, 20, 100)
GAMMA, STATES, RING = 0.9, 10, 50
LOOKED_AT = 8
"""Coordinates that effective sample sizes are worked out for: the constant and some slopes, which are alike."""
SEED = 15_000_029
"""Of all reported numbers, and of nothing else."""


@dataclass(frozen=True)
class Cell:
    """One line of the table."""

    family: str
    rho: float
    rows: int
    dim: int

    def __str__(self) -> str:
        return f"{self.family}, ρ = {self.rho:g}, n = {self.rows}, d = {self.dim}"

    def generator(self, replication: int, seed: int = SEED) -> np.random.Generator:
        """The random numbers of one replication, the same whatever else is run."""
        return np.random.Generator(np.random.SFC64([seed, zlib.crc32(str(self).encode()), replication]))

    @property
    def problem(self) -> str:
        return self.family if self.family in LINKS else "chain" if self.family in CHAINS else "linear"

    @property
    def cost(self) -> float:
        return self.rows * (self.dim + 5.0)


def all_cells() -> list[Cell]:
    """The whole table, cheapest first."""
    found = [Cell("mean", rho, rows, 1) for rho in RHOS for rows in ROWS]
    found += [Cell(name, rho, rows, dim) for name in LINKS for rho in RHOS for rows in ROWS for dim in DIMS]
    found += [Cell("tabular", rho, rows, STATES) for rho in (0.0, 0.9, 0.99) for rows in ROWS]
    found += [Cell("misspecified", rho, rows, 5) for rho in (0.0, 0.9, 0.99) for rows in ROWS]
    found += [Cell("heavy", rho, rows, 5) for rho in (0.0, 0.5, 0.9) for rows in ROWS[:2]]
    found += [Cell("periodic", 0.9, rows, 5) for rows in ROWS] + [Cell("hidden", 0.999, rows, 1) for rows in ROWS]
    found += [Cell("long memory", 0.0, rows, dim) for rows in ROWS for dim in (1, 5)]
    found += [Cell("rare", 0.95, rows, 2) for rows in ROWS]
    return sorted(found, key=lambda cell: cell.cost)


class Sample(NamedTuple):
    """One record, its truth, and what is asked of it: linear functions of x, a row each."""

    problem: mr.problems.Problem
    columns: dict[str, Any]
    truth: Array
    functions: Array
    features: Array
    family: str
    back: Array | None = None
    """What makes images of scores, in chains: the inverse of the true J and the functions."""

    def images(self, x: Array, which: Array) -> tuple[Array, Array]:
        """Some functions of the exact fit near x, and what every row alone would move them by: cᵀJ⁻¹F̃_t at the fit."""
        if self.family == "chain":
            jacobian = self.features.T @ (self.features - GAMMA * self.after) / len(self.features)
            x = np.linalg.solve(jacobian, self.features.T @ self.columns["rewards"] / len(self.features))
        else:  # the library's own fit is within a tenth of a standard error: one more of Newton's steps is exact
            for _ in range(2 if self.family in CURVED else 1):
                score = self.features @ x
                slopes = SLOPES[self.family](score)[:, None] if self.family in CURVED else 1.0
                jacobian = (self.features * slopes).T @ self.features / len(score)
                x = x - np.linalg.solve(jacobian, self.features.T @ self.errors(x) / len(score))
        back = np.linalg.solve(jacobian.T, which.T)
        return which @ x, (self.features @ back) * self.errors(x)[:, None]

    @property
    def after(self) -> Array:
        return self.problem.table[self.columns["next_states"]]

    def errors(self, x: Array) -> Array:
        """What F̃_t multiplies the features of row t with."""
        if self.family == "chain":
            return self.features @ x - GAMMA * (self.after @ x) - self.columns["rewards"]
        return MEANS[self.family](self.features @ x) - self.columns["targets"]

    def at_truth(self) -> tuple[Array, Array, Array]:
        """Of the scores of some coordinates at the truth, or in chains the images by the true J: the mean, and the
        mean square; and the mean square of the features.
        """
        errors, seen = self.errors(self.truth), self.features[:, :LOOKED_AT]
        if self.back is not None:
            seen = self.features @ self.back
        squares = seen**2
        energy = squares if self.back is None else self.features**2
        return errors @ seen / len(errors), errors**2 @ squares / len(errors), energy.mean(axis=0)


def draw(cell: Cell, rng: np.random.Generator) -> Sample:
    """One record of a cell."""
    if cell.family in CHAINS:
        return _chain(cell, rng)
    rows, dim, family = cell.rows, cell.dim, cell.problem
    features = autoregression(rng, rows, dim, cell.rho) if dim > 1 and cell.family != "rare" else np.ones((rows, dim))
    if cell.family == "periodic":
        features += np.sin(2 * np.pi * np.arange(rows) / 24)[:, None]
    if cell.family == "long memory" and dim > 1:
        features[:] = np.column_stack([long_memory(rng, rows) for _ in range(dim)])
    if cell.family == "rare":
        features[:, 1] = _switch(rng.random(rows), 1 / 20, 1 / 980)
    features[:, 0] = 1.0
    theta = np.full(dim, 1.0 / np.sqrt(dim))
    theta[0] = 0.25
    score, functions = features @ theta, np.eye(dim)
    if family == "logistic":
        targets = (ndtr(autoregression(rng, rows, 1, cell.rho)[:, 0]) > expit(-score)).astype(np.float64)
    elif family == "Poisson":
        theta, score = theta / 2, score / 2
        drift = 0.5 * autoregression(rng, rows, 1, cell.rho)[:, 0]
        targets = rng.poisson(np.exp(score + drift - 0.125)).astype(np.float64)
    else:
        targets = score + _noise(cell, rng)
    columns = {"features": features, "targets": targets}
    return Sample(mr.GLM(LINKS[family]), columns, theta, functions, features, family)


def _noise(cell: Cell, rng: np.random.Generator) -> Array:
    rows = cell.rows
    if cell.family == "heavy":
        return _recursion(rng.standard_t(3, (rows + 200, 1)), cell.rho)[200:, 0]  # 200 steps in, .9 is stationary
    if cell.family == "long memory":
        return long_memory(rng, rows)
    plain = autoregression(rng, rows, 1, cell.rho)[:, 0]
    if cell.family == "hidden":
        return 0.1 * plain + rng.standard_normal(rows)
    return plain + np.cos(2 * np.pi * np.arange(rows) / 24) if cell.family == "periodic" else plain


def autoregression(rng: np.random.Generator, rows: int, dim: int, rho: float) -> Array:
    """Independent stationary AR(1) processes of variance 1."""
    found = rng.standard_normal((rows, dim))
    if rho:
        found[1:] *= np.sqrt(1 - rho**2)
        _recursion(found, rho)
    return found


@numba.njit(cache=True)
def _recursion(values, rho):
    for t in range(1, len(values)):
        for j in range(values.shape[1]):
            values[t, j] += rho * values[t - 1, j]
    return values


@numba.njit(cache=True)
def _switch(draws, off, on):
    """An indicator that switches off and on with these chances."""
    found, state = np.empty(len(draws)), 1.0 if draws[0] < on / (on + off) else 0.0
    for t in range(len(draws)):
        if draws[t] < (off if state else on):
            state = 1.0 - state
        found[t] = state
    return found


@numba.njit(cache=True)
def _walk(draws, cumulated, state):
    found = np.empty(len(draws), dtype=np.int64)
    for t in range(len(draws)):
        found[t] = state
        state = min(np.searchsorted(cumulated[state], draws[t], side="right"), len(cumulated) - 1)
    return found


@cache
def _circulant(rows: int, order: float) -> Array:
    """Square roots of the eigenvalues of the circulant matrix that holds the autocovariances of ARFIMA(0, order, 0)."""
    lags = np.arange(1, rows + 1)
    covariances = np.concatenate([[1.0], np.cumprod((lags - 1 + order) / (lags - order))])
    return np.asarray(np.sqrt(np.maximum(rfft(np.concatenate([covariances, covariances[-2:0:-1]])).real, 0)))


def long_memory(rng: np.random.Generator, rows: int, order: float = 0.3) -> Array:
    """A fractionally integrated noise of variance 1, exactly, by its circulant embedding (Davies and Harte 1987)."""
    roots = _circulant(rows, order)
    return np.asarray(irfft(roots * rfft(rng.standard_normal(2 * rows)), 2 * rows)[:rows])


class Chain(NamedTuple):
    """A Markov reward process, features, and the truth of LSTD on it."""

    cumulated: Array
    stationary: Array
    table: Array
    rewards: Array
    jacobian: Array
    theta: Array


@cache
def chain_of(family: str, stay: float) -> Chain:
    """The chain of a family that stays where it is with this probability."""
    rng = np.random.default_rng(7)
    if family == "tabular":
        towards = np.append(0.02, np.full(STATES - 1, 0.98 / (STATES - 1)))
        jumps, table = np.tile(towards, (STATES, 1)), np.eye(STATES)
    else:
        identity, angles = np.eye(RING), 2 * np.pi * np.arange(RING) / RING
        jumps = 0.6 * np.roll(identity, 1, axis=1) + 0.4 * np.roll(identity, -1, axis=1)
        table = np.column_stack([np.ones(RING)] + [f(k * angles) for k in (1, 2) for f in (np.cos, np.sin)])
    states = len(jumps)
    chances = stay * np.eye(states) + (1 - stay) * jumps
    rewards = rng.standard_normal(states)
    system = np.append(chances.T - np.eye(states), np.ones((1, states)), axis=0)
    stationary = np.linalg.lstsq(system, np.append(np.zeros(states), 1.0), rcond=None)[0]
    weighted = table.T * stationary
    jacobian = weighted @ (table - GAMMA * chances @ table)
    theta = np.linalg.solve(jacobian, weighted @ rewards)
    return Chain(np.cumsum(chances, axis=1), stationary, table, rewards, jacobian, theta)


def _chain(cell: Cell, rng: np.random.Generator) -> Sample:
    chain = chain_of(cell.family, cell.rho)
    path = _walk(rng.random(cell.rows + 1), chain.cumulated, rng.choice(len(chain.stationary), p=chain.stationary))
    states = path[:-1]
    rewards = chain.rewards[states] + 0.5 * rng.standard_normal(cell.rows)
    columns = {"states": states, "next_states": path[1:], "rewards": rewards}
    asked = chain.table if cell.family == "tabular" else chain.table[:: RING // 10]
    problem = mr.PolicyEvaluation(GAMMA, table=chain.table)
    back = np.linalg.solve(chain.jacobian.T, asked.T)
    return Sample(problem, columns, chain.theta, asked, chain.table[states], "chain", back)


def groups(cell: Cell) -> dict[str, slice]:
    """What is reported together: functions that are alike."""
    if cell.family == "tabular":
        return {"V(rare s)": slice(0, 1), "V(s)": slice(1, STATES)}
    if cell.family == "misspecified":
        return {"V(s)": slice(0, 10)}
    slopes = {"rare feature" if cell.family == "rare" else "slopes": slice(1, cell.dim)}
    return {"constant": slice(0, 1), **(slopes if cell.dim > 1 else {})}


if __name__ == "__main__":
    print(*all_cells(), sep="\n")
