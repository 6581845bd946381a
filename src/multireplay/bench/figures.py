"""The paper's figures of error against iterations: a step shared by all methods, and every method at its own best."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import numpy as np

import multireplay as mr
from multireplay._check import Positions, Vector
from multireplay.bench.method import Method
from multireplay.bench.methods.library import MER, of_figures, skip
from multireplay.bench.runner import PaperExperiment
from multireplay.bench.store import Arrays
from multireplay.bench.table import Row, mean_and_error
from multireplay.bench.world import Case, Size, World, seeds
from multireplay.bench.worlds.chains import chain_world
from multireplay.bench.worlds.series import logistic_world
from multireplay.simulate import AutoregressiveLogistic, paper_mrp

PANELS = ("shared", "best")
RULES = {"shared": "MER, shared cap", "best": "MER"}
"""Under which names MER's rule of steps is chosen, by panel."""
CONSTANT = replace(MER, name="MER, one constant step (ours)")
"""MER with one step for all epochs, which is not the paper's algorithm."""
CAPS = 4
"""How many of the largest steps of a grid are tried as MER's own cap: its steps fall by themselves."""
Step: TypeAlias = float | mr.steps.Schedule

MRP_LENGTH: dict[Size, int] = {"full": 150_000, "small": 12_000}


def along_the_way(length: int) -> Positions:
    """Iterations at which a figure records a run of that length: three in every octave, and the last."""
    every = 2.0 ** np.arange(0, np.log2(length), 1 / 3)
    return np.unique(np.append(every.round().astype(np.int64), length))


def error_curve(case: Case, method: Method, step: Step, at: Callable[[int], Positions], averaged: bool) -> Vector:
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
    with warnings.catch_warnings(action="ignore", category=mr.DivergenceWarning):
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
    try:
        fitted = case.world.fit(case.record, penalty)
    except mr.InputError:  # there is none, as on separable data
        return np.full(2, np.inf)
    points = np.array([fitted, np.zeros_like(case.world.solution)])
    plain, weighted = track.errors(points), track.weighted_errors(points)
    assert weighted is not None
    return np.array([plain[0] / plain[1], weighted[0] / weighted[1]])


class CurveFigure(PaperExperiment):
    """A figure of the numerical section: methods compared on the cases that ``instance(length, seed, number)`` makes.

    MER has its own rule of steps, η_k = min(cap, c·log T_k/T_k): Algorithm 1 gives every epoch a step of its own, and
    Theorem 1 its shape. In the first panel every other method has one constant step, the same for all, and that is
    MER's cap; in the second each has its own constant step, and MER its own cap. Steps, MER's c and cap, and the
    penalty of every exact fit are those with the least mean error at the end, on other instances than those reported.
    The paper does not say which steps it took.

    Plotted is the averaged or the last iterate: the paper does the first for policy evaluation, the second for logistic
    regression. The errors of a figure are in the norm that its caption names: `weighted` says whether that is ‖·‖_Π.
    `mixing` is the parameter that the paper's pair of figures differs in; `beside` are methods that are in the table
    and not in the picture.
    """

    lengths: Mapping[Size, int]
    shared_step: float
    grid: tuple[float, ...]
    ratios: tuple[float, ...]
    """What c is over the cap: powers of 2."""
    exact_grids: Mapping[str, tuple[float, ...]]
    averaged: bool
    weighted: bool
    mixing: float

    def __init__(self, name: str, title: str, skips: tuple[Method, ...], beside: tuple[Method, ...] = ()) -> None:
        self.name, self.title, self.beside = name, title, beside
        mer, *others = of_figures(*skips)
        self.drawn = mer, CONSTANT, *others
        self.methods = *self.drawn, *beside

    @abstractmethod
    def instance(self, length: int, seed: tuple[int, ...], number: int) -> Case: ...

    def case(self, size: Size, seed: int, instance: int, phase: str) -> Case:
        return self.instance(self.lengths[size], seeds(seed, self.name, phase, instance), instance)

    def settings(self) -> dict[str, Any]:
        names = ("lengths", "shared_step", "grid", "ratios", "exact_grids", "averaged", "weighted", "mixing")
        methods = [method.name for method in self.methods]
        return {name: getattr(self, name) for name in names} | {"methods": methods}

    def _curve(self, case: Case, method: Method, step: Step) -> Vector:
        return error_curve(case, method, step, along_the_way, self.averaged)

    def rules(self, *caps: float) -> list[tuple[float, float]]:
        """MER's rules with these caps: c and the cap."""
        return [(ratio * cap, cap) for cap in caps for ratio in self.ratios]

    def choices(self, size: Size) -> Mapping[str, Sequence[Any]]:
        mine = {RULES["shared"]: self.rules(self.shared_step), RULES["best"]: self.rules(*self.grid[:CAPS])}
        return {method.name: self.grid for method in self.methods} | mine | dict(self.exact_grids)

    def errors(self, case: Case, name: str, value: Any) -> Any:
        norm = 1 + self.weighted
        if name in self.exact_grids:
            return exact_error(case, value)[norm - 1]
        if name in RULES.values():
            return self._curve(case, MER, mr.steps.PerEpoch(*value))[norm, -1]
        return self._curve(case, next(method for method in self.methods if method.name == name), value)[norm, -1]

    def step(self, panel: str, method: Method, chosen: Mapping[str, Any]) -> Step:
        """The step of a method in a panel, MER's by its own rule."""
        if method.name == MER.name:
            return mr.steps.PerEpoch(*chosen[RULES[panel]])
        return self.shared_step if panel == "shared" else float(chosen[method.name])

    def report(self, size: Size, seed: int, instance: int, chosen: Mapping[str, Any]) -> Arrays:
        """Error curves of every method in both panels, and the errors of the exact fits."""
        case = self.case(size, seed, instance, "report")
        found = {
            f"{panel}/{method.name}": self._curve(case, method, self.step(panel, method, chosen))
            for method in self.methods
            for panel in PANELS
        }
        return found | {f"exact/{name}": exact_error(case, chosen[name]) for name in self.exact_grids}

    def rows(self, reports: list[Arrays], chosen: Mapping[str, Any], size: Size) -> list[Row]:
        """The table behind the figure."""
        rows = []
        count = len(reports)
        for panel in PANELS:
            for method in self.methods:
                step = self.step(panel, method, chosen)
                curves = np.array([report[f"{panel}/{method.name}"] for report in reports])
                for epoch, (iterations, errors, weighted) in enumerate(curves.T, start=1):
                    size_now = step if isinstance(step, float) else float(step.values(epoch, 0, 1)[0])
                    where = panel, method.name, size_now, int(iterations[0])
                    rows.append(Row(*where, *mean_and_error(errors), *mean_and_error(weighted), count))
            for name in self.exact_grids:
                errors, weighted = np.array([report[f"exact/{name}"] for report in reports]).T
                where = panel, name, chosen[name], self.lengths[size]
                rows.append(Row(*where, *mean_and_error(errors), *mean_and_error(weighted), count))
        return rows


def _case(world: World, seed: tuple[int, ...], first: int, instance: int) -> Case:
    """A record and independent samples of the world, from seeds numbered from `first`."""
    assert world.fresh is not None
    return Case(world, world.record((*seed, first)), instance, fresh=world.fresh((*seed, first + 1)))


def policy_evaluation(m: float, length: int, seed: tuple[int, ...], instance: int) -> Case:
    """The paper's Markov reward process, one trajectory of it."""
    return _case(chain_world(paper_mrp(m), length), seed, 0, instance)


class PolicyEvaluationFigure(CurveFigure):
    """Figures 1 and 2, at m = `mixing`, from θ_0 = 0."""

    lengths = MRP_LENGTH
    shared_step = 0.5
    grid = tuple(2.0**-k for k in range(9))
    ratios = tuple(100 * 2.0**k for k in range(6))
    exact_grids: Mapping[str, tuple[float, ...]] = {"LSTD": (0.0,)}
    averaged = True
    weighted = True
    tuning: Mapping[Size, int] = {"full": 4, "small": 1}
    seconds = 1.2
    tuning_cost = 7.0

    def __init__(self, name: str, m: float, skips: tuple[Method, ...], beside: tuple[Method, ...] = ()) -> None:
        title = f"Policy evaluation, m = {m:g}"
        super().__init__(name, title if beside else f"{title}: an illustration of the schematic (ours)", skips, beside)
        self.mixing, self.instances = m, 50 if beside else 20

    def instance(self, length: int, seed: tuple[int, ...], number: int) -> Case:
        return policy_evaluation(self.mixing, length, seed, number)


class LogisticFigure(CurveFigure):
    """Figure 3, at d_L/d = `mixing`, from x_0 = 0 with x* on the unit sphere.

    With the paper's additive noise, Gaussian, or beside it with Bernoulli targets. The shared step is where the i.i.d.
    method does best on tuning seeds at full size.
    """

    lengths: Mapping[Size, int] = {"full": 10_000, "small": 2_000}
    dims: Mapping[int, int] = {10_000: 1000, 2_000: 100}
    ratios = tuple(50 * 2.0**k for k in range(6))
    averaged = False
    weighted = False
    radius = 1.0
    noise = 0.1
    tuning: Mapping[Size, int] = {"full": 2, "small": 1}
    seconds = 7.5
    tuning_cost = 1.9

    def __init__(self, name: str, share: float, response: Literal["gaussian", "bernoulli"], instances: int) -> None:
        gaussian = response == "gaussian"
        targets = f"y = f(aᵀx*) + N(0, {self.noise:g}²)" if gaussian else "Bernoulli targets (ours)"
        super().__init__(name, f"Logistic regression, d_L/d = {share:g}, {targets}", (skip(10),))
        self.mixing, self.response, self.instances = share, response, instances
        self.shared_step = 2.0**-8 if gaussian else 2.0**-11
        self.grid = tuple(2.0**-k for k in (range(5, 13) if gaussian else range(8, 16)))
        exact = "unpenalized exact fit" if gaussian else "maximum likelihood"
        self.exact_grids = {exact: (0.0,), "best ridge": (0.001, 0.003, 0.01) if gaussian else (0.03, 0.1, 0.3)}

    def settings(self) -> dict[str, Any]:
        return super().settings() | {"response": self.response, "noise": self.noise, "radius": self.radius}

    def instance(self, length: int, seed: tuple[int, ...], number: int) -> Case:
        """A new matrix A, solution and record for every instance."""
        dim = self.dims[length]
        about: dict[str, Any] = {"response": self.response, "noise": self.noise, "radius": self.radius}
        simulated = AutoregressiveLogistic(dim, round(self.mixing * dim), seed=(*seed, 0), **about)
        return _case(logistic_world(simulated, length), seed, 1, number)


_OTHER_SKIPS = skip(19), skip(50)
FIGURES: dict[str, CurveFigure] = {
    figure.name: figure
    for figure in (
        PolicyEvaluationFigure(
            "fig1",
            0.95,
            (skip(19, "skip right (19)"), skip(300, "skip too much (300)"), skip(3, "skip too little (3)")),
        ),
        PolicyEvaluationFigure("fig2a", 0.9, (skip(5),), _OTHER_SKIPS),
        PolicyEvaluationFigure("fig2b", 0.95, (skip(5),), _OTHER_SKIPS),
        LogisticFigure("fig3a", 0.4, "gaussian", instances=20),
        LogisticFigure("fig3b", 0.5, "gaussian", instances=20),
        LogisticFigure("fig3a-bernoulli", 0.4, "bernoulli", instances=12),
        LogisticFigure("fig3b-bernoulli", 0.5, "bernoulli", instances=12),
    )
}
