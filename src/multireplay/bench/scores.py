"""The table of the comparison: compare.csv for programs, compare.md for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from multireplay._check import Vector
from multireplay._write import save_text
from multireplay.bench import table
from multireplay.bench.method import PUBLISHED, TUNED, key
from multireplay.bench.methods import METHODS
from multireplay.bench.methods.library import EXACT
from multireplay.bench.store import Arrays
from multireplay.bench.world import Listing, World

Score = dict[str, Any]
NUMBERS = ("passes", "samples_touched", "ratio_mean", "ratio_se", "error_mean", "exact_error_mean", "seconds")
COLUMNS = ("problem", "suite", "method", "step", *NUMBERS, "seeds", "condition")

NOTE = (
    "Mean squared error of each method over that of the exact fit (LSTD, maximum likelihood or the best ridge) on "
    "the same records, ± its standard error. 'tuned' is the best step of a factor-2 grid on other seeds, constant "
    "but for MER and CTD, see the notes; ∞ means that some run diverged"
)
OPENING = (
    f"{NOTE}; n/a that the method is not defined there. Passes are samples read over samples in the record; seconds "
    "are the median run of the median problem. compare.csv has every number."
)


def ratio_of_means(errors: Vector, exact: Vector) -> tuple[float, float]:
    """mean(errors)/mean(exact) over the same seeds, with its standard error by the delta method."""
    if not np.isfinite(errors).all():
        return float("inf"), float("nan")
    ratio = float(errors.mean() / exact.mean())
    if len(errors) < 2:
        return ratio, float("nan")
    spread = float(np.std(errors - ratio * exact, ddof=1))
    return ratio, float(spread / (np.sqrt(len(errors)) * exact.mean()))


class Scores(NamedTuple):
    """Rows of the table, and notes on problems and on those left out, all by name."""

    rows: list[Score]
    notes: dict[str, str]
    left_out: dict[str, str]

    def add(self, listing: Listing, world: World, reports: list[Arrays], chosen: Mapping[str, float]) -> None:
        """One row a method and step; a method that is not defined here has a row that says n/a."""
        exact = np.array([found[key(EXACT, PUBLISHED)][0] for found in reports])
        same = {"seeds": len(reports), "condition": world.condition}
        for method in METHODS.values():
            name = {"problem": listing.name, "suite": listing.suite, "method": method.name}
            if not method.works_on(world):
                self.rows.append({**name, "step": "n/a", **dict.fromkeys(NUMBERS, ""), **same})
                continue
            for kind in (PUBLISHED, TUNED):
                if key(method.name, kind) in reports[0]:
                    step = method.published if kind == PUBLISHED else f"tuned {chosen[method.name]:.3g}/L"
                    if method.name == EXACT:
                        step = world.yardstick + (f" {chosen[EXACT]:g}" if chosen[EXACT] else "")
                    runs = np.array([found[key(method.name, kind)] for found in reports])
                    self.rows.append({**name, "step": step, **_numbers(runs, exact), **same})
        self.notes[listing.name] = f"yardstick {world.yardstick}, x* {world.reference}, oracle gap {world.gap}"

    def write(self, out: Path) -> None:
        """compare.csv and compare.md."""
        table.write(out / "compare.csv", ([row[name] for name in COLUMNS] for row in self.rows), COLUMNS)
        lines = ["# Error as a ratio to the exact fit's", "", OPENING, "", "## mr.solve against its bars", ""]
        words = ("problem", "exact fit", "one pass (1.35)", "tuned shuffle", "why not")
        lines += table.markdown(acceptance(self.rows), words)
        for suite in dict.fromkeys(row["suite"] for row in self.rows):
            lines += ["", f"## {suite}", "", *_by_method([row for row in self.rows if row["suite"] == suite])]
        methods = {method.name: method.note for method in METHODS.values() if method.note}
        for title, told in (("Problems", self.notes), ("Methods", methods), ("Left out", self.left_out)):
            if told:
                lines += ["", f"## {title}", "", *(f"- {name}: {text}" for name, text in told.items())]
        save_text(out / "compare.md", "\n".join(lines) + "\n")


def _numbers(runs: Vector, exact: Vector) -> dict[str, float]:
    """The columns of numbers from (error, passes, samples, seconds) of every seed."""
    errors, passes, touched, seconds = runs.T

    def mean(values: Vector) -> float:
        return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")

    ratio = ratio_of_means(errors, exact)
    values = mean(passes), mean(touched), *ratio, errors.mean(), exact.mean(), np.median(seconds)
    return dict(zip(NUMBERS, map(float, values), strict=True))


def read(path: Path) -> list[Score]:
    """The rows of compare.csv."""
    numbers = (*NUMBERS, "condition")
    return [
        {**row, **{name: float(row[name]) if row[name] else "" for name in numbers}, "seeds": int(row["seeds"])}
        for row in table.read_texts(path)
    ]


def acceptance(rows: Sequence[Score]) -> list[dict[str, str]]:
    """What was asked of ``mr.solve(problem, buffer)`` on every problem, whether it is so, and why not.

    The bars: 1.05 times the exact fit's error in at most 3 passes where the condition number is below 1000, 1.25 in
    at most 5 elsewhere; nowhere worse than 1.05 times shuffling once with a tuned step; with one pass 1.35 where the
    condition number is below 1000. A bar within two standard errors of the ratio counts as not told apart.
    """
    lines = []
    for problem in dict.fromkeys(row["problem"] for row in rows):
        here = [row for row in rows if row["problem"] == problem and row["step"] != "n/a"]
        found = {(row["method"], row["step"].startswith("tuned")): row for row in here}
        mine, once = found["mr.solve", False], found["mr.solve, 1 pass", False]
        shuffle = found.get(("shuffle", True), found["exact fit", False])
        easy = mine["condition"] < 1e3
        bar, most = (1.05, 3.0) if easy else (1.25, 5.0)
        exact = _verdict(mine, bar) if mine["passes"] <= most + 0.01 else f"{mine['passes']:.3g} passes"
        single = _verdict(once, 1.35) if easy else "-"
        rival = _verdict(mine, 1.05 * shuffle["ratio_mean"])
        why = []
        if exact != "met" and not easy:
            why.append("its worst directions need more passes")
        elif exact != "met" and mine["passes"] > most + 0.01:
            why.append("chosen on a held-out block, or more corrections: more passes than the bar has")
        elif exact == "not met":
            why.append("the stopping rule is satisfied too early")
        if rival != "met" and shuffle["ratio_mean"] < 1:
            why.append("the tuned step stops short of the exact fit and beats it; mr.solve goes there")
        if single == "not met":
            why.append("one pass is not enough: a constraint or a held-out block, or a Jacobian that needs more rows")
        lines.append({
            "problem": problem, "condition": f"{mine['condition']:.2g}", "passes": _passes(mine),
            "ratio": _ratio(mine), "bar": f"{bar}", "exact fit": exact, "one pass (1.35)": single,
            "tuned shuffle": f"{rival} ({_ratio(shuffle)})", "why not": "; ".join(why),
        })  # fmt: skip
    return lines


def _verdict(row: Score, bar: float) -> str:
    ratio, error = row["ratio_mean"], row["ratio_se"]
    if ratio <= bar:
        return "met"
    return "not told apart" if np.isfinite(error) and ratio - 2 * error <= bar else "not met"


def by_method(rows: Sequence[Score]) -> dict[tuple[str, str], dict[str, Score]]:
    """Rows by problem for every method and kind of step, "-" where there is none; n/a stands in all of its method."""
    found: dict[tuple[str, str], dict[str, Score]] = {}
    for row in rows:
        method = METHODS[row["method"]]
        kinds = ["tuned" if row["step"].startswith("tuned") else row["step"]]
        if method.name == EXACT:
            kinds = ["-"]
        elif row["step"] == "n/a":
            kinds = [kind for kind, there in ((method.published, method.published), ("tuned", method.tuned)) if there]
        for kind in kinds:
            found.setdefault((method.name, kind), {})[row["problem"]] = row
    return found


def _by_method(rows: Sequence[Score]) -> list[str]:
    """One line a method and step, one column a problem: the ratio to the exact fit, with its standard error."""
    conditions = {row["problem"]: row["condition"] for row in rows}
    lines = []
    for (method, kind), found in by_method(rows).items():
        passes = sorted({_passes(row) for row in found.values()} - {""}, key=float)
        times = [row["seconds"] for row in found.values() if row["seconds"] != ""]
        line = {"method": method, "step": kind, "passes": "–".join(dict.fromkeys([*passes[:1], *passes[-1:]]))}
        line["seconds"] = f"{np.median(times):.2g}" if times else ""
        for name, condition in conditions.items():
            line[f"{name} (cond. {condition:.2g})"] = _ratio(found[name]) if name in found else ""
        lines.append(line)
    return table.markdown(lines, ("method", "step"))


def _ratio(row: Score) -> str:
    if row["step"] == "n/a":
        return "n/a"
    ratio, error = row["ratio_mean"], row["ratio_se"]
    if not np.isfinite(ratio):
        return "∞"
    if ratio >= 1e4:
        return f"{ratio:.0e}"
    digits = 2 if ratio < 10 else 1 if ratio < 100 else 0
    return f"{ratio:.{digits}f}" + (f" ± {error:.{digits}f}" if np.isfinite(error) and error > 0 else "")


def _passes(row: Score) -> str:
    value = row["passes"]
    return "" if value == "" or not np.isfinite(value) else f"{value:.3g}"
