"""Estimators of a record that stays where it is: its moments are a sum, and it is standardized as it is read."""

from __future__ import annotations

import warnings
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from multireplay._check import Vector
from multireplay.buffer.buffer import Buffer
from multireplay.buffer.columns import Columns
from multireplay.buffer.disk.scaled import ScaledBuffer
from multireplay.engine.sums import BlockSum, Part
from multireplay.errors import ConvergenceWarning, DivergenceWarning
from multireplay.estimators.base import Start
from multireplay.estimators.dependence import examine, looked_at
from multireplay.estimators.standardize import Standardization
from multireplay.problems import Problem
from multireplay.solve import solve


class Moments(NamedTuple):
    """Of every class, or of all rows: what rows weigh, means of features and target, and squares about them."""

    weight: Vector
    mean: Vector
    square: Vector
    cross: Vector
    """Products of features and target, about their means."""

    def joined(self, other: Moments) -> Moments:
        """Of these rows and those."""
        weight, both = self.weight + other.weight, np.maximum(self.weight + other.weight, 1e-300)[:, None]
        apart, share = other.mean - self.mean, other.weight[:, None] / both
        about = self.weight[:, None] * share
        cross = self.cross + other.cross + about * apart[:, :-1] * apart[:, -1:]
        square = self.square + other.square + about * apart**2
        return Moments(weight, self.mean + share * apart, square, cross)

    def together(self, weights: Vector) -> Moments:
        """Of all classes, given what a row of each weighs."""
        each = zip(weights * self.weight, self.mean, weights[:, None] * self.square, self.cross, strict=True)
        return reduce(Moments.joined, (Moments(np.array([w]), m[None], s[None], c[None]) for w, m, s, c in each))


class MomentsSum(BlockSum):
    """The moments of features, less those of one row, and of targets."""

    def __init__(self, problem: Problem, around: Vector, classes: int) -> None:
        self.problem, self.around, self.classes = problem, around, max(1, classes)

    def zero(self) -> Part:
        shape = self.classes, len(self.around)
        return (Moments(np.zeros(self.classes), np.zeros((shape[0], shape[1] + 1)),
                        np.zeros((shape[0], shape[1] + 1)), np.zeros(shape)),)  # fmt: skip

    def of(self, block: Columns) -> Part:
        y = np.asarray(block["targets"], np.float64)
        rows = np.column_stack([np.asarray(block["features"], np.float64) - self.around, y])
        weights = np.asarray(block["weights"], np.float64) if "weights" in block else np.ones(len(y))
        if self.classes == 1:
            found = [_moments(rows, weights)]
        else:
            found = [_moments(rows[y == code], weights[y == code]) for code in range(self.classes)]
        return (Moments(*map(np.concatenate, zip(*found, strict=True))),)

    def add(self, total: Part, part: Part) -> Part:
        return (total[0].joined(part[0]),)

    def standardization(self, found: Moments, count: int, standardize: bool) -> Standardization:
        """Of features; one that does not vary is exactly 0, as scikit-learn's `StandardScaler` has it."""
        dim = len(self.around)
        if not standardize:
            return Standardization(np.zeros(dim), np.ones(dim), True)
        mean, variance = found.mean[0, :dim], found.square[0, :dim] / found.weight[0]
        eps = np.finfo(np.float64).eps
        constant = variance <= count * eps * variance + (count * (self.around + mean) * eps) ** 2
        scale = np.sqrt(np.where(constant, 1.0, variance))
        return Standardization(self.around + np.where(constant, 0.0, mean), scale, True)


def _moments(rows: Vector, weights: Vector) -> Moments:
    weight = np.array([weights.sum()])
    mean = (weights @ rows / max(weight[0], 1e-300))[None]
    off = rows - mean
    square = np.einsum("i,ij,ij->j", weights, off, off)[None]
    return Moments(weight, mean, square, (weights * off[:, -1] @ off[:, :-1])[None])


def fit_stored(
    estimator: Any, stored: ScaledBuffer, standardization: Standardization, shares: Vector, on: Any = None
) -> Any:
    """The estimator fitted to a record, where workers, if there are any, add up; what it warns of is in its results.

    `shares` are those of the classes, or the mean target.
    """
    rows, width = len(stored), len(standardization.scale)
    estimator.n_features_in_ = width
    if len(getattr(estimator, "classes_", ())) > 2:
        x0 = estimator._x0_of(shares, width + 1)
    else:
        x0 = np.append(np.zeros(width), estimator._inverse(float(shares[-1]), rows))
    options = {"passes": estimator.passes, "replay": estimator.replay, **estimator._options(x0)}
    with warnings.catch_warnings():
        for kind in (ConvergenceWarning, DivergenceWarning):
            warnings.simplefilter("ignore", kind)
        result = estimator._told(solve(estimator._problem(), stored, on=on, **options))
    estimator._fitted, estimator.results_ = Start(standardization, result.x), (result,)
    estimator._stream = estimator.dependence_ = None
    estimator._keep(*estimator._fitted)
    if estimator.warn_autocorrelation and result.status.ok:
        part = Buffer(**stored.take(np.arange(rows - looked_at(rows), rows)))
        problem, part, begun = estimator._examined(part)
        names = [f"feature {name!r}" for name in estimator._called]
        options = estimator._options(x0 if len(x0) == len(begun) else begun)
        estimator.dependence_ = examine(problem, part, names, estimator.target, options)
    return estimator
