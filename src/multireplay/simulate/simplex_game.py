"""A two-player game on simplices with Markovian payoffs: a variational inequality that is the gradient of nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from multireplay._check import Vector, number_in, whole_number
from multireplay._jit import jit
from multireplay.buffer.buffer import Buffer
from multireplay.problems import VariationalInequality
from multireplay.sets import Product, Simplex


@jit
def game_operator(z: Vector, sample: Vector, out: Vector) -> None:
    """F̃(z, ξ) = (x + A y + b, y − Aᵀx + c) for z = (x, y) and the sample ξ = (A by rows, b, c)."""
    n = z.shape[0] // 2
    for i in range(n):
        out[i] = z[i] + sample[n * n + i]
        out[n + i] = z[n + i] + sample[n * n + n + i]
    for i in range(n):
        for j in range(n):
            payoff = sample[i * n + j]
            out[i] += payoff * z[n + j]
            out[n + j] -= payoff * z[i]


class SimplexGame:
    """Player x pays ⟨x, Ay + b⟩ + ‖x‖²/2, player y pays −⟨x, Ay⟩ + ⟨c, y⟩ + ‖y‖²/2, both on a simplex.

    The payoffs (A, b, c) switch between `regimes` tables by a chain that stays where it is with probability `stay`.
    The mean operator is 1-strongly monotone and not a gradient, since its Jacobian is I plus the skew part (0, A;
    −Aᵀ, 0). The equilibrium is chosen first and b and c are made to fit it; it lies on the boundary, so that F(z*) is
    not 0.

    Parameters
    ----------
    actions, regimes : int
        Pure actions of each player, and number of payoff tables.
    stay : float
        Probability of keeping the regime: larger is slower.
    seed : int
        Seed of the game itself.

    Attributes
    ----------
    problem, solution
        What to solve from its buffers, and the equilibrium z* = (x*, y*).

    Examples
    --------
    >>> import multireplay as mr
    >>> game = mr.simulate.SimplexGame(actions=3, seed=1)
    >>> game.solution.round(2)
    array([0.78, 0.22, 0.  , 0.94, 0.06, 0.  ])
    >>> buffer = game.buffer(length=2**16, seed=0)
    >>> mr.solve(game.problem, buffer, step=0.002).x.round(2)
    array([0.78, 0.22, 0.  , 0.94, 0.06, 0.  ])
    """

    def __init__(self, actions: int = 5, regimes: int = 4, stay: float = 0.95, seed: int = 0) -> None:
        actions = whole_number("actions", actions, least=1)
        regimes = whole_number("regimes", regimes, least=2)
        rng = np.random.default_rng(seed)
        self.actions = actions
        self.stay = number_in("stay", stay, 0, 1)
        self.solution = np.concatenate([_boundary_point(actions, rng), _boundary_point(actions, rng)])
        tables = rng.standard_normal((regimes, actions, actions))
        offsets = rng.standard_normal((regimes, 2 * actions))
        payoff = tables.mean(axis=0)
        x, y = self.solution[:actions], self.solution[actions:]
        # at the equilibrium each player's costs are equal on the actions played and larger on the others
        costs = np.concatenate([np.where(point > 0, 0.0, 0.5) for point in (x, y)])
        wanted = costs - np.concatenate([x + payoff @ y, y - payoff.T @ x])
        offsets += wanted - offsets.mean(axis=0)
        self.tables = np.hstack([tables.reshape(regimes, -1), offsets])
        self.problem = VariationalInequality(
            game_operator,
            dim=2 * actions,
            constraint=Product((Simplex(), actions), (Simplex(), actions)),
            lipschitz=1 + float(np.linalg.norm(tables, ord=2, axis=(1, 2)).max()),
        )

    def buffer(self, length: int, seed: Any) -> Buffer:
        """`length` consecutive payoff tables."""
        length = whole_number("length", length, least=1)
        rng = np.random.default_rng(seed)
        regimes = len(self.tables)
        moves = np.where(rng.random(length) < self.stay, 0, rng.integers(1, regimes, size=length))
        moves[0] = rng.integers(regimes)
        return Buffer(samples=self.tables[np.cumsum(moves) % regimes])

    def independent_buffer(self, length: int, seed: Any) -> Buffer:
        """`length` independent payoff tables from the stationary (uniform) law."""
        length = whole_number("length", length, least=1)
        return Buffer(samples=self.tables[np.random.default_rng(seed).integers(len(self.tables), size=length)])

    def __repr__(self) -> str:
        return f"SimplexGame(actions={self.actions}, regimes={len(self.tables)}, stay={self.stay:g})"


def _boundary_point(actions: int, rng: np.random.Generator) -> Vector:
    """A random point of the simplex whose last third of coordinates is 0."""
    played = actions - actions // 3
    return np.concatenate([rng.dirichlet(np.ones(played)), np.zeros(actions - played)])
