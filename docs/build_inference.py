"""Write the tables of docs/inference.md from benchmarks/coverage.csv, which benchmarks/coverage.py writes.

Usage: python docs/build_inference.py
"""

from __future__ import annotations

import runpy
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from multireplay.bench.table import markdown

HERE = Path(__file__).parent
PAGE, FOLDER = HERE / "inference.md", HERE.parent / "benchmarks"
BEGIN, END = (f"<!-- tables from benchmarks/coverage.csv: {word} -->" for word in ("begin", "end"))
TITLES = {
    "mean": "Means of an AR(ρ)",
    "linear": "Linear fits",
    "logistic": "Logistic fits",
    "Poisson": "Poisson fits",
    "tabular": "Policy evaluation with a table: V(s) of 9 states, and of one that 2 % of the jumps lead to",
    "misspecified": "Policy evaluation with 5 features for 50 states: V(s) at 10 states",
    "heavy": "Heavy tails: linear fits with t₃ noise",
    "periodic": "A cycle of 24 in features and noise",
    "long memory": "Long memory: ARFIMA(0, .3, 0)",
    "hidden": "A slow component hidden under noise: white plus .1 AR(.999)",
    "rare": "An indicator that is on in 2 % of the rows, 20 at a time",
}
LEFT = ("of", "goal")


def count(script: dict[str, Any], lines: dict[str, Any]) -> Iterator[str]:
    """How many cells were run, how many of their lines meet the goal, and what is missing."""
    ours = [line for found in lines.values() for line in found if line["method"] == script["OURS"]]
    verdicts, runs = Counter(line["goal"] for line in ours), [line["replications"] for line in ours]
    missing = [cell for cell in script["all_cells"]() if str(cell) not in lines]
    yield (
        f"{len(lines)} of {len(lines) + len(missing)} cells were run, at least {min(runs):.0f} replications "
        f"each; {verdicts['yes']} of their {len(ours)} lines meet the goal, {verdicts['short']} are too short, "
        f"{verdicts['long']} too long, and {verdicts['mark']} lack the mark in more than 5 % of the runs."
    )
    if missing:
        kinds = Counter((cell.rows, cell.dim) for cell in missing)
        named = (f"{number} with n = {rows}, d = {dim}" for (rows, dim), number in sorted(kinds.items()))
        yield f"Not run: {'; '.join(named)}."


def body(script: dict[str, Any]) -> Iterator[str]:
    lines = script["read"](script["FILE"])
    yield from count(script, lines)
    yield ""
    for title, rows in script["tables"](lines):
        names = list(dict.fromkeys(name for row in rows for name in row))
        yield f"### {TITLES.get(title, title[0].upper() + title[1:])}"
        yield ""
        yield from markdown([{name: row.get(name, "") for name in names} for row in rows], LEFT)
        yield ""


def main() -> None:
    sys.path.insert(0, str(FOLDER))
    script = runpy.run_path(str(FOLDER / "coverage.py"))
    text = PAGE.read_text(encoding="utf-8")
    before, after = text.partition(BEGIN)[0], text.partition(END)[2]
    PAGE.write_text("\n".join([before + BEGIN, *body(script), END]) + after, encoding="utf-8")


if __name__ == "__main__":
    main()
