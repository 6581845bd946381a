"""Mountain Car and CartPole trajectories from Gymnasium, under fixed simple policies, with radial features."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from multireplay._check import Vector
from multireplay.buffer.buffer import Buffer
from multireplay.compare.worlds.base import LENGTHS, Entry, MissingExtra, World, fit
from multireplay.diagnose.autocorrelation import integrated_autocorrelation_time
from multireplay.problems import PolicyEvaluation
from multireplay.reproduce.worlds import Size, seeds

GAMMA = 0.99
LONGER = 20
"""The reference solution is LSTD on a record this many times longer."""
RANDOMLY = 0.2
"""Chance of a random action in both policies."""

Policy = Callable[[Vector], int]


def with_momentum(state: Vector) -> int:
    """Mountain Car: push where it is going."""
    return 2 if state[1] >= 0 else 0


def under_the_pole(state: Vector) -> int:
    """CartPole: push towards where the pole is falling."""
    return int(state[2] + 0.5 * state[3] > 0)


GAMES: dict[str, tuple[str, Policy]] = {
    "Mountain Car": ("MountainCar-v0", with_momentum),
    "CartPole": ("CartPole-v1", under_the_pole),
}


def trajectory(name: str, length: int, seed: Any) -> tuple[Vector, Vector, Vector, Vector]:
    """States, next states, rewards and terminations of `length` steps; a new episode starts where one ends."""
    try:
        gymnasium = importlib.import_module("gymnasium")
    except ImportError:
        raise MissingExtra(f"{name} needs Gymnasium: pip install 'multireplay[rl]'") from None
    identifier, policy = GAMES[name]
    env = gymnasium.make(identifier).unwrapped  # without its time limit: an episode ends only where the game does
    rng = np.random.default_rng(seed)
    actions = int(env.action_space.n)
    state, _ = env.reset(seed=int(rng.integers(2**31)))
    now, then = np.empty((length, len(state))), np.empty((length, len(state)))
    rewards, ended = np.empty(length), np.zeros(length)
    random = rng.random(length) < RANDOMLY
    choices = rng.integers(actions, size=length)
    for t in range(length):
        now[t] = state
        state, reward, over, _, _ = env.step(int(choices[t]) if random[t] else policy(state))
        then[t], rewards[t], ended[t] = state, reward, over
        if over:
            state, _ = env.reset()
    return now, then, rewards, ended


class RadialFeatures:
    """exp(−‖s − c‖²/2w²) for centres c drawn from a pilot run, states scaled to variance 1, plus a constant."""

    def __init__(self, pilot: Vector, count: int, width: float) -> None:
        self.center, self.scale = pilot.mean(axis=0), pilot.std(axis=0)
        scaled = (pilot - self.center) / self.scale
        chosen = [0]
        nearest = np.full(len(scaled), np.inf)
        for _ in range(count - 1):  # each next centre is the pilot state farthest from those before
            nearest = np.minimum(nearest, ((scaled - scaled[chosen[-1]]) ** 2).sum(axis=1))
            chosen.append(int(nearest.argmax()))
        self.centers, self.width = scaled[chosen], width

    def __call__(self, states: Vector) -> Vector:
        scaled = (states - self.center) / self.scale
        squares = ((scaled[:, None, :] - self.centers) ** 2).sum(axis=2)
        return np.hstack([np.exp(-squares / (2 * self.width**2)), np.ones((len(states), 1))])


def record(name: str, features: RadialFeatures, length: int, seed: Any) -> Buffer:
    """One trajectory as a buffer; nothing is bootstrapped from a terminal state."""
    now, then, rewards, ended = trajectory(name, length, seed)
    return Buffer(features=features(now), next_features=features(then), rewards=rewards, terminated=ended)


def control(name: str, width: float, size: Size, cache: Path) -> World:
    """Value of a fixed policy. The reference x* is LSTD on a record 20 times longer, kept in the cache."""
    length = LENGTHS[size]
    pilot = trajectory(name, 4000, seeds("pilot", name))[0]
    features = RadialFeatures(pilot, 30 if size == "full" else 12, width)
    problem = PolicyEvaluation(GAMMA)
    path = cache / f"{name.replace(' ', '-')}-{width:g}-{size}-{LONGER}x.npz"
    if not path.exists():
        _make_reference(name, features, problem, length, path)
    with np.load(path) as kept:
        matrix, vector, gram, time = (kept[key] for key in ("matrix", "vector", "gram", "time"))
    return World(
        problem=problem,
        record=partial(record, name, features, length),
        solution=np.linalg.solve(matrix, vector),
        weight=gram,
        jacobian=matrix,
        time=float(time),
        exact=fit(problem),
        reference=f"LSTD on {LONGER} other records",
    )


def _make_reference(name: str, features: RadialFeatures, problem: PolicyEvaluation, length: int, path: Path) -> None:
    moments = []
    for part in range(LONGER):
        long = record(name, features, length, seeds("reference", name, part))
        columns = problem.columns(long)
        gram = columns["features"].T @ columns["features"] / length
        matrix, vector = problem.moments(columns)
        moments.append((matrix / length, vector / length, gram))
    time = (
        float(np.max(integrated_autocorrelation_time(long["features"][:, :-1]))) / 2
    )  # τ = (1 + ρ)/(1 − ρ) ≈ −2/log ρ
    path.parent.mkdir(parents=True, exist_ok=True)
    matrix, vector, gram = (np.mean(parts, axis=0) for parts in zip(*moments, strict=True))
    np.savez(path, matrix=matrix, vector=vector, gram=gram, time=time)


ENTRIES = (
    Entry("Mountain Car", "classic", partial(control, "Mountain Car", 0.5), 4.0),
    Entry("CartPole", "classic", partial(control, "CartPole", 1.0), 4.0),
    Entry("Mountain Car, wide RBF", "hard", partial(control, "Mountain Car", 1.0), 4.0),
)
