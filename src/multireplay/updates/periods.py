"""Whether an order may be in step with a period of the record, so that its chains read one part of the period alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multireplay._check import Vector
from multireplay.buffer.record import Record
from multireplay.engine.sums import Folding, operator_batches
from multireplay.inference.residuals import standard_errors
from multireplay.replay import PlannedEpoch

if TYPE_CHECKING:
    from multireplay.solving.run import Run

ROWS, FEW, NUMBERS = 2**18, 2**13, 2**24
"""Rows that are looked at at most; rows on disk, or with a call of a Python function for each; and numbers in them."""
FAR, WORST = 3.0, 3
"""Standard errors of F̂ from which on an answer is far from the exact fit, and coordinates that are looked at."""
BAND, SKIPPED = 64, 2
"""Frequencies among which a spectrum is level, and such bands of the lowest, which have none."""
FALSE_ALARMS, DOUBT = 1e-3, 1.4
"""Chance of a period in a record that has none, and what the level of a band may be off."""
ROUNDING = 1e-9
"""Share of F̂ at 0 below which one is rounding."""


def in_step(run: Run, planned: PlannedEpoch, x: Vector) -> bool:
    """Whether an order that leaves gaps led far from the exact fit of a record that has a period.

    Looked at are at most 2^18 rows: the mean operator on rows spread over the record, and the spectrum of F̃ on
    consecutive ones, in directions in which that mean is not 0.
    """
    if not planned.nested and (planned.gap is None or planned.gap <= 1):
        return False
    away = _away(run, x)
    return bool(away.any()) and any(map(_has_lines, _series(run.record, x, away).T))


def _away(run: Run, x: Vector) -> Vector:
    """Directions in which F̂(x) is far from 0, a column each: all of what is left of it, and the worst coordinates."""
    rows = run.record.spread(_most(run.record))
    here, nowhere = operator_batches(run.record.part(rows), [x, np.zeros_like(x)], Folding(run.threads))
    left, parts = here.mean, here.means
    if not run.on_the_whole_space:
        left, parts = (
            (x - run.feasible.projected(x - left)),
            np.array([x - run.feasible.projected(x - m) for m in parts]),
        )
    error = standard_errors(parts)
    known = (error > 0) & (np.abs(left) > ROUNDING * np.abs(nowhere.mean).max())
    far = np.where(known, np.abs(left), 0.0) / np.where(known, error, 1.0)
    if far.max() <= FAR:
        return np.zeros((len(x), 0))
    worst = np.argsort(-far)[:WORST]
    return np.column_stack([far * np.sign(left) / np.where(known, error, 1.0), np.eye(len(x))[:, worst]])


def _series(record: Record, x: Vector, along: Vector) -> Vector:
    """F̃(x, ξ) in these directions, on consecutive rows in the middle of the record."""
    count = min(record.length, _most(record))
    first = (record.length - count) // 2
    return record.problem.operator_along(x, along, record.take(np.arange(first, first + count)))


def _most(record: Record) -> int:
    most = FEW if record.on_disk or record.problem.is_slow else ROWS
    return max(2 * BAND, min(most, NUMBERS // record.dim))


def _has_lines(series: Vector) -> bool:
    """Whether some frequency stands out from those around it by more than chance."""
    spectrum = np.abs(np.fft.rfft((series - series.mean()) * np.hanning(len(series)))) ** 2
    bands = spectrum[len(spectrum) % BAND :].reshape(-1, BAND)[SKIPPED:]
    level = np.median(bands, axis=1) / np.log(2)
    return bool((bands.max(axis=1) > DOUBT * level * np.log((bands.size + 1) / FALSE_ALARMS)).any())
