"""Policy evaluation with many features, where an exact fit costs d times as much as a pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from multireplay.buffer.buffer import Buffer
from multireplay.compare.worlds.base import LENGTHS, Entry, World, fit
from multireplay.compare.worlds.regression import autoregression
from multireplay.problems import PolicyEvaluation
from multireplay.reproduce.worlds import Size

DIMS: dict[Size, int] = {"full": 1000, "small": 40}
CORRELATION, GAMMA = 0.9, 0.5


def wide(size: Size, cache: Path) -> World:
    """s' = φs + ε in 1000 independent coordinates, φ = .9, and r = ⟨w, s⟩ + noise that is AR(1) with the same φ.

    The features are the state itself, so that the value function is ⟨w, s⟩/(1 − γφ) for every s; γ = .5.
    """
    dim = DIMS[size]
    problem = PolicyEvaluation(GAMMA)
    weights = np.random.default_rng(13).standard_normal(dim) / np.sqrt(dim)

    def record(seed: Any) -> Buffer:
        rng = np.random.default_rng(seed)
        states = autoregression(CORRELATION, LENGTHS[size] + 1, dim, rng)
        noise = autoregression(CORRELATION, LENGTHS[size], 1, rng)[:, 0]
        return Buffer(features=states[:-1], next_features=states[1:], rewards=states[:-1] @ weights + noise)

    return World(
        problem=problem,
        record=record,
        solution=weights / (1 - GAMMA * CORRELATION),
        weight=np.eye(dim),
        jacobian=(1 - GAMMA * CORRELATION) * np.eye(dim),
        time=-1 / np.log(CORRELATION),
        exact=fit(problem),
    )


ENTRIES = (Entry("AR states, 1000 features", "hard", wide, 24.0),)
