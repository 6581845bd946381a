"""The paper's numerical section again: every figure, every claim, and the verdicts in claims.md and claims.json."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from multireplay._write import completed, save_text
from multireplay.bench import claims, table, theory_claims
from multireplay.bench.claims import Verdict
from multireplay.bench.figures import FIGURES
from multireplay.bench.runner import Advance, PaperExperiment, Scope, cost, work_out
from multireplay.bench.store import Arrays, code_version
from multireplay.bench.table import Curves
from multireplay.bench.theorems import Bounds, Following
from multireplay.bench.world import Size

READING = (
    "What is in quotation marks are the paper's own words; all else is ours. A difference counts where its mean over "
    "the instances, taken on the same records, is more than two standard errors from 0."
)
EXPERIMENTS: dict[str, PaperExperiment] = {**FIGURES, "tracking": Following(), "theory": Bounds()}


def reproduce(
    experiments: Sequence[PaperExperiment],
    instances: int | None,
    seed: int,
    jobs: int,
    out: Path,
    size: Size,
    advance: Advance = lambda name, seconds: None,
) -> None:
    """Run the experiments and write what is known of each into `out`.

    NAME.csv is its table, NAME.npz has all curves by instance, NAME.json says which run it was, NAME.png and NAME.svg
    are the picture. Every experiment has its own number of instances if none is given. `advance` is told the name and
    the rough cost of every instance that is finished, also of those found on disk.
    """
    from multireplay.bench.pictures import draw_experiment

    out.mkdir(parents=True, exist_ok=True)
    for experiment in experiments:
        count = instances or experiment.instances
        scope = Scope(size, seed, count, experiment.tuning[size], jobs, out)
        reports, chosen = work_out(experiment, scope, advance)
        rows = experiment.rows(reports, chosen, size)
        table.write(out / f"{experiment.name}.csv", rows)
        together = {name: np.array([report[name] for report in reports]) for name in reports[0]}
        with completed(out / f"{experiment.name}.npz") as file:
            np.savez_compressed(file, **together)  # type: ignore[arg-type]
        about = {"instances": count, "seed": seed, "size": size, "chosen": chosen, "code": code_version()}
        save_text(out / f"{experiment.name}.json", json.dumps(about, indent=1) + "\n")
        draw_experiment(experiment, rows, reports, size, out / experiment.name)


def total_cost(experiments: Sequence[PaperExperiment], instances: int | None, size: Size) -> float:
    """Rough cost of a reproduction, in the units that `advance` is told."""
    return sum(cost(each, instances or each.instances, each.tuning[size]) for each in experiments)


def tables_of(out: Path) -> list[Path]:
    """The tables in the folder that this version of the code has made."""
    return [path for path in sorted(out.glob("*.csv")) if run_of(path).get("code") == code_version()]


def _curves_of(out: Path, name: str) -> Arrays:
    with np.load(out / f"{name}.npz", allow_pickle=False) as file:
        return {each: file[each] for each in file.files}


def verdicts_of(out: Path) -> list[Verdict]:
    """Verdicts on every claim that the tables in the folder can test. Figure 1 is a schematic and has none."""
    there = {path.stem: path for path in tables_of(out)}
    fast, slow = (_curves_of(out, name) if name in there else None for name in ("fig2a", "fig2b"))
    found = []
    if fast or slow:
        found += theory_claims.setting_claims()
    if fast:
        found += claims.fast_claims(fast)
    if slow:
        found += claims.slow_claims(slow)
    if fast and slow:
        found += claims.mixing_claims(fast, slow)
    for name in FIGURES:
        if name.startswith("fig3") and name in there:
            found += claims.logistic_claims(name, _curves_of(out, name))
    if "theory" in there:
        found += theory_claims.bound_claims(Curves(table.read(there["theory"])))
    if "tracking" in there:
        found += theory_claims.following_claims(table.read(there["tracking"]))
    return found


def run_of(path: Path) -> dict[str, Any]:
    """Which run a table comes from: tables of different runs may lie in one folder."""
    found: dict[str, Any] = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    return found


def write_claims(out: Path) -> list[Verdict]:
    """Write claims.md and claims.json from the tables in the folder."""
    found = verdicts_of(out)
    numbered = [asdict(verdict) for verdict in found]
    for entry in numbered:
        entry["numbers"] = {name: float(f"{float(value):.6g}") for name, value in entry["numbers"].items()}
    text = json.dumps(numbered, indent=1, ensure_ascii=False) + "\n"
    save_text(out / "claims.json", text)
    lines = ["# The paper's claims and what was measured", ""]
    lines += [f"{READING} The thresholds are ours and stated with each verdict.", ""]
    for path in tables_of(out):
        lines.append("- {}: {instances} instances, seed {seed}, size {size}".format(path.stem, **run_of(path)))
    lines.append("")
    for verdict in found:
        lines += [f"**{verdict.figure}** {verdict.claim}", "", f"→ **{verdict.verdict}.** {verdict.finding}", ""]
    save_text(out / "claims.md", "\n".join(lines))
    return found
