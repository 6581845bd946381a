"""Which runs go through lanes, many chains at once on whole arrays, and in which order by default."""

from __future__ import annotations

from scipy.sparse import issparse

from multireplay.buffer.buffer import Buffer
from multireplay.buffer.disk import StoredBuffer
from multireplay.buffer.foreign import describe, is_foreign, on_cpu
from multireplay.buffer.record import Record
from multireplay.errors import InputError
from multireplay.problems import Problem
from multireplay.problems.batched import Batched, as_batched, can_be_batched
from multireplay.replay import Dyadic, Interleaved, Replay

DEEPEST = 12
"""By default a chain has at most 2^12 steps, since every step of all lanes together costs the same small time."""
WIDTH = 3
"""… and there are at least 2^3 lanes, or array operations are slower than plain Python."""


def in_lanes(problem: Problem, buffer: Buffer | StoredBuffer, backend: str) -> Problem:
    """The problem over batches where it is to be run so, otherwise the problem as it is.

    That is where the backend says so, where the user's operator is written over a batch, or where the columns lie on
    a device. Columns that another library holds in the memory of the processor are read through NumPy, without a copy,
    by the other engines. A record on disk is not run so.
    """
    over_batches = getattr(problem, "batch_operator", None) is not None
    if isinstance(buffer, StoredBuffer):
        if over_batches and backend in ("auto", "batched"):
            raise InputError(
                "an operator over batches (batched=True) needs a buffer in memory: load it with buffer.load(), or "
                "write the operator for one row"
            )
        if backend == "batched":
            raise InputError("backend='batched' needs a buffer in memory: buffer.load(), if it fits")
        return problem
    names = [name for name in (*problem.required, *problem.optional) if name in buffer]
    away = [name for name in names if is_foreign(buffer[name]) and not on_cpu(buffer[name])]
    if not names or not (backend == "batched" or (backend == "auto" and (over_batches or away))):
        return problem
    why = f"a column on {describe(buffer[away[0]])}" if away else "backend='batched'"
    if not can_be_batched(problem):
        raise InputError(
            f"{why} needs an operator over batches, which {problem!r} does not have: write it as operator(X, batch), "
            "one row a lane, and give VariationalInequality(..., batched=True), or give the columns as NumPy arrays"
        )
    sparse = [name for name in names if issparse(buffer[name])]
    if sparse:
        raise InputError(f"{why} needs dense columns, and {sparse[0]!r} is sparse: leave the backend out")
    return as_batched(problem, buffer[names[0]])


def default_order(record: Record) -> Replay:
    """Dyadic order; in lanes all offsets of a gap side by side, with chains that are long and yet many."""
    depth = min(DEEPEST, record.length.bit_length() - 1 - WIDTH)
    if not isinstance(record.problem, Batched) or depth < 1:
        return Dyadic()
    return Interleaved(gap=record.length >> depth)
