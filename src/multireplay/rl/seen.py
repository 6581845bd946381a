"""A record beside an estimate: what it says of every state that was passed, and what followed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from multireplay._check import Positions, Vector
from multireplay.rl.chance import Totals
from multireplay.rl.sampling import Reference
from multireplay.rl.spaces import Array
from multireplay.rl.trajectory import Trajectory

Values = Callable[[Array], Vector]

TRUSTED = 0.05
"""A return counts as observed where what is filled in from the estimate weighs at most this much."""
START = "at the start"
NAMES = ("low", "middle", "high")


@dataclass(frozen=True, eq=False)
class Subject:
    """What is checked: an estimate, and where they are known its record and the exact fit of that."""

    values: Values
    gamma: float
    record: Trajectory | None = None
    exact: Reference | None = None

    def expected(self, observations: Array) -> Vector:
        """What values would be without an error of the solver's."""
        return np.asarray((self.values if self.exact is None else self.exact.values)(observations), dtype=np.float64)


class Seen:
    """A record beside the values: by row the estimate, the return, and whether the latter is one that was seen."""

    def __init__(self, record: Trajectory, subject: Subject) -> None:
        self.observations = record.observations
        self.estimates = np.asarray(subject.values(record.observations), dtype=np.float64)
        self.first = np.flatnonzero(record.starts)
        self.episode = np.cumsum(record.starts) - 1
        after = np.zeros(len(record))
        cut = record.ends & ~record.terminated
        after[cut] = subject.expected(record.next_observations[cut])
        self.returns, self.weights = discounted(record, after, subject.gamma)
        self.expected = self.estimates if subject.exact is None else subject.expected(record.observations)
        self.gaps = self.expected - self.returns
        self.known = np.ones(len(record), dtype=np.bool_)
        if subject.exact is not None:
            self.known = subject.exact.known(record.observations)
        self.trusted = np.flatnonzero((self.weights <= TRUSTED) & self.known)

    def only_early(self, record: Trajectory, gamma: float) -> None:
        """Trust only rows so early in an episode that their return was seen whatever came later.

        To trust also late rows of episodes that ended soon after would be a choice by the return itself.
        """
        lengths = np.diff(np.append(self.first, len(record)))
        cut = lengths[(record.truncated & ~record.terminated)[record.ends]]
        if cut.size:
            left = cut.min() - (self.trusted - self.first[self.episode[self.trusted]])
            self.trusted = self.trusted[gamma ** left.astype(np.float64) <= TRUSTED]

    def groups(self, edges: Vector) -> dict[str, Positions]:
        """The rows of every group: the starts, and what is between these values of the estimate."""
        found = {START: self.first[self.known[self.first]]}
        if len(edges) == len(NAMES) - 1:
            place = np.digitize(self.estimates[self.trusted], edges)
            found |= {f"of {name} value": self.trusted[place == i] for i, name in enumerate(NAMES)}
        return found

    def totals(self, rows: Positions) -> Totals:
        """Gaps and numbers of these rows by episode."""
        count = len(self.first)
        sums: Vector = np.bincount(self.episode[rows], weights=self.gaps[rows], minlength=count).astype(np.float64)
        return Totals(sums, np.bincount(self.episode[rows], minlength=count))


def discounted(record: Trajectory, after: Vector, gamma: float) -> tuple[Vector, Vector]:
    """The discounted return from every row, with `after` for what follows an episode's last row, and its weight."""
    returns = record.rewards + gamma * np.where(record.ends, after, 0.0)
    weights = np.where(record.ends & ~record.terminated, gamma, 0.0)
    for row in np.flatnonzero(~record.ends)[::-1]:
        returns[row] += gamma * returns[row + 1]
        weights[row] = gamma * weights[row + 1]
    return returns, weights
