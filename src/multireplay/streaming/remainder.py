"""What linearization about a point leaves out of the sums of a stream, as kept rows tell it."""

from __future__ import annotations

import numpy as np

from multireplay._check import Vector
from multireplay.buffer.columns import Columns
from multireplay.problems import GLM, Problem
from multireplay.problems.residual import joint_moments
from multireplay.streaming.spread_rows import Stretches


class Remainder:
    """Σ w [F̃(x, ξ) − F̃(p, ξ) − F̃'(p, ξ)(x − p)] over kept rows, for a point p and any x, and its derivative in x."""

    def __init__(self, problem: Problem, point: Vector, kept: list[Stretches]) -> None:
        self.dim, self.point, self.kept = len(point), point, kept
        self._parts = [
            _OfScores(problem, point, part) if isinstance(problem, GLM) else _OfSums(problem, point, part)
            for part in kept
        ]

    def at(self, x: Vector) -> tuple[Vector, Vector]:
        """Of all stretches together."""
        value, slope = np.zeros(self.dim), np.zeros((self.dim, self.dim))
        for part in () if np.array_equal(x, self.point) else self._parts:
            value, slope = (one + more for one, more in zip((value, slope), part.at(x), strict=True))
        return value, slope

    def each(self, x: Vector, count: int) -> tuple[Vector, Vector]:
        """Of every stretch, of which there are so many."""
        values, slopes = np.zeros((count, self.dim)), np.zeros((count, self.dim, self.dim))
        for part in self._parts:
            part.add_each(x, values, slopes)
        return values, slopes


class _OfSums:
    """By what any problem can tell of rows: sums of its operator and of its Jacobian."""

    def __init__(self, problem: Problem, point: Vector, kept: Stretches) -> None:
        self.problem, self.point, self.kept = problem, point, kept

    def at(self, x: Vector) -> tuple[Vector, Vector]:
        value, slope = np.zeros(len(x)), np.zeros((len(x), len(x)))
        for _, rows, weight in self.kept.each():
            more, steeper = self._of({name: column[rows] for name, column in self.kept.columns.items()}, x)
            value += weight * more
            slope += weight * steeper
        return value, slope

    def add_each(self, x: Vector, values: Vector, slopes: Vector) -> None:
        for number, rows, weight in self.kept.each():
            more, steeper = self._of({name: column[rows] for name, column in self.kept.columns.items()}, x)
            values[number] += weight * more
            slopes[number] += weight * steeper

    def _of(self, rows: Columns, x: Vector) -> tuple[Vector, Vector]:
        here, there = (self.problem.jacobian_sum(at, rows) for at in (self.point, x))
        both = self.problem.operator_sums(np.array([self.point, x]), rows)
        return both[1] - both[0] - here @ (x - self.point), there - here


class _OfScores:
    """In a regression it is a number a row times its features: what is known of the point is worked out once."""

    def __init__(self, problem: GLM, point: Vector, kept: Stretches) -> None:
        self.problem, self.point, self.kept = problem, point, kept
        self.features = np.asarray(kept.columns["features"], dtype=np.float64)
        self.weights = np.repeat(kept.weights, np.diff(kept.ends))
        self.residuals = problem.residuals_at(point, kept.columns)
        self.slopes = self._slopes(point)

    def _slopes(self, x: Vector) -> Vector:
        found = self.problem.slopes(x, self.kept.columns)
        assert found is not None  # of a link that is not linear
        return found

    def _of(self, x: Vector) -> tuple[Vector, Vector]:
        """By how much residuals of rows are off their line, and by how much their slopes have changed."""
        off = self.problem.residuals_at(x, self.kept.columns) - self.residuals
        off -= self.slopes * np.dot(self.features, x - self.point)
        steeper = self.weights * (self._slopes(x) - self.slopes)
        return self.weights * off, steeper[:, None] * self.features

    def at(self, x: Vector) -> tuple[Vector, Vector]:
        off, steeper = self._of(x)
        return off @ self.features, joint_moments(steeper, self.features, off)[0]

    def add_each(self, x: Vector, values: Vector, slopes: Vector) -> None:
        off, steeper = self._of(x)
        for number, rows, _ in self.kept.each():
            features = self.features[rows]
            values[number] += np.dot(off[rows], features)
            slopes[number] += np.dot(features.T, steeper[rows])
