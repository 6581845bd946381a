"""Games: two players on simplices, and Mountain Car and CartPole from Gymnasium under fixed simple policies."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import multireplay as mr
from multireplay._check import Vector
from multireplay.bench.store import Arrays, Store
from multireplay.bench.world import LENGTHS, Listing, Size, World, needed, seeds
from multireplay.diagnose.autocorrelation import integrated_autocorrelation_time
from multireplay.problems.constrained import affine_vi
from multireplay.simulate import SimplexGame

GAMMA = 0.99
LONGER = 20
"""The reference solution of a Gymnasium game is LSTD on a record this many times longer."""
RANDOMLY = 0.2
"""Chance of a random action in both policies."""


def simplex_game(size: Size, cache: Path) -> World:
    """Equilibrium of a game whose payoffs follow a chain; the yardstick solves the record's mean game."""
    game = SimplexGame()
    eye, squares = np.eye(game.actions), game.actions**2
    # one step keeps the regime with probability `stay` and otherwise moves to one of the others alike
    kept = game.stay - (1 - game.stay) / (len(game.tables) - 1)

    def jacobian(table: Vector) -> Vector:
        payoff = table[:squares].reshape(game.actions, -1)
        return np.block([[eye, payoff], [-payoff.T, eye]])

    def exact(record: mr.Buffer, ridge: float) -> Vector:
        mean = record["samples"].mean(axis=0)
        matrix, offset = jacobian(mean), mean[squares:]
        return affine_vi(matrix, -offset, game.problem.constraint).x

    return World(
        problem=game.problem,
        record=partial(game.buffer, LENGTHS[size]),
        solution=game.solution,
        weight=np.eye(2 * game.actions),
        jacobian=jacobian(game.tables.mean(axis=0)),
        time=-1 / np.log(kept),
        exact=exact,
        yardstick="equilibrium of the mean game",
    )


GAMES: dict[str, tuple[str, Callable[[Vector], int]]] = {
    "Mountain Car": ("MountainCar-v0", lambda state: 2 if state[1] >= 0 else 0),
    "CartPole": ("CartPole-v1", lambda state: int(state[2] + 0.5 * state[3] > 0)),
}
"""Environments and policies: push where the car is going, and towards where the pole is falling."""


def _gymnasium(name: str) -> Any:
    return needed("gymnasium", f"{name} needs Gymnasium: pip install 'multireplay[rl]'")


def trajectory(name: str, length: int, seed: Any) -> tuple[Vector, Vector, Vector, Vector]:
    """States, next states, rewards and terminations of `length` steps; a new episode starts where one ends."""
    identifier, policy = GAMES[name]
    env = _gymnasium(name).make(identifier).unwrapped  # no time limit: an episode ends only where the game does
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


def radial_features(pilot: Vector, count: int, width: float) -> Callable[[Vector], Vector]:
    """exp(−‖s − c‖²/2w²) for centres c drawn from a pilot run, states scaled to variance 1, plus a constant."""
    middle, scale = pilot.mean(axis=0), pilot.std(axis=0)
    scaled = (pilot - middle) / scale
    chosen = [0]
    nearest = np.full(len(scaled), np.inf)
    for _ in range(count - 1):  # each next centre is the pilot state farthest from those before
        nearest = np.minimum(nearest, ((scaled - scaled[chosen[-1]]) ** 2).sum(axis=1))
        chosen.append(int(nearest.argmax()))

    def features(states: Vector) -> Vector:
        squares = (((states - middle) / scale)[:, None, :] - scaled[chosen]) ** 2
        return np.hstack([np.exp(-squares.sum(axis=2) / (2 * width**2)), np.ones((len(states), 1))])

    return features


def played(name: str, features: Callable[[Vector], Vector], length: int, seed: Any) -> mr.Buffer:
    """One trajectory as a buffer; nothing is bootstrapped from a terminal state."""
    now, then, rewards, ended = trajectory(name, length, seed)
    return mr.Buffer(features=features(now), next_features=features(then), rewards=rewards, terminated=ended)


def control(name: str, width: float, size: Size, cache: Path) -> World:
    """Value of a fixed policy with radial features. The reference x* comes from a record 20 times longer."""
    problem, count = mr.PolicyEvaluation(GAMMA), 30 if size == "full" else 12
    settings = {"width": width, "size": size, "centres": count, "longer": LONGER}
    store = Store(cache, name, {"game": name, "gymnasium": _gymnasium(name).__version__, **settings})
    features = radial_features(trajectory(name, 4000, seeds("pilot", name))[0], count, width)
    record = partial(played, name, features, LENGTHS[size])
    if not store.has("reference", 0):
        store.save("reference", 0, _reference(name, record, problem))
    kept = store.load("reference", 0)
    return World(
        problem=problem,
        record=record,
        solution=np.asarray(np.linalg.solve(kept["matrix"], kept["vector"])),
        weight=kept["gram"],
        jacobian=kept["matrix"],
        time=float(kept["time"]),
        reference=f"LSTD on {LONGER} other records",
    )


def _reference(name: str, record: Callable[[Any], mr.Buffer], problem: mr.PolicyEvaluation) -> Arrays:
    """Moments over many records, and half the autocorrelation time of the last: τ = (1 + ρ)/(1 − ρ) ≈ −2/log ρ."""
    moments = []
    for part in range(LONGER):
        columns = problem.columns(record(seeds("reference", name, part)))
        rows, (matrix, vector) = len(columns["features"]), problem.moments(columns)
        gram = columns["features"].T @ columns["features"]
        moments.append((matrix / rows, vector / rows, gram / rows))
    time = float(np.max(integrated_autocorrelation_time(columns["features"][:, :-1]))) / 2
    matrix, vector, gram = (np.mean(parts, axis=0) for parts in zip(*moments, strict=True))
    return {"matrix": matrix, "vector": vector, "gram": gram, "time": np.array(time)}


WORLDS = (
    Listing("simplex game", "hard", simplex_game, 3.0),
    Listing("Mountain Car", "classic", partial(control, "Mountain Car", 0.5), 4.0),
    Listing("CartPole", "classic", partial(control, "CartPole", 1.0), 4.0),
    Listing("Mountain Car, wide RBF", "hard", partial(control, "Mountain Car", 1.0), 4.0),
)
