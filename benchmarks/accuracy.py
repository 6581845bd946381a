"""Time to the same accuracy: `mr.solve`, standard errors included, against exact and iterative fits of other libraries.

A method has arrived once its worst coordinate is within 0.1 (and, beside it, 0.001) of its standard error of the exact
fit. Times are in readings: the time to add up the features once on all cores. Everybody has the same threads and the
data in memory. `mr.Buffer(...)` checks that all values are finite, which is not counted; so scikit-learn and glum are
told not to look. Iterative methods are tried from loose to tight tolerances, and the first that arrives is their time;
ours is the default call, then `Newton(tolerance=0.001)` where that was not within 0.001 already.

There are 2^28 bytes of features, or 60 rows a coordinate if that is more; benchmarks/rivals.py says how they are made
and what the exact fit is. A rival that takes more than 3 s and twice the time of another that arrived is given
up; one that took 20 times the best rival's is left out at larger d, unless it is L-BFGS, which may come back there. All
of it takes tens of minutes on two cores. It is written to benchmarks/accuracy.csv, where a part of it takes the place
of the same cells and the others stay; docs/build_speed.py makes the table of docs/speed.md from that.
Usage: python benchmarks/accuracy.py [--problems logistic] [--dims 50 100] [--worlds "AR(.9)"] [--rivals glum L-BFGS]
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from rivals import BLOCK, GAMMA, PROBLEMS, RIVALS, WORLDS, Array, Data, Method, exact_fit, trajectory, with_targets
from sklearn import config_context
from speed import best_times

import multireplay as mr
from multireplay.show.text import TextTable, render

DIMS = (8, 16, 50, 100, 200, 500, 1000, 2000)
NEAR, NEARER = LIMITS = (0.1, 0.001)
SIZE, LEAST_ROWS = 2**28, 60
"""Bytes of features, and rows a coordinate."""
HOPELESS, BEATEN, PATIENCE = 20.0, 2.0, 3.0
"""How many times the best rival's time a rival may take and be run at larger d; the same for being tried with a tighter
setting; and the seconds that anyone may take."""
QUICK = 4.0
"""Seconds below which a fit is repeated."""
OURS = "mr.solve"
LINKS = {"linear": "identity", "logistic": "logistic", "Poisson": "exp"}
CAN_TIGHTEN = "tolerance" in {setting.name for setting in fields(mr.Newton)}
COLUMNS = ("world", "problem", "d", "rows", "method", "setting", "seconds", "readings", "distance", "met")
ABOUT = f"""\
Times are in readings of the features, ours with standard errors, until the worst coordinate is within {NEAR:g} of its
standard error of the exact fit. –: did not arrive, or was given up; ratio: our time over the best rival's, for {NEAR:g}
and {NEARER:g}; distance: of our default call, worst coordinate in standard errors; said: what the result says of it.
"""


@dataclass
class Try:
    """One method with one setting: its time, and the distance to the exact fit in standard errors."""

    method: str
    setting: float | None
    seconds: float
    distance: float


@dataclass
class Cell:
    """All tries on one data set, and what our own default call said."""

    world: str
    data: Data | None
    tries: list[Try] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    result: mr.Result | None = None
    reading: float = np.nan

    def __post_init__(self) -> None:
        assert self.data is not None
        self.problem, (self.rows, self.dim) = self.data.problem, self.data.features.shape

    def first(self, method: str, limit: float = np.inf) -> Try | None:
        """A method with the loosest setting that arrives."""
        return next((one for one in self.tries if one.method == method and one.distance <= limit), None)

    def best(self, limit: float) -> Try | None:
        """The fastest rival that arrives."""
        arrived = [one for name in RIVALS if (one := self.first(name, limit))]
        return min(arrived, key=lambda one: one.seconds, default=None)

    def ratio(self, limit: float) -> float:
        """Our time over that of the best rival: infinite if we do not arrive, 0 if only we do."""
        mine, theirs = self.first(OURS, limit), self.best(limit)
        return np.inf if mine is None else mine.seconds / theirs.seconds if theirs else 0.0

    def seconds(self, method: str) -> float:
        """How long a method took to the tighter limit: at the next d the fastest goes first, and others may give up."""
        one = self.first(method, NEARER)
        return one.seconds if one else np.inf

    def hopeless(self) -> list[str]:
        """Rivals that need not be run on anything larger."""
        best = self.best(NEAR)
        last = {one.method: (self.first(one.method, NEAR) or one).seconds for one in self.tries}
        slow = {name for name, seconds in last.items() if best and seconds > max(PATIENCE, HOPELESS * best.seconds)}
        return [n for n, rival in RIVALS.items() if n in self.skipped or (n in slow and not rival.may_come_back)]

    def records(self) -> Iterator[tuple[Any, ...]]:
        """Lines of the file, see COLUMNS; "met" is the tightest limit."""
        about = (self.world, self.problem, self.dim, self.rows)
        for one in self.tries:
            met = next((str(limit) for limit in reversed(LIMITS) if one.distance <= limit), "no")
            met = "" if one.method == "mr.Buffer" else met
            numbers = (f"{value:.4g}" for value in (one.seconds, one.seconds / self.reading, one.distance))
            yield *about, one.method, "" if one.setting is None else f"{one.setting:g}", *numbers, met
        for name in self.skipped:
            yield *about, name, "", "", "", "", "skipped"

    def line(self, rivals: list[str]) -> dict[str, Any]:
        """The line of its table."""
        best, default, result = self.best(NEAR), self.first(OURS), self.result
        times = {name: self._readings(name) for name in (OURS, *rivals)}
        errors = "" if result is None or result.standard_error is not None else ", no s.e."
        return {
            "d": self.dim,
            "rows": self.rows,
            "GB": f"{8e-9 * self.rows * self.dim:.2f}",
            "reading, ms": f"{1000 * self.reading:.0f}",
            "ours": times.pop(OURS),
            **times,
            "best rival": best.method if best else "none",
            f"ratio {NEAR:g}": ratio_text(self.ratio(NEAR)),
            f"{NEARER:g}": ratio_text(self.ratio(NEARER)),
            "distance": f"{default.distance:.2g}" if default else "–",
            "said": said(result),
            "route": "" if result is None else result.run.route + errors,
        }

    def _readings(self, method: str) -> str:
        one = self.first(method, NEAR)
        if one is None:
            return "–" if any(tried.method == method for tried in self.tries) else ""
        readings = one.seconds / self.reading
        return f"{readings:.{1 if readings < 99.5 else 0}f}"


def ratio_text(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < np.inf else "–"


def said(result: mr.Result | None) -> str:
    """What our own result says of its distance, where this version says it."""
    distance = getattr(result, "distance", None)
    return "" if distance is None else f"{distance:.2g}{'' if getattr(result, 'converged', True) else ', no'}"


def buffer_of(data: Data) -> mr.Buffer:
    if data.problem in LINKS:
        return mr.Buffer(features=data.features, targets=data.targets)
    return mr.Buffer(features=data.features, next_features=data.next_features, rewards=data.targets)


def ours(buffer: mr.Buffer) -> Method:
    """The default call, and the one for the tighter limit where this version has it."""

    def fit(data: Data, tolerance: float | None) -> mr.Result:
        problem = mr.GLM(LINKS[data.problem]) if data.problem in LINKS else mr.PolicyEvaluation(GAMMA)
        how = {} if tolerance is None else {"update": mr.Newton(tolerance=tolerance)}
        return mr.solve(problem, buffer, **how)

    return Method(fit, PROBLEMS, (None, NEARER) if CAN_TIGHTEN else (None,))


def read(path: Array) -> None:
    """Add up all values, blocks that fit a cache, on all cores."""
    flat, cores, size = path.reshape(-1), os.cpu_count() or 1, BLOCK // 32
    starts = range(0, len(flat), size)
    with ThreadPoolExecutor(cores) as pool:
        list(pool.map(lambda core: sum(flat[k : k + size].sum() for k in starts[core::cores]), range(cores)))


def attempt(job: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds, and what was found; NaN if the method gave up."""
    began = time.perf_counter()
    try:
        found = job()
    except (np.linalg.LinAlgError, ValueError) as why:
        print(f"  gave up: {why}", file=sys.stderr)
        found = np.nan
    return time.perf_counter() - began, found


def measure(cell: Cell, rivals: dict[str, Method], repeats: int) -> None:
    """Try everybody from loose to tight, then repeat in turns what arrived and is quick."""
    data = cell.data
    assert data is not None
    seconds, buffer = attempt(lambda: buffer_of(data))
    cell.tries.append(Try("mr.Buffer", None, seconds, np.nan))
    few = Data(data.problem, data.path[: 24 * cell.dim + 4097], data.targets[: 24 * cell.dim + 4096])
    ours(buffer_of(few)).fit(few, None)  # compiles
    for method in rivals.values():  # imports
        method.fit(Data(data.problem, data.path[:4097, :8], data.targets[:4096]), method.settings[0])
    x, errors = exact_fit(data)
    jobs: dict[Any, Callable[[], Any]] = {}
    for name, method in {OURS: ours(buffer), **rivals}.items():
        for setting in method.settings:
            jobs[name, setting] = lambda fit=method.fit, setting=setting: fit(data, setting)
            seconds, found = attempt(jobs[name, setting])
            if isinstance(found, mr.Result):
                cell.result, found = cell.result or found, found.x
            distance = float(np.abs((found - x) / errors).max())
            cell.tries.append(Try(name, setting, seconds, distance))
            best = cell.best(NEARER)
            if distance <= NEARER or (best and seconds > max(PATIENCE, BEATEN * best.seconds)):
                break
    arrived = [one for name in (OURS, *rivals) for limit in LIMITS if (one := cell.first(name, limit))]
    quick = {(one.method, one.setting) for one in arrived if one.seconds < QUICK}
    again = {key: jobs[key] for key in jobs if key in quick and repeats > 1}
    times = best_times({"read": lambda: read(data.path), **again}, max(1, repeats - 1))
    cell.reading = times["read"]
    for one in cell.tries:
        one.seconds = min(one.seconds, times.get((one.method, one.setting), np.inf))


def table(cells: list[Cell]) -> str:
    """The cells of one problem in one world, and who was left out."""
    names = [name for name in RIVALS if any(one.method == name for cell in cells for one in cell.tries)]
    title = f"{cells[0].problem}, {cells[0].world}: readings until within {NEAR:g} standard errors"
    out = {name: min(cell.dim for cell in cells if name in cell.skipped) for cell in cells for name in cell.skipped}
    left = [f"{name} from d = {dim} on" for name, dim in out.items()]
    note = f"\n left out, above {HOPELESS:g} times the best rival before: {', '.join(left)}" if left else ""
    return render(TextTable([cell.line(names) for cell in cells], title=title), width=200) + note


def summary(cells: list[Cell]) -> Iterator[str]:
    """In how many cells we win, and those where we lose."""
    for limit in LIMITS:
        ratios = [cell.ratio(limit) for cell in cells]
        level, half = (sum(ratio <= most for ratio in ratios) for most in (1.0, 0.5))
        alone = "" if limit == NEAR or CAN_TIGHTEN else " (the default call alone: this version has no tolerance)"
        yield (
            f"Within {limit:g}: at most 1.0 times the best rival's time in {level} of {len(cells)} cells, "
            f"at most 0.5 times in {half}{alone}; lost:{'' if level < len(cells) else ' none'}"
        )
        lost = [(cell, ratio, cell.best(limit)) for cell, ratio in zip(cells, ratios, strict=True) if ratio > 1]
        for cell, ratio, best in lost:
            how = f"{ratio:.2f} times" if ratio < np.inf else "did not arrive; best"
            yield f"  {cell.problem}, {cell.world}, d = {cell.dim}: {how} {best.method if best else 'nobody'}"


def others(path: Path, given: argparse.Namespace) -> list[list[str]]:
    """Lines of the file that are of cells which are not run now."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        lines = list(csv.reader(file))[1:]
    now = [set(given.worlds), set(given.problems), set(map(str, given.dims))]
    return [line for line in lines if not all(name in names for name, names in zip(line, now, strict=False))]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--problems", nargs="+", choices=PROBLEMS, default=PROBLEMS)
    options.add_argument("--dims", nargs="+", type=int, default=DIMS)
    options.add_argument("--worlds", nargs="+", choices=WORLDS, default=WORLDS)
    options.add_argument("--rivals", nargs="*", choices=list(RIVALS), default=list(RIVALS))
    options.add_argument("--repeats", type=int, default=3, help=f"of fits below {QUICK:g} s, in turns; others run once")
    options.add_argument("--megabytes", type=float, default=SIZE / 2**20, help="of features, if 60 rows a d are less")
    options.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".csv"), help="the file of all tries")
    given = options.parse_args()
    out = given.out
    out.parent.mkdir(parents=True, exist_ok=True)
    kept = others(out, given)
    print(ABOUT)
    cells: list[Cell] = []
    with out.open("w", newline="") as opened, warnings.catch_warnings(), config_context(assume_finite=True):
        warnings.simplefilter("ignore")
        writer = csv.writer(opened)
        writer.writerow(COLUMNS)
        writer.writerows(kept)
        for world in given.worlds:
            before: dict[str, Cell] = {}
            for dim in sorted(given.dims):
                path = trajectory(world, max(LEAST_ROWS * dim, int(given.megabytes * 2**20) // (8 * dim)), dim)
                for problem in given.problems:
                    smaller, cell = before.get(problem), Cell(world, with_targets(problem, path))
                    fitting = [n for n in given.rivals if problem in RIVALS[n].problems and dim <= RIVALS[n].widest]
                    if smaller:
                        cell.skipped = [name for name in fitting if name in smaller.hopeless()]
                        fitting = sorted((name for name in fitting if name not in cell.skipped), key=smaller.seconds)
                    measure(cell, {name: RIVALS[name] for name in fitting}, given.repeats)
                    cell.data, before[problem] = None, cell
                    cells.append(cell)
                    writer.writerows(cell.records())
                    opened.flush()
                    print(f"{world}, {problem}, d = {dim}: ratio {cell.ratio(NEAR):.2f}", file=sys.stderr)
                del path
            for problem in given.problems:
                here = [cell for cell in cells if (cell.world, cell.problem) == (world, problem)]
                print(table(here), end="\n\n", flush=True)
    checks = [one.seconds / cell.reading for cell in cells for one in cell.tries if one.method == "mr.Buffer"]
    print(f"mr.Buffer(...) checks that all is finite in {min(checks):.1f} to {max(checks):.1f} readings, not counted.")
    print("\n".join(summary(cells)))
    print(f"All tries: {out}")


if __name__ == "__main__":
    main()
