"""Small environments whose every number is known, and the policies the tests act by."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Counting(gymnasium.Env[Any, Any]):
    """Counts up from a random start; ends at `end`, is cut off after `limit` steps; gives one array again and again."""

    def __init__(self, end: int = 7, limit: int = 5, copies: bool = False) -> None:
        self.observation_space = spaces.Box(-1.0, 100.0, (2,), np.float32)
        self.action_space = spaces.Discrete(3)
        self.end, self.limit, self.copies = end, limit, copies
        self.state = np.zeros(2, dtype=np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.state[:] = self.np_random.integers(4), 0
        return self.observed(), {}

    def observed(self) -> Any:
        return self.state.copy() if self.copies else self.state

    def step(self, action: int) -> Any:
        self.state += action % 2 + 1, 1
        count, taken = self.state.tolist()
        return self.observed(), count, count >= self.end, taken >= self.limit, {}


class Spoilt(Counting):
    """Gives something else after a number of steps."""

    def __init__(self, after: int, reward: float = 1.0, observation: float = 0.0, error: Any = None) -> None:
        super().__init__(end=10**6, limit=10**6)
        self.after, self.reward, self.observation, self.error, self.taken = after, reward, observation, error, 0

    def step(self, action: int) -> Any:
        self.taken += 1
        state, reward, terminated, truncated, info = super().step(action)
        if self.taken <= self.after:
            return state, reward, terminated, truncated, info
        if self.error is not None:
            raise self.error
        return state + np.float32(self.observation), self.reward, terminated, truncated, info


class Structured(gymnasium.Env[Any, Any]):
    """Observations that are a dictionary of several kinds."""

    def __init__(self) -> None:
        self.observation_space = spaces.Dict(
            {
                "place": spaces.Box(-1, 1, (2,), np.float32),
                "colour": spaces.Discrete(3, start=1),
                "both": spaces.Tuple((spaces.Discrete(2), spaces.MultiBinary(2))),
            }
        )
        self.action_space = spaces.Box(-2.0, 2.0, (1,), np.float32)

    def _observe(self) -> Any:
        draw = self.np_random
        return {
            "place": draw.uniform(-1, 1, 2).astype(np.float32),
            "colour": np.int64(draw.integers(1, 4)),
            "both": (np.int64(draw.integers(2)), draw.integers(0, 2, 2).astype(np.int8)),
        }

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.left = 3
        return self._observe(), {}

    def step(self, action: Any) -> Any:
        self.left -= 1
        return self._observe(), float(action[0]), self.left == 0, False, {}


def by_parity(state: Any) -> int:
    """A policy of `Counting` that depends on the state alone."""
    return int(state[0]) % 3


def with_momentum(state: Any, rng: np.random.Generator) -> int:
    """Mountain Car: push where it is going, or at random now and then."""
    if rng.random() < 0.2:
        return int(rng.integers(3))
    return 2 if state[1] >= 0 else 0


def under_the_pole(state: Any, rng: np.random.Generator) -> int:
    """CartPole: push towards where the pole is falling, or at random now and then."""
    if rng.random() < 0.2:
        return int(rng.integers(2))
    return int(state[2] + 0.5 * state[3] > 0)


def exact_value(env: Any, policy: Any, gamma: float) -> tuple[Any, Any]:
    """v and P of a toy-text environment under a table of action probabilities; terminal states are worth 0."""
    table = env.unwrapped.P
    count = len(table)
    transitions, rewards = np.zeros((count, count)), np.zeros(count)
    for state, actions in table.items():
        for action, outcomes in actions.items():
            for chance, following, reward, terminated in outcomes:
                rewards[state] += policy[state, action] * chance * reward
                transitions[state, following] += policy[state, action] * chance * (not terminated)
    return np.linalg.solve(np.eye(count) - gamma * transitions, rewards), transitions
