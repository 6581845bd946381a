"""The paper's numerical section again: every figure, every claim, and the verdicts in claims.md and claims.json."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from multireplay._write import save_text
from multireplay.bench import claims, table, theory_claims
from multireplay.bench.claims import Verdict
from multireplay.bench.figures import FIGURES
from multireplay.bench.runner import Advance, PaperExperiment, Scope, cost, work_out
from multireplay.bench.table import Curves
from multireplay.bench.theorems import Bounds, Following
from multireplay.bench.world import Size

EXPERIMENTS: dict[str, PaperExperiment] = {**FIGURES, "tracking": Following(), "theory": Bounds()}


def reproduce(
    experiments: Sequence[PaperExperiment],
    instances: int,
    seed: int,
    jobs: int,
    out: Path,
    size: Size,
    advance: Advance = lambda name, seconds: None,
) -> None:
    """Run the experiments and write NAME.csv, NAME.json (which run it was), NAME.png and NAME.svg for each into `out`.

    `advance` is told the name and the rough cost of every instance that is finished, also of those found on disk.
    """
    from multireplay.bench.pictures import draw_experiment

    out.mkdir(parents=True, exist_ok=True)
    for experiment in experiments:
        scope = Scope(size, seed, instances, experiment.tuning[size], jobs, out)
        reports, chosen = work_out(experiment, scope, advance)
        rows = experiment.rows(reports, chosen, size)
        table.write(out / f"{experiment.name}.csv", rows)
        about = {"instances": instances, "seed": seed, "size": size, "chosen": chosen}
        save_text(out / f"{experiment.name}.json", json.dumps(about, indent=1) + "\n")
        draw_experiment(experiment, rows, reports, size, out / experiment.name)


def total_cost(experiments: Sequence[PaperExperiment], instances: int, size: Size) -> float:
    """Rough cost of a reproduction, in the units that `advance` is told."""
    return sum(cost(experiment, instances, experiment.tuning[size]) for experiment in experiments)


def verdicts_of(out: Path) -> list[Verdict]:
    """Verdicts on every claim that the tables in the folder can test."""
    tables = {path.stem: Curves(table.read(path)) for path in sorted(out.glob("*.csv"))}
    found = []
    if "fig1" in tables:
        found += claims.schematic_claims(tables["fig1"])
    figure_2: list[str] = [name for name in ("fig2a", "fig2b") if name in tables]
    if figure_2:
        found += theory_claims.setting_claims()
    for name in figure_2:
        found += claims.policy_evaluation_claims(name, tables[name])
    if len(figure_2) == 2:
        found += claims.insensitivity_claims(tables["fig2a"], tables["fig2b"])
    for name in ("fig3a", "fig3b"):
        if name in tables:
            found += claims.logistic_claims(name, tables[name])
    if "theory" in tables:
        found += theory_claims.bound_claims(tables["theory"])
    if "tracking" in tables:
        found += theory_claims.following_claims(tables["tracking"].rows)
    return found


def run_of(path: Path) -> dict[str, int | str]:
    """Which run a table comes from: tables of different runs may lie in one folder."""
    found: dict[str, int | str] = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    return found


def write_claims(out: Path) -> list[Verdict]:
    """Write claims.md and claims.json from the tables in the folder."""
    found = verdicts_of(out)
    numbered = [asdict(verdict) for verdict in found]
    for entry in numbered:
        entry["numbers"] = {name: float(f"{value:.6g}") for name, value in entry["numbers"].items()}
    text = json.dumps(numbered, indent=1, ensure_ascii=False) + "\n"
    save_text(out / "claims.json", text)
    lines = ["# The paper's claims and what was measured", ""]
    lines += ["Each verdict is computed from the tables beside this file; the thresholds are stated with it.", ""]
    for path in sorted(out.glob("*.csv")):
        lines.append("- {}: {instances} instances, seed {seed}, size {size}".format(path.stem, **run_of(path)))
    lines.append("")
    for verdict in found:
        lines += [f"**{verdict.figure}** “{verdict.claim}”", "", f"→ **{verdict.verdict}.** {verdict.finding}", ""]
    save_text(out / "claims.md", "\n".join(lines))
    return found
