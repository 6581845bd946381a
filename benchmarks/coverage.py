"""Coverage of nominal 95 % intervals under dependence, and their width over the oracle's, against other libraries'.

Every replication is one record of a world with a known truth (benchmarks/coverage_worlds.py), one call of `mr.solve`,
and its `interval`. The oracle's width is 2 · 1.96 standard deviations of the estimates over all replications. "ESS" is
how many independent rows the record is worth: the mean square of the scores at the truth over the variance of their
mean over all replications; "visits" is the same of the energy of the feature (its square mean over its variance).
Neither uses anything that the library says. "Bias" is the mean error over the standard deviation of the estimates,
averaged without its sign. The goal: coverage from 93 to 97 % where the ESS is at least 50, at least
90 % from 15 on, and below that, or with fewer visits than 15, a mark in at least 95 % of the runs. Rivals are in
benchmarks/coverage_rivals.py; for 2·10⁵ rows they have fewer replications, as have the other estimators of
`mr.inference` but `LongMemory`; these are asked about means, long memory and hidden components. Every finished cell is
written at once, and one that is there with as many replications is not run again, but with --ours, which leaves rivals
and other estimators as they are: their records are the same.
Usage: python benchmarks/coverage.py [--cells "linear*n = 2000,*"] [--replications 1000] [--jobs 2] [--minutes 60]
[--cost] [--small] [--tables] [--ours] [--device cuda]
"""

from __future__ import annotations

if __name__ == "coverage":  # numba looks for a package of that name, and would find this script beside another one
    raise ImportError("a script, not the package of that name")

import argparse
import csv
import itertools
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
from coverage_rivals import Z, arch_interval, batch_interval, hac_intervals
from coverage_worlds import CHAINS, LINKS, SEED, Array, Cell, Sample, all_cells, draw, groups
from joblib import Parallel, delayed, parallel_config

import multireplay as mr
from multireplay.show.text import TextTable, render

FILE = Path(__file__).with_suffix(".csv")
COLUMNS = (
    "family", "rho", "rows", "dim", "what", "method", "replications", "coverage", "error", "width", "effective",
    "visits", "marked", "unmarked", "bias", "goal",
)  # fmt: skip
PE = "policy evaluation"
OURS, BATCH, ARCH = "mr.solve", "batch means, 1.96", "arch's bootstrap"
OTHERS = {
    "NeweyWest()": mr.inference.NeweyWest(),
    "FixedB()": mr.inference.FixedB(),
    "RandomScaling()": mr.inference.RandomScaling(),
    "MultiplierBootstrap()": mr.inference.MultiplierBootstrap(),
}
LONG = {"LongMemory()": mr.inference.LongMemory()}
ASKED = ("mean", "hidden", "long memory")
"""Families that other estimators of ours are asked about."""
RIVAL_ROWS, ARCH_ROWS, OTHERS_ROWS = 4e7, 4e6, 1e6
"""How many rows each may read in all replications of a cell together, at least 200 replications."""
WATCHED = 3
"""Functions that rivals are asked for: the constant and some slopes, which are alike."""
ENOUGH, SOME, FIRM = 50, 15, 95
SMALL = (Cell("mean", 0.5, 2_000, 1), Cell("linear", 0.9, 2_000, 5), Cell("tabular", 0.9, 20_000, 10))
"""Cells that the tests repeat."""
Ends = tuple[Array, Array]
Drawer = Callable[[Cell, int, int], Sample]
"""What draws one record of a cell, for a replication and a seed."""
Asked = Callable[[Cell, Sample, int, int], tuple[dict[str, Ends], dict[str, Array]]]


def few(cell: Cell, rows: float, replications: int) -> int:
    """How many replications something is run in that may read so many rows."""
    return min(replications, max(200, int(rows / cell.rows)))


def ask_us(sample: Sample) -> tuple[dict[str, Ends], dict[str, Any]]:
    """Our intervals alone, and what is known of the replication."""
    result = mr.solve(sample.problem, mr.Buffer(**sample.columns), threads=1)
    known, functions = result.uncertainty, sample.functions
    about: dict[str, Any] = {
        "result": result,
        "estimate": functions @ result.x,
        "truth": functions @ sample.truth,
        "marked": np.ones(len(functions), dtype=bool),
    }
    about["score"], about["square"], about["energy"] = sample.at_truth()
    ends: dict[str, Ends] = {}
    if not known.why_not:
        ends[OURS] = tuple(result.interval(of=functions).T)
        about["marked"] = (functions[:, list(known.doubts)] != 0).any(axis=1)
    return ends, about


def only_us(cell: Cell, sample: Sample, number: int, replications: int) -> tuple[dict[str, Ends], dict[str, Array]]:
    """The ends of our intervals, and what is known of one replication."""
    ends, about = ask_us(sample)
    return ends, {name: value for name, value in about.items() if name != "result"}


def ask(cell: Cell, sample: Sample, number: int, replications: int) -> tuple[dict[str, Ends], dict[str, Array]]:
    """The ends of all intervals by method, and what is known of one replication."""
    ends, about = ask_us(sample)
    result, functions = about.pop("result"), sample.functions
    simple = cell.problem == "linear" and cell.dim <= 5
    if cell.family in ASKED:
        others = {**LONG, **(OTHERS if number < few(cell, OTHERS_ROWS, replications) else {})}
        ends |= {name: tuple(result.interval(of=functions, by=by).T) for name, by in others.items()}
    try:
        if number < few(cell, RIVAL_ROWS, replications):
            centre, images = sample.images(result.x, functions[:WATCHED])
            ends |= {BATCH: batch_interval(centre, images), **hac_intervals(centre, images)}
            if simple and cell.rows < 1e5 and number < few(cell, ARCH_ROWS, replications):
                column = min(1, len(centre) - 1)
                low, high = arch_interval(centre[column], -images[:, column], number)
                blank = np.full(column, np.nan)
                ends[ARCH] = (np.append(blank, low), np.append(blank, high))
    except np.linalg.LinAlgError:
        pass  # a state that was never seen: rivals have no answer
    return ends, about


def drawn_here(cell: Cell, replication: int, seed: int) -> Sample:
    """One record, in memory."""
    return draw(cell, cell.generator(replication, seed))


def block(cell: Cell, numbers: Iterable[int], replications: int, seed: int, drawn: Drawer, asked: Asked) -> list[Any]:
    """Some replications: whether each function was covered and how wide the intervals are, by method."""
    found = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for number in numbers:
            sample = drawn(cell, number, seed)
            ends, about = asked(cell, sample, number, replications)
            truth = about["truth"]
            covered = {
                name: np.where(np.isnan(low), np.nan, (low <= truth[: len(low)]) & (truth[: len(low)] <= high))
                for name, (low, high) in ends.items()
            }
            found.append((covered, {name: high - low for name, (low, high) in ends.items()}, about))
    return found


def measure(
    cell: Cell, replications: int, jobs: int, seed: int = SEED, drawn: Drawer = drawn_here, asked: Asked = ask
) -> list[dict[str, Any]]:
    """The lines of one cell."""
    size = max(1, min(50, replications // (4 * jobs)))
    numbers = [range(k, min(k + size, replications)) for k in range(0, replications, size)]
    if jobs == 1:
        blocks = [block(cell, some, replications, seed, drawn, asked) for some in numbers]
    else:
        with parallel_config("loky", n_jobs=jobs, inner_max_num_threads=1):
            blocks = Parallel()(delayed(block)(cell, some, replications, seed, drawn, asked) for some in numbers)
    runs = list(itertools.chain.from_iterable(blocks))
    about = {name: np.array([run[2][name] for run in runs]) for name in runs[0][2]}
    with np.errstate(divide="ignore", invalid="ignore"):
        effective = np.minimum(about["square"].mean(axis=0) / about["score"].var(axis=0), cell.rows)
        visits = np.minimum(about["energy"].mean(axis=0) ** 2 / about["energy"].var(axis=0), cell.rows)
    if cell.family == "misspecified":  # a value has part in all features
        visits = np.full_like(effective, visits.min())
    oracle, lines = 2 * Z * about["estimate"].std(axis=0), []
    for what, which in groups(cell).items():
        known = {"effective": np.median(effective[which]), "visits": np.median(visits[which])}
        for method in dict.fromkeys(name for run in runs for name in run[0]):
            with_it = [run for run in runs if method in run[0]]
            covered = np.array([run[0][method][which] for run in with_it])
            if covered.size and np.isfinite(covered).any():
                wide = np.array([run[1][method][which] for run in with_it])
                wide = wide / oracle[: len(with_it[0][1][method])][which]
                line = summary(covered, wide) | known
                if method == OURS:
                    sure = ~about["marked"][[OURS in run[0] for run in runs]][:, which]
                    line["marked"] = 100 * about["marked"][:, which].mean()
                    line["unmarked"] = 100 * covered[sure].mean() if sure.any() else np.nan
                    off = (about["estimate"].mean(axis=0) - about["truth"][0]) / about["estimate"].std(axis=0)
                    line["bias"] = np.abs(off[which]).mean()
                    line["goal"] = goal(cell, line)
                names = {"family": cell.family, "rho": cell.rho, "rows": cell.rows, "dim": cell.dim}
                lines.append({**names, "what": what, "method": method, **line})
    return lines


def summary(covered: Array, wide: Array) -> dict[str, Any]:
    """Coverage of some replications in percent, its standard error, and the mean width."""
    each = np.nanmean(covered, axis=1)
    kept = each[np.isfinite(each)]
    return {
        "replications": len(kept),
        "coverage": 100 * kept.mean(),
        "error": 100 * kept.std() / np.sqrt(len(kept)),
        "width": np.mean(wide[np.isfinite(wide)]) if np.isfinite(wide).any() else np.nan,
    }


def goal(cell: Cell, line: dict[str, Any]) -> str:
    """Whether a line meets the goal, allowing two standard errors of its coverage: "yes" or what it misses."""
    seen, coverage, error = line["effective"], line["coverage"], 2 * line["error"]
    if cell.family in (*CHAINS, "rare"):  # indicators, which most rows say nothing of
        seen = min(seen, line["visits"])
    if seen < SOME:
        return "yes" if line["marked"] >= FIRM else "mark"
    if seen < ENOUGH:
        return "yes" if coverage + error >= 90 else "short"
    return "short" if coverage + error < 93 else "long" if coverage - error > 97 else "yes"


def read(path: Path) -> dict[str, list[dict[str, Any]]]:
    """The lines of a file, by cell."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    if path.exists():
        with path.open(newline="", encoding="utf-8") as opened:
            for line in csv.DictReader(opened):
                cell = Cell(line["family"], float(line["rho"]), int(line["rows"]), int(line["dim"]))
                numbers = {k: float(v) if v else np.nan for k, v in line.items() if k in COLUMNS[6:15]}
                found[str(cell)].append({**line, "cell": cell, **numbers})
    return found


def write(path: Path, lines: dict[str, list[dict[str, Any]]]) -> None:
    """All lines, in the order of the table."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.writer(opened)
        writer.writerow(COLUMNS)
        for cell in all_cells():
            for line in lines.get(str(cell), ()):
                values = (line.get(name, "") for name in COLUMNS)
                shown = (f"{v:.4g}" if isinstance(v, float) and name not in ("rho",) else v
                         for name, v in zip(COLUMNS, values, strict=True))  # fmt: skip
                writer.writerow("" if value == "nan" else value for value in shown)


def tables(lines: dict[str, list[dict[str, Any]]]) -> Iterable[tuple[str, list[dict[str, str]]]]:
    """Title and rows of every table: a family each, then the other estimators of ours."""
    order = {name: place for place, name in enumerate(["mean", *LINKS, *CHAINS])}
    cells = sorted(
        (found[0]["cell"] for found in lines.values()),
        key=lambda c: (order.get(c.family, 9), c.family, c.rho, c.dim, c.rows),
    )
    for family, some in itertools.groupby(cells, key=lambda cell: cell.family):
        rows = []
        for cell, what in ((one, what) for one in some for what in groups(one)):
            by = {line["method"]: line for line in lines[str(cell)] if line["what"] == what}
            if OURS in by:
                rows.append(_row(cell, what, by))
        yield family, rows
    others = []
    for cell in (cell for family in ASKED for cell in cells if cell.family == family):
        for what in groups(cell):
            by = {line["method"]: line for line in lines[str(cell)] if line["what"] == what}
            of = {"of": f"{cell.family}, {what}" if cell.dim > 1 else cell.family}
            about = {"ρ": f"{cell.rho:g}", "n": str(cell.rows), "ESS": f"{by[OURS]['effective']:.0f}"}
            shown = {name: f"{by[name]['coverage']:.1f}, {by[name]['width']:.2f}"
                     for name in (OURS, *LONG, *OTHERS) if name in by}  # fmt: skip
            others.append({**of, **about, **shown})
    yield "other estimators: coverage and width", others


def _row(cell: Cell, what: str, by: dict[str, dict[str, Any]]) -> dict[str, str]:
    ours = by[OURS]
    rivals = {name: f"{by[name]['coverage']:.0f}" if name in by else ""
              for name in (BATCH, "HAC, default lag", "HAC, Andrews' lag", ARCH)}  # fmt: skip
    return {
        "ρ": f"{cell.rho:g}",
        "n": str(cell.rows),
        "d": str(cell.dim),
        "of": what,
        "ESS": f"{ours['effective']:.0f}",
        "visits": f"{ours['visits']:.0f}" if what != "constant" else "",
        OURS: f"{ours['coverage']:.1f} ± {ours['error']:.1f}",
        "width": f"{ours['width']:.2f}",
        "marked": f"{ours['marked']:.0f} %",
        "bias": f"{ours['bias']:.1f}" if np.isfinite(ours.get("bias", np.nan)) else "",
        **rivals,
        "runs": f"{ours['replications']:.0f}",
        "goal": ours["goal"],
    }


def cost(repeats: int = 15, seconds: float = 0.5) -> list[dict[str, str]]:
    """The time of a fit with its summary over that of the fit, the best of each in so many runs, or more if short."""
    found = []
    for name, rows, dim in itertools.product((*LINKS, PE), (2_000, 20_000, 200_000), (5, 20, 100)):
        cell = Cell("linear" if name == PE else name, 0.9, rows, dim)
        sample = draw(cell, cell.generator(0))
        problem, columns = (sample.problem, sample.columns) if name != PE else as_transitions(sample)
        buffer, times = mr.Buffer(**columns), []
        while len(times) <= repeats or times[-1][2] - times[1][0] < seconds:  # the first compiles
            began = time.perf_counter()
            result = mr.solve(problem, buffer)
            fitted = time.perf_counter()
            result.summary()
            times.append((began, fitted, time.perf_counter()))
        plain, summary = 1000 * np.diff(times)[1:].min(axis=0)
        about = {"problem": name, "n": str(rows), "d": str(dim)}
        found.append({**about, "fit, ms": f"{plain:.2f}", "summary, ms": f"{summary:.2f}",
                      "ratio": f"{1 + summary / plain:.2f}"})  # fmt: skip
    return found


def as_transitions(sample: Sample) -> tuple[mr.PolicyEvaluation, dict[str, Array]]:
    """A regression's features as those of a chain, its targets as rewards."""
    rows, targets = sample.columns["features"], sample.columns["targets"]
    return mr.PolicyEvaluation(0.9), {"features": rows[:-1], "next_features": rows[1:], "rewards": targets[:-1]}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--cells", nargs="+", default=["*"], help="patterns of names, as the table prints them")
    options.add_argument("--replications", type=int, default=1000)
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--minutes", type=float, default=np.inf, help="no cell is begun after so many")
    options.add_argument("--out", type=Path, default=FILE)
    options.add_argument("--small", action="store_true", help="the three cells of the tests, 100 replications")
    options.add_argument("--tables", action="store_true", help="print what is in the file, and run nothing")
    options.add_argument("--cost", action="store_true", help="the time of a summary over that of a fit, and no more")
    options.add_argument("--ours", action="store_true", help="run our own intervals again, and keep the rest")
    options.add_argument("--device", help="where PyTorch draws regressions, one after the other, and they are fitted")
    given = options.parse_args()
    if given.cost:
        return print(render(TextTable(cost(), title="time of a fit with its summary"), width=160))
    began, out = time.perf_counter(), Path("out/coverage.csv") if given.small else given.out
    cells = SMALL if given.small else [c for c in all_cells() if any(fnmatch(str(c), one) for one in given.cells)]
    replications, lines = 100 if given.small else given.replications, read(out)
    jobs, drawn = given.jobs, drawn_here
    if given.device:
        from coverage_device import drawer

        jobs, drawn = 1, drawer(given.device)
    for cell in () if given.tables else cells:
        done = max((line["replications"] for line in lines.get(str(cell), ())), default=0)
        if (done >= replications and not given.ours) or time.perf_counter() - began > 60 * given.minutes:
            continue
        start = time.perf_counter()
        found = measure(cell, replications, jobs, drawn=drawn, asked=only_us if given.ours else ask)
        others = [line for line in lines.get(str(cell), ()) if given.ours and line["method"] != OURS]
        lines[str(cell)] = [{**line, "cell": cell} for line in found] + others
        write(out, lines)
        for line in (line for line in found if line["method"] == OURS):
            print(f"{cell}, {line['what']}: {line['coverage']:.1f} ± {line['error']:.1f} %, width {line['width']:.2f}, "
                  f"ESS {line['effective']:.0f}, visits {line['visits']:.0f}, marked {line['marked']:.0f} %, "
                  f"goal: {line['goal']}; {time.perf_counter() - start:.0f} s", flush=True)  # fmt: skip
    for title, rows in tables(lines):
        print(render(TextTable(rows, title=title), width=200), end="\n\n")
    return None


if __name__ == "__main__":
    main()
