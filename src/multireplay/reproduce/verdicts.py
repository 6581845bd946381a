"""Collecting the verdicts of all experiments found in a folder into claims.md and claims.json."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from multireplay.reproduce import figure_claims, table, theory_claims
from multireplay.reproduce.claims import Curves, Verdict


def verdicts_of(out: Path) -> list[Verdict]:
    """Verdicts on every claim that the tables in the folder can test."""
    rows = {path.stem: table.read(path) for path in sorted(out.glob("*.csv"))}
    curves = {name: Curves(found) for name, found in rows.items()}
    found = []
    if "fig1" in rows:
        found += figure_claims.schematic_claims(curves["fig1"])
    if "fig2a" in rows or "fig2b" in rows:
        found += theory_claims.setting_claims()
    for name in ("fig2a", "fig2b"):
        if name in rows:
            found += figure_claims.policy_evaluation_claims(name, curves[name])
    if {"fig2a", "fig2b"} <= rows.keys():
        found += figure_claims.insensitivity_claims(curves["fig2a"], curves["fig2b"])
    for name in ("fig3a", "fig3b"):
        if name in rows:
            found += figure_claims.logistic_claims(name, curves[name])
    if "theory" in rows:
        found += theory_claims.bound_claims(rows["theory"])
    if "tracking" in rows:
        found += theory_claims.following_claims(rows["tracking"])
    return found


def _run_of(path: Path) -> str:
    """Which run a table comes from: tables of different runs may lie in one folder."""
    about = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    return f"{about['instances']} instances, seed {about['seed']}, size {about['size']}"


def write_claims(out: Path) -> list[Verdict]:
    """Write claims.md and claims.json from the tables in the folder."""
    found = verdicts_of(out)
    numbered = [asdict(verdict) for verdict in found]
    for entry in numbered:
        entry["numbers"] = {name: float(f"{value:.6g}") for name, value in entry["numbers"].items()}
    text = json.dumps(numbered, indent=1, ensure_ascii=False) + "\n"
    (out / "claims.json").write_text(text, encoding="utf-8", newline="\n")
    lines = ["# The paper's claims and what was measured", ""]
    lines += ["Each verdict is computed from the tables beside this file; the thresholds are stated with it.", ""]
    lines += [f"- {path.stem}: {_run_of(path)}" for path in sorted(out.glob("*.csv"))] + [""]
    for verdict in found:
        lines += [f"**{verdict.figure}** “{verdict.claim}”", "", f"→ **{verdict.verdict}.** {verdict.finding}", ""]
    (out / "claims.md").write_text("\n".join(lines), encoding="utf-8", newline="\n")
    return found
