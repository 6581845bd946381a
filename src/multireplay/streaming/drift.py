"""Two tests that tell when a stream is no longer what it was, in units of the dependent standard error."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.lapack import dposv
from scipy.special import stdtrit

from multireplay._check import Positions, Vector
from multireplay.buffer.columns import Columns
from multireplay.problems import Problem
from multireplay.problems.residual import ResidualProblem

SCALES = 48
"""Stretches of 1, 2, 4, … rows."""
SHORTEST = 6
"""Stretches of 64 rows are the first to be looked at, …"""
KNOWN = 32
"""… and any only when as many before it have shown how they vary."""
CHANCE = 0.01
"""The chance of an alarm, ever, where nothing changes."""
SEVERAL = 6
"""Rows that a change is seen in at least: so many of the largest would have to fall into one stretch by chance."""
RIVALS = 6
HALF_LIVES = 64.0 * 4.0 ** np.arange(RIVALS)
MOST = 3.0
"""Evidence that one block may give: a single far row is none of a slow change."""
GAP = 4
"""Rivals are so many half-lives old, or up to twice as many."""
SHARES = np.array([0.0, 0.2, 0.4, 0.7, 1.0])[:, None]
"""Of the level that residuals had, what is tried to predict the next ones with."""
STIFF = 24.0
"""Rows that hold back what a rival corrects the answer by: with few of them it learns noise from sticky features."""
GAPS = np.log2(GAP * HALF_LIVES).astype(int).tolist()
ARRAYS = ("open", "waiting", "seen", "last", "sums", "sizes", "largest", "squares")
OF_LEVELS = ("errors", "before", "differences", "steady")
OF_RIVALS = ("active", "pending", "taken", "evidence", "errors", "weights", "level", "next_level")


class Excerpt(NamedTuple):
    """Σ F̃ of some rows at the answer so far, how large its noise may be (Σ ψψᵀ, or a diagonal), and how many rows."""

    score: Vector
    energy: Vector
    rows: float
    level: Level | None = None
    """What residuals say, of a problem that has some."""


class Level(NamedTuple):
    """Residuals r_t(x) of some rows at the answer so far: what a constant would see of them."""

    errors: float
    """Σ r_t, …"""
    weight: float
    """… Σ of their slopes, …"""
    squares: float
    largest: float
    """… Σ r_t², and the largest of these."""
    steady: float
    """Σ r_t at a point that moves hardly ever."""


NO_LEVEL = Level(0.0, 1.0, 0.0, 0.0, 0.0)


def level_of(problem: Problem, x: Vector, steady: Vector, block: Columns) -> Level | None:
    """The level of a block at x, and at a steady point; None of a problem that has no residuals."""
    if not isinstance(problem, ResidualProblem):
        return None
    errors, slopes = np.asarray(problem.residuals_at(x, block), dtype=np.float64), problem.slopes(x, block)
    squares, other = np.square(errors), float(problem.residuals_at(steady, block).sum())
    weight = float(len(errors) if slopes is None else slopes.sum())
    return Level(float(errors.sum()), weight, float(squares.sum()), float(squares.max(initial=0.0)), other)


class Chart:
    """For sudden changes: looks at F̂ of consecutive stretches of 64, 128, 256, … rows at the answer so far.

    What is charted is log F̂ᵀV⁻¹F̂, with V = M + M K⁻¹ M for the noise of a stretch and for that of the answer. M is the
    mean of what a row of this stretch and a row so far say of the size of F̂'s noise (ψψᵀ, but for a factor), K its sum
    over all rows so far: where features move, or one comes that was always 0, F̂ is larger and nothing has changed. How
    much it varies between stretches of one length is seen directly, whatever the dependence inside of them; if it is
    autocorrelated itself, stretches count for fewer. One that is further above the mean than those before it allow is
    an alarm. The chance of one is shared out over all looks there will ever be (Bonferroni): look i at stretches of
    2^k rows gets a share of 1/((k − 5)² i²). Tails are those of a t distribution with as many degrees of freedom as
    stretches that were independent: the logarithm of a quadratic form has light ones, also where rows have not. But for
    rare outcomes, of which most stretches have none: F̂ of a stretch has to be that of several of its largest rows, and
    more than that of independent ones.

    A level that jumps is seen where the mean residual of a stretch differs from that of the stretch before by more than
    such differences ever did. Noise that remembers many stretches has small ones, however far it strays.

    It is a control chart on batch means (Runger and Willemain 1995), at all dyadic lengths at once.
    """

    def __init__(self, dim: int) -> None:
        self.open = np.zeros((SCALES, dim))
        self.energies: dict[int, Vector] = {}
        """Σ F̃ and M of the stretches that wait for another of their length."""
        self.waiting = np.zeros(SCALES)
        self.seen = np.zeros(SCALES)
        self.last = np.zeros(SCALES)
        self.sums = np.zeros((SCALES, 3))
        """What is charted, its squares, and its products with the one before, added up."""
        self.sizes = np.zeros(SCALES)
        """log F̂ᵀWF̂/tr(WM) added up, with W the inverse of M of all rows."""
        self.largest = np.zeros(SCALES)
        self.squares = np.zeros(2)
        """Σ FᵀWF of all rows one by one, and how many there were."""
        self.steady, self.referred = np.zeros(dim), 0
        """Where residuals are taken whose means are compared, and how many rows there were when it was chosen."""
        self.errors, self.before = np.zeros(SCALES), np.full((SCALES, 2), np.nan)
        """Σ r_t of the stretches that wait, and the mean and the largest r_t² of the stretch before."""
        self.differences = np.zeros((SCALES, 2))
        """How many means there were to compare, and the squares of what they differed by."""
        self.statistic, self.threshold = 0.0, math.inf
        """The last look, in standard deviations, and where the alarm is."""

    def look(
        self, part: Excerpt, typical: Vector, known: Vector, most: float = math.inf, whitened: Vector | None = None
    ) -> int:
        """Take in a block of 2^k rows; the rows of the longest stretch that gives an alarm, or 0.

        `typical` is M of a row so far, and `known` K. Stretches of more rows than `most` are not looked at. `whitened`
        is W, for `noise`.
        """
        scale, alarm = int(part.rows).bit_length() - 1, 0
        for shorter in range(scale):
            self.waiting[shorter] = 0.0
            self.energies.pop(shorter, None)
        score, energy, level = part.score, part.energy, part.level or NO_LEVEL
        errors, largest, one = level.steady, level.largest, len(score) * part.rows / max(level.weight, 1e-300)
        self.squares += one * level.squares, part.rows
        usual = float(self.squares[0] / self.squares[1])
        while scale < SCALES:
            rows = 1 << scale
            if scale >= SHORTEST and rows <= most:
                least = max(SEVERAL**2 * one * largest / rows, usual)
                if self._jumps(errors, scale, largest):
                    alarm = alarm or rows
                if self._is_far(_size(score, (energy + rows * typical) / 2, known), scale, least):
                    alarm = rows
                elif whitened is not None:
                    size = len(score) * float(score @ whitened @ score) / max(float((whitened * energy).sum()), 1e-300)
                    self.sizes[scale] += math.log(max(size, 1e-300))
            if not self.waiting[scale]:
                self.waiting[scale], self.open[scale], self.energies[scale] = 1.0, score, energy
                self.largest[scale], self.errors[scale] = largest, errors
                return alarm
            self.waiting[scale] = 0.0
            errors, largest = errors + float(self.errors[scale]), max(largest, float(self.largest[scale]))
            score, energy = score + self.open[scale], energy + self.energies.pop(scale)
            scale += 1
        return alarm

    def refer(self, x: Vector, rows: int) -> None:
        """Residuals are those at this point, once there are twice as many rows as when they were last at another."""
        if rows >= 2 * self.referred:
            self.steady, self.referred = x.copy(), rows
            self.errors[:] = self.before[:] = math.nan  # means before are not to be compared with those after

    def _is_far(self, size: float, scale: int, least: float) -> bool:
        """Whether this stretch is far above the mean; if not, it is one of those that show how they vary."""
        if not 0 < size < math.inf:
            return False
        value, seen = math.log(size), float(self.seen[scale])
        if seen >= KNOWN:
            mean, variance, lagged = _moments(self.sums[scale] / seen)
            known = seen * (1 - lagged) / (1 + lagged)
            self.statistic = (value - mean) / math.sqrt(variance * (1 + 2 / known))
            self.threshold = _limit(CHANCE, known, scale, seen)
            if known >= KNOWN and self.statistic > self.threshold and size > least:
                return True
        self.seen[scale] += 1
        self.sums[scale] += value, value * value, value * (self.last[scale] if seen else value)
        self.last[scale] = value
        return False

    def _jumps(self, errors: float, scale: int, largest: float) -> bool:
        """Whether the level of this stretch is far from that of the one before, by several of the largest residuals."""
        mean, (before, larger), (seen, squares) = errors / (1 << scale), self.before[scale], self.differences[scale]
        self.before[scale], difference = (mean, largest), mean - float(before)
        if math.isnan(difference):
            return False
        far = seen >= KNOWN and difference**2 * seen > _limit(CHANCE / 4, seen / 2, scale, float(seen)) ** 2 * squares
        if far and (difference * (1 << scale)) ** 2 > SEVERAL**2 * max(largest, float(larger)):
            return True
        self.differences[scale] += 1.0, difference**2
        return False

    @property
    def noise(self) -> Vector:
        """For every rival the variance of F̂, as large as stretches of any length have it; infinite where none is known.

        It is that of independent rows at least: of rare outcomes most stretches have none. Where it still grows with
        the length of stretches, noise has a longer memory than they have: it is taken to grow as much two times more.
        """
        typical = np.where(self.seen >= KNOWN / 4, self.sizes / np.maximum(self.seen, 1.0), -np.inf)
        found, longest = np.full(RIVALS, np.inf), int(np.flatnonzero(np.isfinite(typical)).max(initial=0))
        for rival, gap in enumerate(GAPS):
            last = min(longest, gap + 2)
            if last >= gap:
                growth = min(max(typical[last] - typical[last - 1], 0.0), 2 * math.log(2))  # where all are alike log(2)
                found[rival] = math.exp(typical[SHORTEST : last + 1].max() + 2 * growth)
        return np.asarray(np.maximum(found, self.squares[0] / max(self.squares[1], 1.0)))

    def state(self) -> dict[str, Any]:
        """All of it as arrays and numbers."""
        numbers = {"statistic": self.statistic, "threshold": min(self.threshold, 1e300), "referred": self.referred}
        energies = {"energies": np.array([self.energies[scale] for scale in sorted(self.energies)])}
        return {name: getattr(self, name).copy() for name in (*ARRAYS, *OF_LEVELS)} | numbers | energies

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state`."""
        for name in (*ARRAYS, *OF_LEVELS):
            getattr(self, name)[:] = state[name]
        self.statistic, self.threshold = float(state["statistic"]), float(state["threshold"])
        self.referred = int(state["referred"])
        waiting = np.flatnonzero(self.waiting).tolist()
        self.energies = dict(zip(waiting, state["energies"], strict=True))


def _limit(chance: float, known: float, scale: int, seen: float) -> float:
    """How many standard deviations this chance allows a look at stretches of 2^scale rows, after so many."""
    share = (6 / math.pi**2 / ((scale - SHORTEST + 1) * (seen - KNOWN + 1))) ** 2
    return -float(stdtrit(max(known - 1.0, 1.0), chance * share / 2))


def _size(score: Vector, own: Vector, known: Vector) -> float:
    """FᵀV⁻¹F, with V⁻¹ = M⁻¹ − (M + K)⁻¹ of matrices, or the diagonals of some: 0 where K is, as nothing is known."""
    if own.ndim == 1:
        shares = np.divide(known, own * (own + known), out=np.zeros_like(score), where=own > 0)
        return float(score @ (shares * score))
    _, first, fault = dposv(own, score)
    _, second, other = dposv(own + known, score)
    return 0.0 if fault or other else max(float(score @ (first - second)), 0.0)


def _moments(means: Vector) -> tuple[float, float, float]:
    """Mean, variance and lag-1 autocorrelation (not below 0), of the means of numbers, squares and products."""
    mean, second, product = means.tolist()
    variance = max(second - mean**2, 1e-12)
    return mean, variance, min(max((product - mean**2) / variance, 0.0), 0.99)


class Rivals:
    """For slow changes: whether what a short memory knew a while ago predicts better than everything that was seen.

    Rivals are what sums that forget, with half-lives h of 64, 256, 1024, … rows, would correct the answer so far by, as
    they were 4h to 8h rows ago. What they spare, over the answer so far, divided by the noise, adds up to the logarithm
    of a likelihood ratio; beginning anew at 0 whenever it falls below (Page 1954), it is an alarm where it exceeds what
    chance allows (Ville's inequality, at every look). The noise is that which stretches in the chart have shown.

    Noise that remembers more than 4h rows is predicted too, though nothing has changed: its level is still there. So a
    rival has to beat more than the answer: also the answer moved by the level that residuals had in the same rows, or
    by a share of it, as noise that returns to 0 is best predicted. A level alone that strays is never an alarm, because
    that is what sticky noise does; a coefficient that moves with its feature is more than a level.
    """

    def __init__(self, dim: int) -> None:
        self.active = np.zeros((RIVALS, dim))
        self.pending = np.zeros((RIVALS, dim))
        self.taken = np.zeros(RIVALS)
        """How often each was worked out."""
        self.evidence = np.zeros((len(SHARES), RIVALS))
        self.errors, self.weights = np.zeros(RIVALS), np.zeros(RIVALS)
        """Σ r_t and its slopes, as they fade."""
        self.level, self.next_level = np.zeros(RIVALS), np.zeros(RIVALS)
        """What a constant would be moved by: of the rows of `active`, and of `pending`."""

    def due(self, rows: int) -> Positions:
        """Which rivals are to be worked out anew, where there are so many rows."""
        return np.flatnonzero(rows >= (self.taken + 1) * GAP * HALF_LIVES)

    def renew(self, which: Positions, points: Vector) -> None:
        """What these know now is for later."""
        self.active[which], self.pending[which] = self.pending[which], points
        self.level[which] = self.next_level[which]
        self.next_level[which] = -self.errors[which] / np.maximum(self.weights[which], 1e-300)
        self.taken[which] += 1

    def judge(self, gains: Vector, level: Level, noise: Vector, rows: int) -> int:
        """Take in what each spares on a block; the rows of the shortest memory that gives an alarm, or 0."""
        known = (self.taken >= 2) & np.isfinite(noise) & np.isfinite(gains)
        moved = SHARES * self.level
        alone = -moved * (level.errors + 0.5 * moved * level.weight)
        added = np.minimum((gains - alone) / np.where(known, noise, 1.0), MOST)
        self.evidence = np.where(known, np.maximum(self.evidence + added, 0.0), 0.0)
        looks = np.maximum(rows / HALF_LIVES, 1.0)
        certain = self.evidence.min(axis=0) > np.log(RIVALS * looks**2 / (0.75 * CHANCE))
        return int(HALF_LIVES[certain.argmax()]) if certain.any() else 0

    def remember(self, level: Level, rows: float) -> None:
        """Take the level of a block of so many rows in."""
        fades = 0.5 ** (rows / HALF_LIVES)
        self.errors = fades * self.errors + level.errors
        self.weights = fades * self.weights + level.weight

    def state(self) -> dict[str, Any]:
        """All of it as arrays."""
        return {name: getattr(self, name).copy() for name in OF_RIVALS}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state`."""
        for name in OF_RIVALS:
            getattr(self, name)[:] = state[name]
