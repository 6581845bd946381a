"""Write the tables of docs/speed.md that are made of benchmarks/accuracy.csv, partial_fit.csv and device.csv.

Usage: python docs/build_speed.py
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from multireplay.show.text import TextTable, render

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "speed.md"
FILE = ROOT / "benchmarks" / "accuracy.csv"
BEGIN, END = "## Time to the same accuracy\n", "## One pass\n"
STREAMS = ROOT / "benchmarks" / "partial_fit.csv"
ROWS_BEGIN, ROWS_END = "## Row by row\n", "## From disk\n"
ROWS_ABOUT = """\
`benchmarks/partial_fit.py`: `partial_fit` of one row at a time, 6000 rows of 10 features, beside scikit-learn's
`SGDRegressor` and `SGDClassifier(loss="log_loss")` (there is no Poisson loss: it is least squares there). "Cold" is
the first stream of a process, with the loading of compiled loops; "of the last 1000" is the ratio for rows that come to
a full buffer."""
GPU = ROOT / "benchmarks" / "device.csv"
GPU_BEGIN, GPU_END = "of the CPU's.\n\n```text\n", "```\n\nA pass costs"
WORLDS = ("AR(.9)", "cond 1e4")
PROBLEMS = ("policy evaluation", "linear", "logistic", "Poisson")
OURS = "mr.solve"
PRECISIONS = ("float32", "float64")
NEAR, NEARER = ("0.1", "0.001"), ("0.001",)
"""What a try may have met to count as arrived."""
ABOUT = """\
`benchmarks/accuracy.py`: until the worst coordinate is within 0.1 of its standard error of the exact fit, ours with
standard errors, everybody on both cores, in readings of the features (268 MB of them or 60 rows a coordinate, which is
1.9 GB at d = 2000, where each is tried once). "Distance" is that of our default call; the last column is the ratio of
times to 0.001, ours by `Newton(tolerance=0.001)` where the default is not there already. "–": we do not arrive. All
tries are in `benchmarks/accuracy.csv`; the parts of it were run one after the other, each method of a cell in the same
run."""
Line = dict[str, str]


def fastest(lines: list[Line], limits: tuple[str, ...]) -> Line | None:
    """The fastest of those that arrived."""
    arrived = [line for line in lines if line["met"] in limits]
    return min(arrived, key=lambda line: float(line["readings"]), default=None)


def ratio(mine: Line | None, theirs: Line | None) -> float:
    """Our time over the best rival's: infinite if we do not arrive, 0 if only we do."""
    if mine is None:
        return math.inf
    return float(mine["readings"]) / float(theirs["readings"]) if theirs else 0.0


def cells(lines: list[Line]) -> Iterator[tuple[Line, list[float], list[Line | None]]]:
    """Each cell as a line of the table, the two ratios, and the two best rivals."""

    def place(line: Line) -> tuple[int, int, int]:
        return WORLDS.index(line["world"]), PROBLEMS.index(line["problem"]), int(line["d"])

    for _, group in groupby(sorted(lines, key=place), key=place):
        tries = list(group)
        ours = [line for line in tries if line["method"] == OURS]
        others = [line for line in tries if not line["method"].startswith("mr.")]
        default = next(line for line in ours if not line["setting"])
        rivals = [fastest(others, NEAR), fastest(others, NEARER)]
        ratios = [ratio(fastest([default], NEAR), rivals[0]), ratio(fastest(ours, NEARER), rivals[1])]
        words = [f"{one:.2f}" if one < math.inf else "–" for one in ratios]
        best = rivals[0]
        yield (
            {
                "features": default["world"],
                "problem": default["problem"],
                "d": default["d"],
                "rows": default["rows"],
                "ours": f"{float(default['readings']):.1f}",
                "distance": f"{float(default['distance']):.2g}",
                "best rival": best["method"] if best else "none",
                "its": f"{float(best['readings']):.1f}" if best else "–",
                "ratio": words[0],
                "to 0.001": words[1],
            },
            ratios,
            rivals,
        )


def section(lines: list[Line]) -> Iterator[str]:
    found = list(cells(lines))
    yield BEGIN
    yield ABOUT
    yield "\n```text"
    yield render(TextTable([line for line, _, _ in found]), width=120)
    yield "```\n"
    for which, limit in enumerate(("0.1", "0.001")):
        ratios = [both[which] for _, both, _ in found]
        lost = [
            f"{line['problem']} d = {line['d']}, {line['features']} ({line[('ratio', 'to 0.001')[which]]}, "
            f"{best['method'] if (best := rivals[which]) else 'nobody'})"
            for line, both, rivals in found
            if both[which] > 1
        ]
        level, half = (sum(one <= most for one in ratios) for most in (1.0, 0.5))
        yield (
            f"Within {limit}: at most the best rival's time in {level} of {len(ratios)} cells, at most half of it in "
            f"{half}. We lose {'nowhere' if not lost else 'at ' + ', '.join(lost)}."
        )
    yield ""


def streams(lines: list[Line]) -> str:
    return f"{ROWS_BEGIN}\n{ROWS_ABOUT}\n\n```text\n{render(TextTable(lines), width=120)}\n```\n"


def on_a_gpu(lines: list[Line]) -> str:
    """A line a cell: readings of `mr.solve` and of its rivals."""
    table = []
    for place, group in groupby(lines, key=lambda line: [line[name] for name in ("d", "rows", "type", "problem")]):
        found = {line["what"]: line for line in group}
        ours, bfgs = found["mr.solve"], found.get("torch.optim.LBFGS")
        exact = {kind: next((one for what, one in found.items() if what.endswith(kind)), None) for kind in PRECISIONS}
        table.append(
            {
                **dict(zip(("d", "rows", "type", "problem"), place, strict=True)),
                "mr.solve": ours["readings"],
                "passes": ours["note"].split(", ")[1].removesuffix(" passes"),
                "off": ours["off"],
                "L-BFGS": bfgs["readings"] if bfgs else "",
                **{f"exact, {kind}": one["readings"] if one else "" for kind, one in exact.items()},
            }
        )
    return render(TextTable(table), width=120) + "\n"


def read(path: Path) -> list[Line]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def main() -> None:
    body, rows = "\n".join(section(read(FILE))), streams(read(STREAMS))
    text = PAGE.read_text(encoding="utf-8")
    text = text.partition(BEGIN)[0] + body + "\n" + END + text.partition(END)[2]
    before, _, after = text.partition(ROWS_END)
    about, begin, rest = after.partition(GPU_BEGIN)
    after = about + begin + on_a_gpu(read(GPU)) + GPU_END + rest.partition(GPU_END)[2]
    PAGE.write_text(before.partition(ROWS_BEGIN)[0] + rows + "\n" + ROWS_END + after, encoding="utf-8")


if __name__ == "__main__":
    main()
