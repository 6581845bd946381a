"""The two-player game on simplices."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from multireplay._check import Vector
from multireplay.buffer.buffer import Buffer
from multireplay.compare.worlds.base import LENGTHS, Entry, World
from multireplay.problems.exact import extragradient
from multireplay.reproduce.worlds import Size
from multireplay.simulate import SimplexGame
from multireplay.simulate.simplex_game import game_operator


def simplex_game(size: Size, cache: Path) -> World:
    """Equilibrium of a game whose payoffs follow a chain; the yardstick solves the record's mean game."""
    game = SimplexGame()
    actions, count = game.actions, len(game.tables)
    payoff = game.tables.mean(axis=0)[: actions**2].reshape(actions, actions)
    eye = np.eye(actions)
    # one step keeps the regime with probability `stay` and otherwise moves to one of the others alike
    kept = game.stay - (1 - game.stay) / (count - 1)

    def exact(record: Buffer, ridge: float) -> Vector:
        mean = record["samples"].mean(axis=0)

        def operator(z: Vector) -> Vector:
            out = np.zeros_like(z)
            game_operator(z, mean, out)
            return out

        bound = 1 + float(np.linalg.norm(mean[: actions**2].reshape(actions, actions), 2))
        return extragradient(operator, game.problem.constraint, np.zeros(2 * actions), bound)

    return World(
        problem=game.problem,
        record=partial(game.buffer, LENGTHS[size]),
        solution=game.solution,
        weight=np.eye(2 * actions),
        jacobian=np.block([[eye, payoff], [-payoff.T, eye]]),
        time=-1 / np.log(kept),
        exact=exact,
        yardstick="equilibrium of the mean game",
    )


ENTRIES = (Entry("simplex game", "hard", simplex_game, 3.0),)
