"""The fit: how it went, the numbers worth a box, coefficients with intervals, and fitted against actual."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np

from multireplay.diagnose import Diagnosis
from multireplay.report.blocks import Block, Fact, Facts, Section, Text
from multireplay.report.evidence import Evidence, Shown
from multireplay.report.rivals import Missing
from multireplay.report.sections import coefficients, fitted, reliability
from multireplay.report.sections.comparison import quality
from multireplay.show.text import in_names, plural, rough, seconds, short

LEAST = 1e-4
"""Distances below this many standard errors are not told apart."""
TONES: Mapping[str, Literal["good", "plain", "beware"]] = {"finished": "good", "ran": "plain"}
"""Of what is said on how it went; anything else is to beware of."""


def section(evidence: Evidence) -> Section:
    status = evidence.result.status
    said = str(status) if evidence.shown is None else status.message  # doubts are by the names that are shown
    said = said if evidence.run.feature_names else in_names(said, evidence.names)
    tone = TONES.get(status.code, "beware")
    picture, *rest = coefficients.blocks_of(evidence)
    blocks: list[Block] = [Text(said, tone), picture]
    if tone != "beware":
        blocks.reverse()  # a page opens on a picture, unless there is something to beware of
    if not evidence.diverged and not isinstance(evidence.exact, Missing):
        blocks.append(Text(quality(evidence), tone="lead"))
    shown = evidence.shown or Shown({})
    blocks += [*map(Text, shown.said), Facts(_facts(evidence)), *rest]
    if evidence.diverged:
        return Section("Fit", blocks)
    if shown.run_of:
        blocks.append(Text(f"From here on, this is on the class {shown.run_of}, told from the rest.", tone="remark"))
    blocks += fitted.blocks_of(evidence)
    relied_on = reliability.blocks_of(evidence)
    if relied_on and len(shown.known) > 1:
        relied_on.insert(1, Text(f"Those of the class {next(iter(shown.known))}:", tone="remark"))
    return Section("Fit", [*blocks, *relied_on])


def _facts(evidence: Evidence) -> list[Fact]:
    result = evidence.result
    facts = [
        Fact("coordinates", short(len(result.x)), f"from {plural(evidence.run.rows, 'row')}"),
        Fact("passes over the record", f"{result.passes:.3g}", f"in {seconds(evidence.ours.seconds)}"),
    ]
    residual = evidence.residual
    if not isinstance(residual, Missing):
        share = f"{rough(residual.size / residual.error)} of its standard error" if residual.error > 0 else ""
        facts.append(Fact("residual ‖F̂(x)‖", rough(residual.size), share))
    if not np.isnan(evidence.distance):
        worst = "standard errors in the worst coordinate, estimated"
        away = rough(evidence.distance) if evidence.distance > LEAST else f"below {LEAST:g}"
        facts.append(Fact("distance to the exact fit", away, worst))
    if evidence.solution is not None:
        gap = float(np.linalg.norm(result.x - evidence.solution))
        facts.append(Fact("distance to the solution", rough(gap), "which was given to the run"))
    looked_at = evidence.fitted
    if not isinstance(looked_at, Missing) and looked_at.what == "responses" and looked_at.pieces.explained > 0:
        facts.append(Fact("variance explained", f"{rough(100 * looked_at.pieces.explained)} %", "of the targets"))
    found = evidence.diagnosis
    if isinstance(found, Diagnosis) and found.slowest is not None:
        worth = f"worth {rough(found.ess)} independent rows"
        facts.append(Fact("autocorrelation time", f"{rough(found.tau)} steps", worth))
    return facts
