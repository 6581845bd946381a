"""A record in a file, as the commands read it: numbers by name, features side by side, classes, time order."""

from __future__ import annotations

import difflib
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from multireplay._check import Positions
from multireplay.buffer.disk import StoredBuffer
from multireplay.buffer.disk.layout import resolve
from multireplay.buffer.disk.memory import bytes_of, in_words
from multireplay.buffer.disk.opening import find_source
from multireplay.buffer.disk.source import Source
from multireplay.buffer.names import listed
from multireplay.errors import InputError

if TYPE_CHECKING:
    from multireplay.buffer.disk.table import TableSource

FEW = 4096
"""Rows that tell which columns may hold dates."""
BLOCK = 2**16
"""Rows handed out at a time from a record that is in memory."""


@dataclass(frozen=True, eq=False)
class DataFile:
    """A file with columns. A column with several numbers a row gives features ``name[0]``, ``name[1]``, …"""

    path: Path
    source: Source
    memory: str | int
    dialect: Any = None
    """How a text table is read."""

    @classmethod
    def open(cls, path: Any, memory: str | int, dialect: Any = None) -> DataFile:
        """Look at what the file holds; the rows are read later."""
        return cls(path, find_source(path, bytes_of(memory), dialect), memory, dialect)

    @property
    def na(self) -> tuple[str, ...]:
        """Texts that stand for nothing, as they were given."""
        return () if self.dialect is None else tuple(self.dialect.missing)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All columns, numbers or not."""
        return (*self.source.fields, *self.source.refused)

    @cached_property
    def widths(self) -> dict[str, int]:
        """How many numbers a row has in columns of lists."""
        return {name: field.width for name, field in self.source.fields.items() if field.width is not None}

    def column_of(self, name: str) -> str:
        """The column that a feature is in; a column is its own."""
        return self.features[name][0] if name in self.features else name

    @cached_property
    def features(self) -> dict[str, tuple[str, int | None]]:
        """Every number of a row by name: the column it is in, and which one there."""
        found: dict[str, tuple[str, int | None]] = {}
        for name, members in self._members.items():
            single = self.source.fields[name].width is None
            found |= {feature: (name, None if single else place) for place, feature in enumerate(members)}
        return found

    @cached_property
    def _members(self) -> dict[str, list[str]]:
        """The features of every column."""
        fields = self.source.fields.items()
        return {
            name: [name] if field.width is None else [f"{name}[{place}]" for place in range(field.width)]
            for name, field in fields
        }

    @cached_property
    def datable(self) -> tuple[str, ...]:
        """Columns that may hold dates, as far as their first rows tell."""
        import pyarrow as pa

        from multireplay.tables import Kind, look_at
        from multireplay.tables.looks import called_a_time

        names = [name for name in self.source.fields if called_a_time(name)]
        names += self.source.refused if self.source.in_tables else ()
        if not names or not self.source.rows:
            return ()
        _, first = next(iter(self.batches(names, 0, min(FEW, self.source.rows), FEW)))
        looks = look_at(pa.Table.from_batches([first]))
        return tuple(name for name in names if looks[name].kind in (Kind.date, Kind.nothing))

    def expand(self, name: str) -> list[str]:
        """The features that a name stands for: a feature, or all of a column."""
        if name in self.features:
            return [name]
        return self._members.get(name) or [self.refuse(name)]

    def refuse(self, name: str) -> str:
        """Raise an error about a name that is no column of numbers."""
        if name in self.source.refused:
            raise InputError(self.source.refused[name])
        raise InputError(f"{self.path} has no column {name!r}; {self.guess(name)}it has {listed(self.names, 20)}")

    def guess(self, name: str) -> str:
        """A question on the name that may be meant, if there is one."""
        alike = [one for one in self.names if one.strip().casefold() == name.strip().casefold()]
        close = alike or difflib.get_close_matches(name, (*self.features, *self.source.refused), n=1)
        if close:
            return f"did you mean {close[0]!r}? "
        if len(self.names) == 1 and name in self.names[0]:
            return "if another sign parts its cells, give it with --separator; "
        parts = [one for one in self.names if "," in one and name in one]
        return f"a name with a comma is put in quotes, as '\"{parts[0]}\"'; " if parts else ""

    def table(self, names: Iterable[str]) -> Any:
        """Whole columns as an Arrow table, whatever they hold; a record that is too large for that is refused."""
        import pyarrow as pa

        names = list(names)
        if not self.fits(names):
            raise InputError(
                f"{self.path}: these columns take {in_words(self._size(names))}, more than half of {self.memory}; "
                "choose fewer columns, or give more memory with --memory"
            )
        found = list(self.batches(names))
        return pa.Table.from_batches([batch for _, batch in found])

    def fits(self, names: Iterable[str]) -> bool:
        """Whether whole columns can be held in memory."""
        return self._size(names) <= bytes_of(self.memory) // 2

    def _size(self, names: Iterable[str]) -> int:
        names = list(names)
        known = [name for name in names if name in self.source.fields or name in self.source.times]
        return self.source.rows * (self.source.row_bytes(known) + 16 * (len(names) - len(known)))

    def picked(self, names: Sequence[str], rows: Positions, size: int) -> Iterator[tuple[Positions, Any]]:
        """Arrow batches of some rows, ascending and distinct, each with where among them its rows are."""
        if not self.source.in_tables:
            mapped = resolve({name: name for name in names}, self.source)
            block = StoredBuffer(self.source, mapped, bytes_of(self.memory)).take(rows)
            yield np.arange(len(rows)), _as_batch(block)
            return
        with closing(cast("TableSource", self.source).batches_of(list(names), rows, size)) as batches:
            for batch in batches:
                low, high = np.searchsorted(rows, (batch.start, batch.start + batch.data.num_rows))
                if high > low:
                    yield np.arange(low, high), _usual(batch.data).take(rows[low:high] - batch.start)

    def batches(
        self, names: Sequence[str], first: int = 0, last: int | None = None, size: int | None = None
    ) -> Generator[tuple[int, Any], None, None]:
        """Arrow batches of columns, whatever they hold, from one row to another, each with the number of its first."""
        stop = self.source.rows if last is None else last
        for name in names:
            if name not in self.source.fields and name not in self.source.refused:
                self.refuse(name)
        if self.source.in_tables:
            for batch in cast("TableSource", self.source).batches(names, first, size or BLOCK):
                start, skipped = batch.start, max(0, first - batch.start)
                if skipped < batch.data.num_rows and start < stop:
                    yield start + skipped, _usual(batch.data).slice(skipped, stop - start - skipped)
                if start + batch.data.num_rows >= stop:
                    return
            return
        yield from self._array_blocks(names, first, stop)

    def _array_blocks(self, names: Sequence[str], first: int, stop: int) -> Iterator[tuple[int, Any]]:
        """Batches of columns that are arrays."""
        mapped = resolve({name: name for name in names}, self.source)
        for start, block in StoredBuffer(self.source, mapped, bytes_of(self.memory)).blocks(None, first, stop):
            yield start, _as_batch(block)


def _as_batch(block: Mapping[str, Any]) -> Any:
    """Arrays as an Arrow batch; those with several numbers a row become lists."""
    import pyarrow as pa

    from multireplay.buffer.disk.table import as_arrow

    return pa.record_batch({name: as_arrow(values) for name, values in block.items()})


def _usual(batch: Any) -> Any:
    """A batch with text of the usual type in place of views, which much of Arrow cannot use."""
    import pyarrow as pa

    for place, column in enumerate(batch.schema):
        if pa.types.is_string_view(column.type):
            batch = batch.set_column(place, column.name, batch.column(place).cast(pa.string()))
    return batch
