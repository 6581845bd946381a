"""Which runs go through lanes, many chains at once on whole arrays, and in which order by default."""

from __future__ import annotations

from multireplay.arrays import describe, is_foreign, on_cpu
from multireplay.buffer import Buffer
from multireplay.errors import InputError
from multireplay.problems import Problem
from multireplay.problems.batched import as_batched, can_be_batched
from multireplay.replay import Multiscale, Replay

DEEPEST = 12
"""By default a chain has at most 2^12 steps, since every step of all lanes together costs the same small time."""
WIDTH = 3
"""… and there are at least 2^3 lanes, or array operations are slower than plain Python."""


def in_lanes(problem: Problem, buffer: Buffer, replay: Replay | None, backend: str) -> tuple[Problem, Replay | None]:
    """The problem over batches where it is to be run so, and the order to run it in if none was asked for.

    That is where the backend says so, where the user's operator is written over a batch, or where the columns lie on
    a device. Columns that another library holds in the memory of the processor are read through NumPy, without a copy,
    by the other engines.
    """
    names = [name for name in (*problem.required, *problem.optional) if name in buffer]
    away = [name for name in names if is_foreign(buffer[name]) and not on_cpu(buffer[name])]
    over_batches = getattr(problem, "batch_operator", None) is not None
    if not names or not (backend == "batched" or (backend == "auto" and (over_batches or away))):
        return problem, replay
    if not can_be_batched(problem):
        why = f"a column on {describe(buffer[away[0]])}" if away else "backend='batched'"
        raise InputError(
            f"{why} needs an operator over batches, which {problem!r} does not have: write it as operator(X, batch), "
            "one row a lane, and give VariationalInequality(..., batched=True), or give the columns as NumPy arrays"
        )
    return as_batched(problem, buffer[names[0]]), default_order(len(buffer)) if replay is None else replay


def default_order(length: int) -> Replay | None:
    """All phases of gaps that leave enough lanes; for a very short record whatever is the default elsewhere.

    Examples
    --------
    >>> default_order(1000)
    Multiscale(epochs=6, phases='all', sweep=False)
    """
    depth = min(DEEPEST, length.bit_length() - 1 - WIDTH)
    return Multiscale(epochs=depth, phases="all") if depth >= 1 else None
