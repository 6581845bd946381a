"""How dependent a record on disk is: some features at a time are read and measured, here or by workers elsewhere."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from multireplay.buffer.buffer import STATES, Buffer
from multireplay.buffer.disk import StoredBuffer
from multireplay.diagnose.autocorrelation import A_ROW, Floats, autocorrelation, check_shape, together
from multireplay.diagnose.chains import Lengths
from multireplay.diagnose.curves import curves_of
from multireplay.diagnose.diagnosis import ColumnDiagnosis, Diagnosis
from multireplay.diagnose.examine import LEVEL, Called, FeatureTimes, evenly, measure, summed_up
from multireplay.diagnose.record import ChainedColumns
from multireplay.errors import InputError
from multireplay.spread.record import reachable
from multireplay.spread.where import Where, opened, where_is
from multireplay.spread.workers import as_workers

if TYPE_CHECKING:
    from multireplay.tables import StandingChains


@dataclass(frozen=True)
class Reading:
    """A task: some features of a record, from one row to another."""

    where: Where
    first: int
    last: int
    lengths: Lengths
    begins: tuple[int, ...] | None
    """How many steps after the beginning of its group each chain begins, if that is known."""

    @property
    def record(self) -> ChainedColumns:
        """The chains of the rows."""
        if self.begins is None:
            return ChainedColumns({}, lengths=self.lengths)
        inside = np.arange(sum(self.lengths)) - np.repeat(np.cumsum(self.lengths) - self.lengths, self.lengths)
        return ChainedColumns({}, lengths=self.lengths, places=inside + np.repeat(self.begins, self.lengths))

    @property
    def series(self) -> Floats:
        """The rows, read here."""
        with closing(opened(self.where).blocks(["series"], self.first, self.last)) as blocks:
            return np.concatenate([block["series"] for _, block in blocks])


@dataclass(frozen=True)
class Measuring(Reading):
    """A task: what is measured of some features."""

    level: float

    def __call__(self) -> FeatureTimes:
        series = self.series
        return measure(series, np.arange(series.shape[1]), self.level, self.record)


@dataclass(frozen=True)
class Curving(Reading):
    """A task: the autocorrelations of one feature up to a lag."""

    lags: int

    def __call__(self) -> Floats:
        return autocorrelation(self.series, self.lags, self.lengths)


def diagnose_stored(
    buffer: Buffer | StoredBuffer, max_features: int | None, on: Any, there: StandingChains | None = None
) -> Diagnosis:
    """As `diagnose`, of a record on disk, or one in memory that workers read from a temporary folder.

    Where memory has no room for a series of all rows, those in the middle are measured, and ``about`` says which. The
    chains of a record on disk are those that are `there`.
    """
    workers = as_workers(on)
    stored = reachable(buffer, workers)
    chains = buffer.chains if isinstance(buffer, Buffer) else there
    names = [name for name in stored if not (name in STATES and stored.dtype(name).kind in "iu")]
    if not names:
        raise InputError("There are no columns to diagnose: those of states are measured in memory, without on=...")
    in_memory = isinstance(buffer, Buffer) and chains is not None
    rows = len(stored) if in_memory else min(len(stored), max(2**16, stored.memory // A_ROW))
    first = (len(stored) - rows) // 2
    lengths: Lengths = () if chains is None else chains.lengths
    begins = None if there is None else there.begins
    about = () if chains is None else chains.sentences
    if rows < len(stored):
        about += (f"Measured on the rows {first} to {first + rows - 1} (counting from 0), {rows} of {len(stored)}.",)
        lengths, begins = _within(lengths, begins, first, first + rows)
    if len(lengths) == 1:
        lengths = ()
    widths = {name: stored.width(name) or 1 for name in names}
    chosen = {name: evenly(width, min(width, max_features or width)) for name, width in widths.items()}
    level = LEVEL / sum(map(len, chosen.values()))
    lots = {name: np.split(some, range(together(rows), len(some), together(rows))) for name, some in chosen.items()}
    extent = first, first + rows, lengths, tuple(begins.tolist()) if begins is not None and lengths else None
    tasks = [
        Measuring(where_is(stored.picked(name, lot.tolist())), *extent, level) for name in names for lot in lots[name]
    ]
    found = workers.map(tasks)
    entries: list[ColumnDiagnosis] = []
    for name in names:
        check_shape(name, (rows, widths[name]))
        measured = [next(found) for _ in lots[name]]
        whole = FeatureTimes(*(np.concatenate(parts) for parts in zip(*measured, strict=True)))
        called = Called(stored.width(name) is None, _names(stored, name))
        entries.append(summed_up(name, (rows, widths[name]), whole, chosen[name], called))

    def curve(column: ColumnDiagnosis, lags: int) -> Floats:
        assert column.worst_feature is not None
        where = where_is(stored.picked(column.name, [column.worst_feature]))
        (values,) = workers.map([Curving(where, *extent, lags)])
        return np.asarray(values)

    curves = curves_of([(entry, partial(curve, entry)) for entry in entries], max(lengths or (rows,)))
    return Diagnosis(rows, tuple(entries), lengths, about, curves)


def _within(lengths: Lengths, begins: Any, first: int, last: int) -> tuple[Lengths, Any]:
    """The parts of chains that are between two rows."""
    ends = np.cumsum(lengths)
    low, high = (np.clip(edges, first, last) for edges in (ends - lengths, ends))
    kept = high > low
    later = (low - (ends - lengths))[kept]
    return tuple((high - low)[kept].tolist()), None if begins is None else begins[kept] + later


def _names(stored: StoredBuffer, name: str) -> tuple[str, ...] | None:
    found = stored.feature_names
    if found is None or name not in ("features", "next_features"):
        return None
    return found if name == "features" else tuple(f"next {one}" for one in found)
