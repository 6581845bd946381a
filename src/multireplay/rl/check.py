"""The Monte Carlo check: returns of fresh rollouts beside what the estimate says of the states they pass."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from multireplay._check import Positions, Vector
from multireplay.errors import InputError
from multireplay.rl.collect import Collection, run
from multireplay.rl.spaces import Array, gymnasium, without_time_limit
from multireplay.rl.trajectory import Trajectory
from multireplay.show.text import TextTable

Values = Callable[[Array], Vector]

LEFT_OVER = 1e-3
"""A rollout is cut where rewards weigh less than this share of the first one."""
TRUSTED = 0.05
"""A return counts as observed where what is filled in from the estimate weighs at most this much."""
LONGEST = 20_000
FAR = 3.0
CLOSE = 0.01
"""A difference below this share of the value is no matter, however sure it is."""


@dataclass(frozen=True)
class Agreement:
    """Estimate and Monte Carlo on one group of states.

    Attributes
    ----------
    states, count : str, int
        Which states, and how many of them were passed.
    estimate, monte_carlo : float
        The mean of the estimate, and of the returns, over them.
    error : float
        Standard error of their difference; states of one rollout count as dependent.
    """

    states: str
    count: int
    estimate: float
    monte_carlo: float
    error: float

    @property
    def difference(self) -> float:
        """Estimate minus Monte Carlo."""
        return self.estimate - self.monte_carlo

    @property
    def errors_apart(self) -> float:
        """The difference in standard errors."""
        rounding = 1e-9 * max(abs(self.estimate), abs(self.monte_carlo), 1e-300)
        return 0.0 if abs(self.difference) <= rounding else abs(self.difference) / max(self.error, rounding)

    @property
    def far(self) -> bool:
        """Whether the difference is beyond three standard errors and 1 % of the value."""
        size = max(abs(self.estimate), abs(self.monte_carlo))
        return self.errors_apart > FAR and abs(self.difference) > CLOSE * size


@dataclass(frozen=True, eq=False, repr=False)
class Check:
    """Fresh rollouts of the policy beside the estimate; ``print`` it.

    Attributes
    ----------
    groups : tuple of Agreement
        The start states, then the states passed on the way in three groups by the estimate, low to high.
    observations, estimates, returns : ndarray
        The start states, their estimated values, and the discounted returns of the rollouts from there.
    rollouts, horizon : int
        Number of rollouts, and steps after which one was cut; the rest was filled in with the estimate.
    filled : int
        Rollouts that ended early without terminating, and were filled in where it still weighs more than 0.1 %.
    """

    groups: tuple[Agreement, ...]
    observations: Array
    estimates: Vector
    returns: Vector
    rollouts: int
    horizon: int
    filled: int

    @property
    def start(self) -> Agreement:
        """The agreement at the start states."""
        return self.groups[0]

    def table(self) -> TextTable:
        """One row a group of states."""
        rows = [
            {
                "states": group.states,
                "number": group.count,
                "estimate": f"{group.estimate:.4g}",
                "Monte Carlo": f"{group.monte_carlo:.4g} ± {group.error:.2g}",
                "difference": f"{group.difference:.2g}",
                "in s.e.": f"{group.errors_apart:.1f}",
            }
            for group in self.groups
        ]
        return TextTable(rows)

    @property
    def sentence(self) -> str:
        """What it means."""
        text = f"Monte Carlo: {self.rollouts} fresh rollouts without the time limit, at most {self.horizon} steps each."
        far = [group.states for group in self.groups if group.far]
        if far:
            text += (
                f" The estimate is more than {FAR:.0f} standard errors away for the states {', '.join(far)}. "
                "What the features cannot show and the noise of the record both do this; see whether the difference "
                "matters to you, and if so take more features or more steps."
            )
        else:
            text += f" The estimate is within {FAR:.0f} standard errors, or {CLOSE:.0%}, of it everywhere."
        if self.filled:
            text += (
                f" {self.filled} rollouts were cut short by the environment itself and filled in with the estimate, "
                "which makes the check weaker."
            )
        return text

    def __str__(self) -> str:
        return f"{self.table()}\n{self.sentence}"

    def __repr__(self) -> str:
        start = self.start
        return (
            f"Check(start states: estimate {start.estimate:.4g}, Monte Carlo {start.monte_carlo:.4g} ± "
            f"{start.error:.2g}, {self.rollouts} rollouts)"
        )


def monte_carlo(env: Any, policy: Any, values: Values, gamma: float, rollouts: int, seed: int) -> Check:
    """Let the policy act from fresh starts, and compare the returns with what `values` says."""
    horizon = min(LONGEST, max(1, math.ceil(math.log(LEFT_OVER) / math.log(gamma)))) if gamma > 0 else 1
    endless = gymnasium().wrappers.TimeLimit(without_time_limit(env), max_episode_steps=horizon)
    collection = Collection(endless, rollouts * horizon, episodes=rollouts)
    return compare(run(endless, policy, seed, collection), values, gamma, horizon)


def compare(record: Trajectory, values: Values, gamma: float, horizon: int) -> Check:
    """The check from rollouts that are there."""
    estimates = np.asarray(values(record.observations), dtype=np.float64)
    after = np.where(record.terminated, 0.0, values(record.next_observations))
    returns, weights = discounted(record, after, gamma)
    first = np.flatnonzero(record.starts)
    episode = np.cumsum(record.starts) - 1
    if len(first) < 2:
        raise InputError("a Monte Carlo check needs at least two rollouts, for a standard error")
    steps = np.diff(np.append(first, len(record)))
    early = record.truncated[record.ends] & (steps < horizon) & (weights[first] > LEFT_OVER)
    groups = {"at the start": first}
    trusted = np.flatnonzero(weights <= TRUSTED)
    edges = np.unique(np.quantile(estimates[trusted], [0.0, 1 / 3, 2 / 3, 1.0])) if trusted.size else np.zeros(1)
    if len(edges) == 4:
        place = np.digitize(estimates[trusted], edges[1:-1])
        groups |= {f"of {name} value": trusted[place == i] for i, name in enumerate(("low", "middle", "high"))}
    found = (_agreement(name, rows, estimates, returns, episode) for name, rows in groups.items() if rows.size)
    return Check(
        groups=tuple(found),
        observations=record.observations[first],
        estimates=estimates[first],
        returns=returns[first],
        rollouts=len(first),
        horizon=horizon,
        filled=int(early.sum()),
    )


def discounted(record: Trajectory, after: Vector, gamma: float) -> tuple[Vector, Vector]:
    """The discounted return from every row, with `after` for what follows an episode's last row, and its weight."""
    returns = record.rewards + gamma * np.where(record.ends, after, 0.0)
    weights = np.where(record.ends & ~record.terminated, gamma, 0.0)
    for row in np.flatnonzero(~record.ends)[::-1]:
        returns[row] += gamma * returns[row + 1]
        weights[row] = gamma * weights[row + 1]
    return returns, weights


def _agreement(states: str, rows: Positions, estimates: Vector, returns: Vector, episode: Positions) -> Agreement:
    """Means over these rows; the standard error takes the rollout as the unit."""
    found, seen = estimates[rows], returns[rows]
    gaps = found - seen
    count = int(episode[-1]) + 1
    totals = np.bincount(episode[rows], weights=gaps, minlength=count)
    sizes = np.bincount(episode[rows], minlength=count)
    spread = float(np.sum((totals - gaps.mean() * sizes) ** 2)) * count / (count - 1)
    return Agreement(states, len(rows), float(found.mean()), float(seen.mean()), math.sqrt(spread) / len(rows))
