"""Write the tables of README.md from benchmarks/coverage.csv and accuracy.csv (`make coverage`, `make bench`).

Usage: python docs/build_readme.py
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from multireplay.bench.table import markdown
from multireplay.show.text import seconds

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "README.md"
FILES = [f"benchmarks/{name}.csv" for name in ("coverage", "accuracy")]
BEGIN, END = (f"<!-- tables from {' and '.join(FILES)}: {word} -->" for word in ("begin", "end"))

ROWS = 2000
KNOWN = (
    ("linear", "slopes", "slopes of a linear fit", (0.0, 0.5, 0.9, 0.99)),
    ("logistic", "slopes", "slopes of a logistic fit", (0.9,)),
    ("Poisson", "slopes", "slopes of a Poisson fit", (0.9,)),
    ("misspecified", "V(s)", "values of states, 5 features", (0.0, 0.9)),
)
"""Family and what is estimated, as in the file; in words; and the correlations of neighbouring rows."""
OURS = "multireplay"
METHODS = {
    "mr.solve": OURS,
    "HAC, default lag": "statsmodels, default lag",
    "HAC, Andrews' lag": "statsmodels, Andrews' lag",
}
TIMED = {
    OURS: ("mr.solve",),
    "statsmodels": ("statsmodels",),
    "scikit-learn": ("LinearRegression", "Ridge", "newton-cholesky", "L-BFGS"),
    "LSTD in NumPy": ("LSTD", "LSTD in blocks"),
}
WORLD, DIMS, PROBLEMS = "AR(.9)", ("8", "100"), ("linear", "logistic", "Poisson", "policy evaluation")
Line = dict[str, str]


def read(name: str) -> list[Line]:
    with (ROOT / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def coverage(lines: list[Line]) -> Iterator[str]:
    """How often intervals hold the truth, of d = 5, with what was run."""
    rows, runs = [], []
    for family, what, words, correlations in KNOWN:
        for rho in correlations:
            cell = (family, str(rho), str(ROWS), "5", what)
            found = {
                line["method"]: line
                for line in lines
                if tuple(line[name] for name in ("family", "rho", "rows", "dim", "what")) == cell
            }
            row = {"95 % intervals of": words, "neighbours": f"{rho:g}"}
            for method, title in METHODS.items():
                one = found[method]
                row[title] = f"{float(one['coverage']):.1f} ± {float(one['error']):.1f}"
                runs.append(int(one["replications"]))
            row["said not to rely on"] = f"{float(found['mr.solve']['marked']):.0f} %"
            rows.append(row)
    yield (
        f"**How many of 100 intervals hold the truth.** Records of {ROWS:,} rows, at least {min(runs):,} of them a "
        "line, ± the standard error; “neighbours” is the correlation of a row with the next. scikit-learn gives no "
        "intervals, nor does LSTD (least-squares temporal differences, the exact fit in policy evaluation). "
        "statsmodels has `cov_type='HAC'` for dependent rows, with a lag (how many rows it looks back): its default, "
        "and one that Andrews' (1991) rule finds from the data; for values of states its formula was put on LSTD. "
        "The last column is how often the library itself says "
        "that the record has seen too little. `make coverage` measures it; [all of it, also where we fall "
        "short](docs/inference.md#coverage)."
    )
    yield ""
    yield from markdown(rows, ("95 % intervals of",))


def times(lines: list[Line]) -> Iterator[str]:
    """Time to the same accuracy, of one kind of features."""
    rows, readings = [], []
    for dim in DIMS:
        for problem in PROBLEMS:
            here = [line for line in lines if (line["world"], line["problem"], line["d"]) == (WORLD, problem, dim)]
            row = {"fit": problem, "features": dim, "rows": f"{int(here[0]['rows']):,}"}
            for title, methods in TIMED.items():
                tries = [line for line in here if line["method"] in methods]
                if title == OURS:
                    tries = [line for line in tries if not line["setting"]]  # the default call
                arrived = [line for line in tries if line["met"] in ("0.1", "0.001")]
                late = "too slow" if any(line["met"] == "skipped" for line in tries) else ""
                row[title] = seconds(min(float(line["seconds"]) for line in arrived)) if arrived else late
                readings += [float(line["readings"]) for line in arrived if title == OURS]
            rows.append(row)
    yield (
        "**Time until the worst coefficient is within a tenth of a standard error of the exact fit**, data in memory, "
        "two cores; ours with standard errors, scikit-learn by its fastest solver and the loosest tolerance that gets "
        "there. “Too slow”: over 20 times the best at fewer features, so not run. Ours takes "
        f"{min(readings):.0f} to {max(readings):.0f} times as long as adding up the features once. One run; "
        "`python benchmarks/accuracy.py` measures it; [all of it, also where we lose](docs/speed.md)."
    )
    yield ""
    yield from markdown(rows, ("fit",))


def body() -> str:
    """What belongs between the two marks of the README."""
    known, timed = map(read, FILES)
    return "\n".join([BEGIN, *coverage(known), "", *times(timed), END])


def main() -> None:
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(text.partition(BEGIN)[0] + body() + text.partition(END)[2], encoding="utf-8")


if __name__ == "__main__":
    main()
