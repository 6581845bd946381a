"""The library in a minute: intervals of a sensor log made 200 times, and a policy evaluated by five methods."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter
from scipy.stats import t as student

import multireplay as mr
from multireplay._check import Vector
from multireplay.errors import UncertaintyWarning
from multireplay.show.text import TextTable

ROWS = 20_000
TRUTH = {"temperature": -1.5, "wind": 0.8, "sun": -6.0, "(intercept)": 60.0}
"""Kilowatts a degree, a metre a second and full sun, and what is used at zero of all three."""
SHOWN = "temperature"
"""The coefficient whose intervals are drawn."""
LENGTH, STICKINESS = 150_000, 0.95
OURS, TEXTBOOK = "multireplay", "textbook OLS"
ABOUT_THE_LOG = (
    "The power that a heated building uses, in kW, every 10 minutes: more when it is cold or windy, less in the sun. "
    "What the weather does not explain is sticky: if it is high now, so it is in half an hour."
)
ABOUT_THE_POLICY = (
    f"The paper's Markov reward process (m = {STICKINESS:g}: it stays in a state for some twenty steps at a time), and "
    "the value of its states by 16 numbers. LSTD solves the equations of all rows at once and is the error to reach; "
    "the others are given no step size. A smaller step, tuned on other records, brings serial TD close to it."
)


class Log(NamedTuple):
    """A sensor log: hours since its beginning, a column each of temperature, wind and sun, and the power."""

    hours: Vector
    weather: Vector
    power: Vector


def sensor_log(seed: Any, rows: int | None = None) -> Log:
    """Draw a log whose coefficients are `TRUTH`; weather and noise are autoregressions, with the course of the day."""
    rng = np.random.default_rng(seed)
    hours = np.arange(ROWS if rows is None else rows) / 6

    def sticky(memory: float) -> Vector:
        """Of mean 0 and variance 1; neighbours have this correlation."""
        drawn = rng.standard_normal(len(hours))
        drawn[0] /= np.sqrt(1 - memory**2)
        return np.asarray(lfilter([np.sqrt(1 - memory**2)], [1, -memory], drawn))

    day = np.sin(2 * np.pi * (hours - 9) / 24)
    temperature = (10 + 4 * day + 5 * sticky(0.97)).round(2)
    wind = np.exp(1.2 + 0.5 * sticky(0.95)).round(2)
    sun = (np.maximum(0, day) / (1 + np.exp(-2 * sticky(0.95)))).round(3)
    weather = np.column_stack([temperature, wind, sun])
    *slopes, constant = TRUTH.values()
    return Log(hours.round(3), weather, (constant + weather @ slopes + 5 * sticky(0.95)).round(3))


def textbook_intervals(log: Log, level: float = 0.95) -> Vector:
    """Ordinary least squares with the standard errors of independent rows: shape (coefficients, 2)."""
    X = np.column_stack([log.weather, np.ones(len(log.power))])
    inverse, degrees = np.linalg.inv(X.T @ X), len(X) - X.shape[1]
    x = inverse @ (X.T @ log.power)
    errors = np.sqrt(np.diag(inverse) * np.sum((log.power - X @ x) ** 2) / degrees)
    return x[:, None] + np.outer(errors, student.interval(level, degrees))


def our_intervals(log: Log, level: float = 0.95) -> Vector:
    """Intervals by the estimator behind `multireplay fit`: shape (coefficients, 2)."""
    model = mr.MERRegressor().fit(log.weather, log.power)
    return np.asarray(model.conf_int(level))


Solver = Callable[[Any, Any], Any]
METHODS: dict[str, tuple[Solver, str]] = {
    "mr.solve": (lambda problem, buffer: mr.solve(problem, buffer), "default, with intervals"),
    "MER": (lambda problem, buffer: mr.solve(problem, buffer, replay=mr.Multiscale()), "the paper's algorithm"),
    "serial TD": (lambda problem, buffer: mr.solve(problem, buffer, replay=mr.Serial()), "one pass, in order"),
    "shuffle": (lambda problem, buffer: mr.solve(problem, buffer, replay=mr.Shuffle(seed=0)), "one pass, shuffled"),
    "LSTD": (lambda problem, buffer: problem.fit_exactly(buffer), "exact equations"),
}
"""Ways to evaluate a policy, each with what it is."""


@dataclass(frozen=True, eq=False)
class Demo:
    """What was found: intervals by method (repetitions × coefficients × 2), errors and seconds (trajectories)."""

    intervals: dict[str, Vector]
    errors: dict[str, Vector]
    seconds: dict[str, Vector]
    held: Vector
    """Share of the coordinates that the intervals of `mr.solve` hold, a trajectory each."""

    def holds(self, method: str) -> NDArray[np.bool_]:
        """Whether each interval holds the truth: repetitions × coefficients."""
        low, high = np.moveaxis(self.intervals[method], -1, 0)
        truth = np.array(list(TRUTH.values()))
        return np.asarray((low <= truth) & (truth <= high))

    def coverage_table(self) -> TextTable:
        """How often intervals hold the truth, a row each coefficient, with binomial standard errors."""
        lengths = {name: np.diff(ends, axis=-1)[..., 0].mean(axis=0) for name, ends in self.intervals.items()}
        rows = []
        for place, (name, truth) in enumerate(TRUTH.items()):
            cells = {method: share(self.holds(method)[:, place]) for method in self.intervals}
            longer = lengths[OURS][place] / lengths[TEXTBOOK][place]
            rows.append({"coefficient": name, "truth": f"{truth:g}", **cells, "length": f"{longer:.1f} ×"})
        repetitions = len(self.intervals[OURS])
        return TextTable(rows, title=f"95 % intervals that hold the truth, of {repetitions} logs")

    def policy_table(self) -> TextTable:
        """Error, its ratio to that of LSTD, time and intervals, a row each method."""
        exact, count = self.errors["LSTD"].mean(), len(self.held)
        rows = []
        for name, (_, about) in METHODS.items():
            errors, mean = self.errors[name], self.errors[name].mean()
            spread = f" ± {errors.std(ddof=1) / np.sqrt(count):.0e}" if count > 1 else ""
            rows.append({
                "method": name,
                "what it is": about,
                "squared error": f"{mean:.1e}{spread}",
                "over LSTD's": f"{mean / exact:.3g}",
                "ms": f"{1000 * np.median(self.seconds[name]):.1f}",
                "intervals": share(self.held, binomial=False) if name == "mr.solve" else "none",
            })  # fmt: skip
        return TextTable(rows, title=f"Policy evaluation: mean of {count} trajectories of {LENGTH:,} rows")


def share(held: Vector | NDArray[np.bool_], binomial: bool = True) -> str:
    """A share in per cent with its standard error: binomial, or that of a mean of shares."""
    mean, count = held.mean(), len(held)
    spread = np.sqrt(mean * (1 - mean)) if binomial else held.std(ddof=1) if count > 1 else 0.0
    return f"{100 * mean:.1f} % ± {100 * spread / np.sqrt(count):.1f}"


def run_demo(repetitions: int, trajectories: int, seed: int, advance: Callable[[int], None]) -> Demo:
    """Draw the logs and the trajectories, fit all, and tell `advance` of each log and each fit of a trajectory."""
    with warnings.catch_warnings(action="ignore", category=UncertaintyWarning):  # a marked one counts as any other
        return _run(repetitions, trajectories, seed, advance)


def _run(repetitions: int, trajectories: int, seed: int, advance: Callable[[int], None]) -> Demo:
    intervals: dict[str, list[Vector]] = {OURS: [], TEXTBOOK: []}
    for repetition in range(repetitions):
        log = sensor_log((seed, repetition))
        intervals[OURS].append(our_intervals(log))
        intervals[TEXTBOOK].append(textbook_intervals(log))
        advance(1)
    process = mr.simulate.paper_mrp(m=STICKINESS)
    solution, scale = process.solution, np.sum(process.solution**2)
    errors: dict[str, list[float]] = {name: [] for name in METHODS}
    times: dict[str, list[float]] = {name: [] for name in METHODS}
    held = []
    for name, found, took in _evaluations(process, trajectories, seed):
        x = getattr(found, "x", found)
        errors[name].append(float(np.sum((x - solution) ** 2) / scale))
        times[name].append(took)
        if name == "mr.solve":
            low, high = found.interval(0.95).T
            held.append(float(np.mean((low <= solution) & (solution <= high))))
        advance(1)
    return Demo(
        {name: np.array(found) for name, found in intervals.items()},
        {name: np.array(found) for name, found in errors.items()},
        {name: np.array(found) for name, found in times.items()},
        np.array(held),
    )


def _evaluations(process: Any, trajectories: int, seed: int) -> Iterator[tuple[str, Any, float]]:
    """What every method finds on every trajectory, and the seconds it took; loops are compiled before."""
    small = process.buffer(length=4096, seed=(seed, 0))
    for solve, _ in METHODS.values():
        solve(process.problem, small)
    for trajectory in range(trajectories):
        buffer = process.buffer(length=LENGTH, seed=(seed, trajectory))
        for name, (solve, _) in METHODS.items():
            began = time.perf_counter()
            found = solve(process.problem, buffer)
            yield name, found, time.perf_counter() - began
