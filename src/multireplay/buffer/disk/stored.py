"""A buffer that stays on disk and is read in blocks."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing
from typing import Any, NoReturn

import numpy as np

from multireplay._check import Positions
from multireplay.buffer.buffer import Buffer, buffer_of
from multireplay.buffer.columns import Array, row_count
from multireplay.buffer.disk.folder import save_folder
from multireplay.buffer.disk.layout import Assembly, Layout, MappedColumn, Part
from multireplay.buffer.disk.memory import in_words, pages
from multireplay.buffer.disk.source import Source
from multireplay.buffer.disk.stream import IN_FLIGHT, block_rows, read_ahead, stream
from multireplay.buffer.fingerprint import Fingerprint
from multireplay.buffer.names import as_names, require_count
from multireplay.errors import InputError

STEP = 2**22
"""Bytes that are read at a time where all is loaded."""
LOTS = 4
"""Rows at random are taken in lots, so many of which fill the budget: one in use, one ready, one being read, a copy."""
PLACES = 160
"""Bytes that a row of a lot takes besides its columns: its place in the record, sorted and back, in all those lots."""
NOTHING: Positions = np.empty(0, dtype=np.int64)


class StoredBuffer:
    """One long, ordered record on disk, as `Buffer.open` gives it where it is too large to load.

    It is read in order by blocks, of which no more are in memory than `memory` allows; or some rows are taken
    out of it. Every value is checked on the way: one that is not finite, a file that is cut short, damaged, changed or
    gone raises an error that names the file and the row.

    Examples
    --------
    >>> import tempfile, numpy as np, multireplay as mr
    >>> folder = tempfile.TemporaryDirectory()
    >>> np.save(folder.name + "/psi.npy", np.arange(600_000.0).reshape(-1, 2))
    >>> trajectory = {"features": "psi", "next_features": ("psi", +1)}    # the next row is not stored twice
    >>> stored = mr.Buffer.open(folder.name, columns=trajectory, memory="9 MB")
    >>> stored
    StoredBuffer(299999 rows, 4.8 MB on disk: features (299999, 2) float64, next_features (299999, 2) float64)
    >>> max(block["features"].max() for first, block in stored.blocks())
    np.float64(599997.0)
    >>> stored.take(np.array([7, 3]))["next_features"]
    array([[16., 17.], [ 8.,  9.]])
    >>> folder.cleanup()
    """

    def __init__(
        self,
        source: Source,
        columns: Mapping[str, MappedColumn],
        memory: int,
        feature_names: Iterable[str] | None = None,
        left_out: Positions = NOTHING,
    ) -> None:
        self._source = source
        self._columns = dict(columns)
        self._fields = {name: column.layout.field(source) for name, column in columns.items()}
        self._length = source.rows - max(column.shift for column in columns.values())
        if self._length < 1:
            raise InputError(f"{source.label} has {source.rows} rows, too few for shifts that far")
        self._length -= len(left_out)
        self._left_out, self._before = left_out, left_out - np.arange(len(left_out))
        self.memory = memory
        self._feature_names = self._named() if feature_names is None else as_names(feature_names)
        if self._feature_names is not None and "features" in columns:
            require_count(self._feature_names, self._fields["features"].width or 1)

    def _named(self) -> tuple[str, ...] | None:
        if "features" in self._columns:
            return self._columns["features"].layout.feature_names(self._source)
        return self._source.feature_names.get("features")

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The names of the features, if they have any."""
        return self._feature_names

    @property
    def where(self) -> Any:
        """What `Buffer.open` opens it from again, also in another process: small, and can be pickled and hashed.

        None where there is no such thing, as for what is Dask's. Credentials in a URI go with it.
        """
        return self._source.where

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, in the order they were asked for."""
        return tuple(self._columns)

    @property
    def left_out(self) -> int:
        """How many rows are left out, because what they would put together is of two chains."""
        return len(self._left_out)

    def without(self, rows: Positions) -> StoredBuffer:
        """This record without some of its rows, which are ascending and distinct."""
        return StoredBuffer(self._source, self._columns, self.memory, self.feature_names, rows)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def width(self, name: str) -> int | None:
        """How many numbers a row of the column has; None for a one-dimensional column."""
        return self._fields[self._chosen(name)[0]].width

    def dtype(self, name: str) -> np.dtype[Any]:
        """The type of the column's numbers."""
        return self._fields[self._chosen(name)[0]].dtype

    @property
    def nbytes(self) -> int:
        """Bytes of all columns in memory; a column that is another one shifted takes none of its own."""
        return self._assembly(self.names).row_bytes * self._source.rows

    @property
    def made_of(self) -> tuple[str, dict[str, MappedColumn], Positions]:
        """Where it is, as it was given, what its columns are made of, and the rows that are left out, ascending."""
        return self._source.label, dict(self._columns), self._left_out

    def __repr__(self) -> str:
        parts = (f"{name} {field.shape(self._length)} {field.dtype}" for name, field in self._fields.items())
        left = f" ({self.left_out} left out)" if self.left_out else ""
        return f"StoredBuffer({self._length} rows{left}, {in_words(self.nbytes)} on disk: {', '.join(parts)})"

    def __getitem__(self, key: object) -> NoReturn:
        raise InputError(
            f"buffer[{key!r}] needs a buffer in memory, and this one of {in_words(self.nbytes)} stays on disk: use "
            "buffer.blocks() or buffer.take(rows), or buffer.load() if it fits"
        )

    def blocks(
        self, names: Iterable[str] | None = None, first: int = 0, last: int | None = None, aside: int = 0
    ) -> Generator[tuple[int, dict[str, Array]], None, None]:
        """The rows from `first` to before `last` in order, a block at a time, the next one read ahead by a thread.

        Parameters
        ----------
        names
            The columns to read; all of them by default.
        first, last
            The range of rows, counted from 0; the whole record by default.
        aside
            Bytes of the memory budget that the caller needs; blocks are made up to four times smaller for it.

        Yields
        ------
        tuple
            The number of the block's first row, and its arrays by name: C-contiguous and of the same length. A block
            may be kept, but counts toward memory as long as it is. Columns that are shifts of one another share memory.
        """
        chosen = self._chosen(names)
        stop = self._length if last is None else last
        if not 0 <= first <= stop <= self._length:
            raise InputError(f"rows {first} to {stop} are not in this buffer, which has rows 0 to {self._length}")
        assembly, overlap = self._assembly(chosen), self._overlap(chosen)
        rows = block_rows(assembly, self.memory, overlap, aside)
        if self.left_out:  # what stays of a block is a copy: one at the caller, one being made, three blocks on the way
            copied = sum(self._fields[name].row_bytes for name in chosen) / assembly.row_bytes
            rows = max(1, int(rows * IN_FLIGHT / (3 + 2 * copied)))
        begin = int(self.stored_rows(first))
        end = int(self.stored_rows(stop - 1)) + 1 if stop > first else begin
        return self._ahead(stream(assembly, begin, end, rows, overlap), chosen)

    def _ahead(
        self, blocks: Generator[tuple[int, dict[Layout, Array]], None, None], names: tuple[str, ...]
    ) -> Generator[tuple[int, dict[str, Array]], None, None]:
        with closing(read_ahead(blocks)) as ready:
            for start, block in ready:
                shown = self._shown(block, names)
                del block
                if self.left_out:
                    start, shown = self._kept(start, shown)
                if row_count(shown):
                    yield start, shown
                del shown

    def _kept(self, start: int, shown: dict[str, Array]) -> tuple[int, dict[str, Array]]:
        """Stored rows from `start` on without those that are left out, and the number of the first in this record."""
        first, last = np.searchsorted(self._left_out, [start, start + row_count(shown)])
        if first == last:
            return start - int(first), shown
        here = self._left_out[first:last] - start
        return start - int(first), {name: np.delete(array, here, axis=0) for name, array in shown.items()}

    def take(self, rows: Any, names: Iterable[str] | None = None, verified: bool = True) -> dict[str, Array]:
        """These rows, in the order given; a row may be asked for more than once.

        Parameters
        ----------
        rows
            Numbers of rows, counted from 0.
        names
            The columns to read; all of them by default.
        verified
            Whether what has checksums, a folder that `save` wrote or an archive, is read around these rows and compared
            with them, unless it was before. Without, what is damaged is noticed when it is next read in order.
        """
        chosen = self._chosen(names)
        wanted = self.stored_rows(self._checked_rows(rows))
        found: dict[str, Array] = {}
        distinct, back = np.unique(wanted, return_inverse=True)
        straight = np.array_equal(distinct, wanted)
        for shift in sorted({self._columns[name].shift for name in chosen}):
            here = [name for name in chosen if self._columns[name].shift == shift]
            arrays = self._assembly(here).take(distinct + shift, verified)
            for name in here:
                layout = self._columns[name].layout
                found[name] = arrays[layout] if straight else self._in_order(layout, arrays[layout], back)
        return {name: found[name] for name in chosen}

    def _in_order(self, layout: Layout, array: Array, back: Positions) -> Array:
        found = pages(layout.field(self._source), len(back))
        return np.take(array, back, axis=0, out=found, mode="clip")

    @property
    def reach(self) -> tuple[int, int]:
        """The first and the last of the stored rows that row 0 is made of: shifts reach over several."""
        shifts = [column.shift for column in self._columns.values()]
        return min(shifts), max(shifts)

    def load(self, order: Array | None = None) -> Buffer:
        """All rows, as a buffer in memory; the stored rows are taken in that order, if one is given."""
        assembly = self._assembly(self.names)
        rows = self._source.rows
        whole = {layout: np.empty(field.shape(rows), field.dtype) for layout, field in assembly.fields.items()}
        step = max(1, STEP // max(1, assembly.row_bytes))
        with closing(self._source.reader(assembly.names, 0)) as reader:
            for start in range(0, rows, step):
                part = {layout: array[start : start + step] for layout, array in whole.items()}
                assembly.read(reader, part, start)
        if order is not None:
            whole = {layout: array[order] for layout, array in whole.items()}
        shown = self._shown(whole, self.names)
        if self.left_out:
            shown = {name: np.delete(array, self._left_out, axis=0) for name, array in shown.items()}
        return buffer_of(shown, self.feature_names)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the folder form, block by block: one .npy file a column and a page that says what is there."""
        with closing(self.blocks()) as blocks:
            save_folder(path, self._fields, self._length, (block for _, block in blocks), self.feature_names)

    def picked(self, name: str, features: Iterable[int]) -> StoredBuffer:
        """Some features of a column, in rising order, as a record of their own with the one column ``series``."""
        column, wanted, start, parts = self._columns[name], sorted(features), 0, []
        for part in column.layout.parts:
            field = self._source.field(part.name)
            stop = start + Layout.width_of(part, field)
            here = tuple(place - start for place in wanted if start <= place < stop)
            if here:
                among = here if part.pick is None else tuple(part.pick[place] for place in here)
                parts.append(part if field.width is None else Part(part.name, among))
            start = stop
        series = MappedColumn(Layout(tuple(parts), flat=False), column.shift)
        return StoredBuffer(self._source, {"series": series}, self.memory, None, self._left_out)

    def overhead(self, names: Iterable[str]) -> int:
        """Bytes that reading these columns takes beyond what it fills."""
        return self._source.overhead(self._assembly(names).names)

    def fingerprint(self) -> str:
        """Thirty-two letters that tell this record from another: a hash of 128 bits, of what can be had at once.

        It covers the number of rows, the names of the columns and what they are made of (stored columns, picked
        features, shifts), and the files, not where they are. A folder that `save` wrote and a ``.npz`` archive
        have checksums of all values, which are taken as they stand: a copy has the same fingerprint. Of other files it
        covers the size, the time of writing to the nanosecond, and the first and last 64 kB (of Parquet files all of
        the index at the end); a copy is another record unless it keeps the time, and so is a file that was written
        again. The values themselves are not read: a file that was changed in the middle, with its size and time put
        back, is taken for the same.
        """
        found = Fingerprint()
        found.add_facts([len(self), {name: column.identity() for name, column in self._columns.items()}])
        found.add_facts(self._source.identity(self._assembly(self.names).names))
        if self.left_out:
            found.add_array("left out", self._left_out)
        return found.text()

    def cost_of_random_access(self) -> str:
        """What one pass in random order costs compared with one in order, as a sentence."""
        assembly = self._assembly(self.names)
        touched, reason = self._source.touched(assembly.names)
        ratio = touched / self._source.row_bytes(assembly.names)
        lots = -(-LOTS * self.nbytes // self.memory)
        if lots < ratio:
            ratio = lots
            reason = f"it is taken in {lots} lots of a quarter of the memory budget, each spread over all of it"
        if ratio < 1.05:
            return f"One pass over {self._source.label} in random order reads about as many bytes as one in order."
        return (
            f"One pass over {self._source.label} in random order reads about {ratio:.3g} times the bytes "
            f"of one in order: {reason}."
        )

    def _chosen(self, names: Iterable[str] | None) -> tuple[str, ...]:
        if isinstance(names, str):
            names = [names]
        chosen = self.names if names is None else tuple(dict.fromkeys(names))
        for name in chosen:
            if name not in self._columns:
                raise InputError(f"no column {name!r} in this buffer; it has {', '.join(self._columns)}")
        if not chosen:
            raise InputError("names is empty; give at least one column")
        return chosen

    def _assembly(self, names: Iterable[str]) -> Assembly:
        return Assembly(self._source, [self._columns[name].layout for name in names])

    def _overlap(self, names: Iterable[str]) -> int:
        """Rows that a block needs beyond its own; all blocks are read from shift 0 on, as the record begins there."""
        return max(self._columns[name].shift for name in names)

    def _shown(self, block: Mapping[Layout, Array], names: tuple[str, ...]) -> dict[str, Array]:
        """The columns of a block with the rows that it needs beyond its own."""
        count = len(next(iter(block.values()))) - self._overlap(names)
        columns = {name: self._columns[name] for name in names}
        return {name: block[column.layout][column.shift :][:count] for name, column in columns.items()}

    def stored_rows(self, rows: Any) -> Any:
        """Where rows of this record begin in the stored one, in which none is left out."""
        return rows + np.searchsorted(self._before, rows, side="right")

    def _checked_rows(self, rows: Any) -> Array:
        wanted = np.asarray(rows)
        if wanted.ndim != 1 or wanted.dtype.kind not in "iu":
            raise InputError(f"rows must be a list of whole numbers, not {wanted.dtype} of shape {wanted.shape}")
        if not len(wanted):
            raise InputError("rows is empty; give at least one row")
        low, high = wanted.min(), wanted.max()
        if low < 0 or high >= self._length:
            wrong, last = low if low < 0 else high, self._length - 1
            raise InputError(f"row {wrong} is not in this buffer, which has rows 0 to {last}")
        return wanted.astype(np.int64)
