"""The paper's figures of error against iterations: one shared step, and every method at its own best step."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import multireplay as mr
from multireplay._check import Positions, Vector
from multireplay.bench.method import Method
from multireplay.bench.methods.library import of_figures, skip
from multireplay.bench.runner import PaperExperiment
from multireplay.bench.store import Arrays
from multireplay.bench.table import Row, mean_and_error
from multireplay.bench.world import Case, Size, World, seeds
from multireplay.bench.worlds.chains import chain_world
from multireplay.bench.worlds.series import logistic_world
from multireplay.simulate import AutoregressiveLogistic, paper_mrp

PANELS = ("shared", "best")
POINTS = 40
"""Iterations at which the curves of single-epoch methods are recorded, evenly in the logarithm."""

MRP_LENGTH: dict[Size, int] = {"full": 150_000, "small": 12_000}


def along_the_way(length: int) -> Positions:
    """Iterations at which a figure records a run of that length."""
    return np.unique(np.geomspace(1, length, POINTS).round().astype(np.int64))


def error_curve(case: Case, method: Method, step: float, at: Callable[[int], Positions], averaged: bool) -> Vector:
    """Iterations, squared error and weighted squared error over those at x = 0, each a row, of one run of a method.

    A method of several epochs, as MER, has one point an epoch, at its end; any other has the points ``at(length)``.
    After a run has diverged its errors are infinite.
    """
    data = case.fresh if method.independent else case.record
    assert data is not None
    assert method.order is not None
    scheme = method.order(case)
    lengths = [epoch.length for epoch in scheme.plan(len(data))]
    several = len(lengths) > 1
    iterations = np.array(lengths, dtype=np.int64) if several else at(lengths[0])
    track = mr.Track(case.world.solution, at="end" if several else iterations, weight=case.world.weight)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mr.DivergenceWarning)
        result = mr.solve(case.world.problem, data, replay=scheme, step=step, average="full", track=track)
    kind = "average" if averaged else "last"
    found = np.full((3, len(iterations)), np.inf)
    found[0] = iterations
    for place, epoch in enumerate(result.epochs):
        curve = epoch.curve
        assert curve is not None
        errors = getattr(curve, kind) / curve.initial, getattr(curve, f"{kind}_weighted") / curve.initial_weighted
        found[1:, place : place + len(errors[0])] = errors
    return found


def exact_error(case: Case, penalty: float) -> Vector:
    """Squared error and weighted squared error of the exact fit over those at x = 0."""
    track = mr.Track(case.world.solution, weight=case.world.weight)
    points = np.array([case.world.fit(case.record, penalty), np.zeros_like(case.world.solution)])
    plain, weighted = track.errors(points), track.weighted_errors(points)
    assert weighted is not None
    return np.array([plain[0] / plain[1], weighted[0] / weighted[1]])


class CurveFigure(PaperExperiment):
    """A figure of the numerical section: methods compared on the cases that ``instance(length, seed, number)`` makes.

    In the first panel all share one constant step, in the second each has its best one of the grid, chosen on other
    instances than those reported; likewise the penalty of every exact fit. Plotted is the averaged or the last iterate:
    the paper does the first for policy evaluation, the second for logistic regression. `mixing` is the parameter that
    the paper's pair of figures differs in.
    """

    lengths: Mapping[Size, int]
    shared_step: float
    grid: tuple[float, ...]
    exact_grids: Mapping[str, tuple[float, ...]]
    averaged: bool
    tuning_cost = 2.0

    def __init__(self, name: str, title: str, mixing: float, *skips: Method) -> None:
        self.name, self.title, self.mixing, self.methods = name, title, mixing, of_figures(*skips)

    @abstractmethod
    def instance(self, length: int, seed: tuple[int, ...], number: int) -> Case: ...

    def case(self, size: Size, seed: int, instance: int, phase: str) -> Case:
        return self.instance(self.lengths[size], seeds(seed, self.name, phase, instance), instance)

    def settings(self) -> dict[str, Any]:
        names = ("lengths", "shared_step", "grid", "exact_grids", "averaged", "mixing")
        methods = [method.name for method in self.methods]
        return {name: getattr(self, name) for name in names} | {"methods": methods, "points": POINTS}

    def _curve(self, case: Case, method: Method, step: float) -> Vector:
        return error_curve(case, method, step, along_the_way, self.averaged)

    def choices(self, size: Size) -> Mapping[str, Sequence[float]]:
        return {**{method.name: self.grid for method in self.methods}, **self.exact_grids}

    def errors(self, case: Case, name: str, value: float) -> Any:
        if name in self.exact_grids:
            return exact_error(case, value)[0]
        return self._curve(case, next(method for method in self.methods if method.name == name), value)[1]

    def report(self, size: Size, seed: int, instance: int, chosen: Mapping[str, float]) -> Arrays:
        """Error curves of every method in both panels, and the errors of the exact fits."""
        case = self.case(size, seed, instance, "report")
        found = {}
        for method in self.methods:
            for panel, step in zip(PANELS, (self.shared_step, chosen[method.name]), strict=True):
                found[f"{panel}/{method.name}"] = self._curve(case, method, step)
        for name in self.exact_grids:
            found[f"exact/{name}"] = exact_error(case, chosen[name])
        return found

    def rows(self, reports: list[Arrays], chosen: Mapping[str, float], size: Size) -> list[Row]:
        """The table behind the figure."""
        rows = []
        count = len(reports)
        for panel in PANELS:
            for method in self.methods:
                step = self.shared_step if panel == "shared" else chosen[method.name]
                curves = np.array([report[f"{panel}/{method.name}"] for report in reports])
                for iterations, errors, weighted in curves.T:
                    where = panel, method.name, step, int(iterations[0])
                    rows.append(Row(*where, *mean_and_error(errors), weighted.mean(), count))
            for name in self.exact_grids:
                errors, weighted = np.array([report[f"exact/{name}"] for report in reports]).T
                where = panel, name, chosen[name], self.lengths[size]
                rows.append(Row(*where, *mean_and_error(errors), weighted.mean(), count))
        return rows


def _case(world: World, seed: tuple[int, ...], first: int, instance: int) -> Case:
    """A record and independent samples of the world, from seeds numbered from `first`."""
    assert world.fresh is not None
    return Case(world, world.record((*seed, first)), instance, fresh=world.fresh((*seed, first + 1)))


def policy_evaluation(m: float, length: int, seed: tuple[int, ...], instance: int) -> Case:
    """The paper's Markov reward process, one trajectory of it."""
    return _case(chain_world(paper_mrp(m), length), seed, 0, instance)


class PolicyEvaluationFigure(CurveFigure):
    """Figures 1 and 2, by m."""

    lengths = MRP_LENGTH
    shared_step = 0.5
    grid = tuple(2.0**-k for k in range(9))
    exact_grids: Mapping[str, tuple[float, ...]] = {"LSTD": (0.0,)}
    averaged = True
    tuning: Mapping[Size, int] = {"full": 10, "small": 2}
    seconds = 0.5

    def instance(self, length: int, seed: tuple[int, ...], number: int) -> Case:
        return policy_evaluation(self.mixing, length, seed, number)


class LogisticFigure(CurveFigure):
    """Figure 3, by d_L/d. The shared step is where the i.i.d. method does best on tuning seeds at full size."""

    lengths: Mapping[Size, int] = {"full": 10_000, "small": 2_000}
    shared_step = 2.0**-11
    grid = tuple(2.0**-k for k in range(6, 15))
    exact_grids: Mapping[str, tuple[float, ...]] = {"maximum likelihood": (0.0,), "best ridge": (0.03, 0.1, 0.2, 0.4)}
    averaged = False
    tuning: Mapping[Size, int] = {"full": 5, "small": 2}
    seconds = 8.0

    def instance(self, length: int, seed: tuple[int, ...], number: int) -> Case:
        """A new matrix A, solution and record for every instance."""
        dim = {10_000: 1000, 2_000: 100}[length]
        simulated = AutoregressiveLogistic(dim, round(self.mixing * dim), seed=(*seed, 0))
        return _case(logistic_world(simulated, length), seed, 1, number)


_SKIPS = skip(19, "skip right (19)"), skip(300, "skip too much (300)"), skip(3, "skip too little (3)")
_LOGISTIC = "Logistic regression, autoregressive covariates, d_L/d = "
FIGURES: dict[str, CurveFigure] = {
    figure.name: figure
    for figure in (
        PolicyEvaluationFigure("fig1", "Skipping right, too much and too little (m = 0.95)", 0.95, *_SKIPS),
        PolicyEvaluationFigure("fig2a", "Policy evaluation, m = 0.9", 0.9, skip(5)),
        PolicyEvaluationFigure("fig2b", "Policy evaluation, m = 0.95", 0.95, skip(5)),
        LogisticFigure("fig3a", f"{_LOGISTIC}0.4", 0.4, skip(10)),
        LogisticFigure("fig3b", f"{_LOGISTIC}0.5", 0.5, skip(10)),
    )
}
