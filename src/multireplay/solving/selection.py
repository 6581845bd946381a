"""Which of several answers is returned: the one with the smallest residual, on the record or on a held-out block."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from multireplay.buffer.buffer import Buffer
from multireplay.buffer.record import Record
from multireplay.engine.residuals import residual_of
from multireplay.errors import InputError
from multireplay.problems import GLM
from multireplay.problems.batched import Batched
from multireplay.result import Epoch
from multireplay.sets import Set

CROWDED = 20
"""Fewer rows than this for every coordinate of a GLM, and its exact fit overfits: a block is held out by default."""
DEFAULT_SHARE = 0.2
FEWEST = 200
"""A record shorter than this is not split by default."""
FACTORS = (1.0, 0.25, 1 / 16, 1 / 64)
"""Step sizes that compete on a held-out block, as multiples of the automatic one."""
SLOW = 300_000
"""Calls of a plain Python operator beyond which it is not evaluated on the whole record for every epoch."""


def by_residual(epochs: tuple[Epoch, ...], record: Record, feasible: Set) -> tuple[tuple[Epoch, ...], int]:
    """The epochs with their residuals ‖x − Proj(x − F̂(x))‖ on the record, and the index of the smallest.

    It costs the arithmetic of one pass for every epoch; a record on disk is read once for all of them. It fails where
    the exact fit overfits, because there a smaller residual is not a better answer (hold out a block instead), and it
    is blind to what the record does not show. A plain Python operator that would have to be called more than 300000
    times is not evaluated: the last epoch is taken.
    """
    good = [index for index, epoch in enumerate(epochs) if not epoch.diverged]
    if not good:
        return epochs, len(epochs) - 1
    problem = record.problem
    slow = problem.users_code and not problem.compiled and not isinstance(problem, Batched)
    if len(epochs) == 1 or (slow and record.length * len(good) > SLOW):
        return epochs, good[-1]
    points = [epochs[index].answer for index in good]
    found = zip(good, points, record.batches(points), strict=True)
    sizes = {index: residual_of(batches, feasible, x).size for index, x, batches in found}
    chosen = min(sizes, key=lambda index: sizes[index])
    marked = tuple(replace(epoch, residual=sizes.get(index)) for index, epoch in enumerate(epochs))
    return marked, chosen


class Split(NamedTuple):
    """The record in time: what is learnt from, a gap that is thrown away, and the block that is held out."""

    learn: Buffer
    test: Buffer


def split(buffer: Buffer, share: float) -> Split:
    """Hold out the last `share` of the record, with a gap of a hundredth of it before."""
    length = len(buffer)
    held, gap = int(share * length), max(1, length // 100)
    if held < 1 or length - held - gap < 1:
        raise InputError(f"holdout={share:g} of {length} rows leaves nothing to learn from or to test on")
    return Split(buffer[: length - held - gap], buffer[length - held :])


def as_share(holdout: Any, record: Record, free: bool) -> float | None:
    """The share to hold out: as asked for, or by default where the exact fit of a GLM would overfit."""
    if holdout == "auto":
        overfits = isinstance(record.problem, GLM) and FEWEST <= record.length < CROWDED * record.dim
        return DEFAULT_SHARE if free and overfits and not record.on_disk else None
    if holdout is None:
        return None
    if isinstance(holdout, bool | str) or not isinstance(holdout, int | float | np.number) or not 0 < holdout < 1:
        raise InputError(f"holdout must be a share in (0, 1), 'auto' or None, not {holdout!r}")
    if record.on_disk:
        raise InputError("holdout=... needs a buffer in memory: buffer.load(), if it fits")
    return float(holdout)
