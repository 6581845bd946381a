"""Figures of error against iterations: two panels, one shared step and every method at its own best step."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from multireplay._check import Vector
from multireplay.errors import DivergenceWarning
from multireplay.reproduce.methods import POINTS, Method
from multireplay.reproduce.table import Row, mean_and_error
from multireplay.reproduce.worlds import Size, World, seeds
from multireplay.solve import solve
from multireplay.tracking import Track

Arrays = dict[str, NDArray[np.float64]]
PANELS = ("shared", "best")


@dataclass(frozen=True)
class CurveFigure:
    """A figure of the numerical section.

    Attributes
    ----------
    name, title : str
        As on the command line, and above the picture.
    world : callable
        ``world(size, seed)`` makes one instance.
    lengths : mapping
        Samples in the buffer for each size.
    methods : tuple of Method
        What is compared.
    shared_step : float
        The constant step of the first panel.
    grid : tuple of float
        The common grid from which each method's best step is chosen, on other instances than those reported.
    exact_grids : mapping
        For every exact fit, the penalties to choose from in the same way.
    averaged : bool
        Whether the averaged or the last iterate is plotted; the paper does the first for policy evaluation, the
        second for logistic regression.
    tuning : mapping
        Number of tuning instances for each size.
    seconds : float
        Rough time of one full instance, for the estimate of the time left.
    details : str
        Whatever else the world is made from, so that finished instances of another world are not taken for its own.
    """

    name: str
    title: str
    world: Callable[[Size, tuple[int, ...]], World]
    lengths: Mapping[Size, int]
    methods: tuple[Method, ...]
    shared_step: float
    grid: tuple[float, ...]
    exact_grids: Mapping[str, tuple[float, ...]]
    averaged: bool
    tuning: Mapping[Size, int]
    seconds: float
    details: str

    def settings(self) -> str:
        """What finished instances depend on besides the code."""
        steps = f"{self.shared_step} {self.grid} {dict(self.exact_grids)} {self.averaged} {dict(self.tuning)}"
        return f"{self.name} {self.details} {dict(self.lengths)} {[m.name for m in self.methods]} {steps} {POINTS}"

    def tune(self, size: Size, seed: int, instance: int) -> Arrays:
        """Errors of every method at every step of the grid, and of every exact fit at every penalty."""
        world = self.world(size, seeds(seed, self.name, "tune", instance))
        found = {
            method.name: np.array([self._curve(world, method, step, instance, size)[0] for step in self.grid])
            for method in self.methods
        }
        for name, penalties in self.exact_grids.items():
            if len(penalties) > 1:
                found[name] = np.array([_exact_error(world, name, penalty)[0] for penalty in penalties])
        return found

    def choose(self, tuned: list[Arrays]) -> dict[str, float]:
        """Each method's step with the smallest mean error anywhere on its curve; likewise every exact fit's penalty."""
        chosen = {}
        for method in self.methods:
            means = np.mean([arrays[method.name] for arrays in tuned], axis=0)
            chosen[method.name] = self.grid[int(np.argmin(means.min(axis=1)))]
        for name, penalties in self.exact_grids.items():
            best = np.argmin(np.mean([arrays[name] for arrays in tuned], axis=0)) if len(penalties) > 1 else 0
            chosen[name] = penalties[int(best)]
        return chosen

    def report(self, size: Size, seed: int, instance: int, chosen: Mapping[str, float]) -> Arrays:
        """Errors of every method in both panels: rows are the squared error and the weighted one, by iteration."""
        world = self.world(size, seeds(seed, self.name, "report", instance))
        found = {}
        for method in self.methods:
            for panel, step in zip(PANELS, (self.shared_step, chosen[method.name]), strict=True):
                found[f"{panel}/{method.name}"] = self._curve(world, method, step, instance, size)
        for name in self.exact_grids:
            found[f"exact/{name}"] = _exact_error(world, name, chosen[name])
        return found

    def rows(self, reports: list[Arrays], chosen: Mapping[str, float], size: Size) -> list[Row]:
        """The table behind the figure."""
        rows = []
        count = len(reports)
        for panel in PANELS:
            for method in self.methods:
                step = self.shared_step if panel == "shared" else chosen[method.name]
                curves = np.array([report[f"{panel}/{method.name}"] for report in reports])
                for j, iterations in enumerate(method.iterations(self.lengths[size]).tolist()):
                    mean, error = mean_and_error(curves[:, 0, j])
                    rows.append(Row(panel, method.name, step, iterations, mean, error, curves[:, 1, j].mean(), count))
            for name in self.exact_grids:
                points = np.array([report[f"exact/{name}"] for report in reports])
                mean, error = mean_and_error(points[:, 0])
                rows.append(Row(panel, name, chosen[name], self.lengths[size], mean, error, points[:, 1].mean(), count))
        return rows

    def _curve(self, world: World, method: Method, step: float, instance: int, size: Size) -> Vector:
        data = world.fresh if method.independent else world.record
        scheme = method.replay(instance)
        iterations = method.iterations(self.lengths[size])
        plan = scheme.plan(len(data))
        track = Track(world.solution, at="end" if len(plan) > 1 else iterations, weight=world.weight)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DivergenceWarning)
            result = solve(world.problem, data, replay=scheme, step=step, average="full", track=track)
        rows: list[list[float]] = [[], []]
        for epoch in result.epochs:
            curve = epoch.curve
            assert curve is not None
            assert curve.initial_weighted is not None
            kind = "average" if self.averaged else "last"
            rows[0] += [float(error) / curve.initial for error in getattr(curve, kind)]
            rows[1] += [float(error) / curve.initial_weighted for error in getattr(curve, f"{kind}_weighted")]
            if len(plan) > 1 and epoch.diverged:
                rows[0].append(np.inf)
                rows[1].append(np.inf)
        lost = len(iterations) - len(rows[0])
        return np.array([row + [np.inf] * lost for row in rows])


def _exact_error(world: World, name: str, penalty: float) -> Vector:
    """Normalized squared error of an exact fit, plain and weighted."""
    track = Track(world.solution, weight=world.weight)
    points = np.array([world.exact[name](penalty), np.zeros_like(world.solution)])
    plain, weighted = track.errors(points), track.weighted_errors(points)
    assert weighted is not None
    return np.array([plain[0] / plain[1], weighted[0] / weighted[1]])
