"""Dask collections: a DataFrame, an Array, or several Arrays by name, computed a partition at a time and in order."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from multireplay.buffer.disk.files import named
from multireplay.buffer.disk.layout import BARE
from multireplay.buffer.disk.table import BATCH_BYTES, Batch, StackedSource, as_arrow
from multireplay.errors import InputError


class PartitionedSource(StackedSource):
    """Partitions in their order, one of which is in memory at a time; each is computed anew whenever it is read."""

    lengths: Sequence[int]

    def _arrange(self, schema: Any) -> None:
        self.sort_out(self.label, schema)
        self.stack(self.lengths)

    @abstractmethod
    def computed(self, names: Sequence[str], number: int) -> Any:
        """Some columns of a partition as an Arrow table."""

    def batches(self, names: Sequence[str], first: int, size: int) -> Generator[Batch, None, None]:
        for index in range(self.index_of(first), len(self.lengths)):
            yield from self._batches(index, names, size)

    def batches_of(self, names: Sequence[str], rows: Any, size: int) -> Generator[Batch, None, None]:
        for index in self.holding(rows):
            yield from self._batches(index, names, size)

    def _batches(self, index: int, names: Sequence[str], size: int) -> Generator[Batch, None, None]:
        if not self.lengths[index]:
            return
        label = self.name_of(index)
        with named(f"{label} is not of the type that those before it are of", pa.ArrowException, TypeError):
            table = self.computed(names, index)
        if table.num_rows != self.lengths[index]:
            raise InputError(
                f"{label} has {table.num_rows} rows, where it had {self.lengths[index]} when it was first computed: it "
                "is not the same every time, and has to be stored (to_parquet) before it is read several times"
            )
        row = 0
        for data in table.to_batches(max_chunksize=size):
            yield Batch(label, row, int(self.starts[index]) + row, data)
            row += data.num_rows

    def name_of(self, index: int) -> str:
        return f"partition {index} (counting from 0) of {self.label}"

    def overhead(self, names: Sequence[str]) -> int:
        """A partition as Dask makes it, and as Arrow has it."""
        return 2 * max(self.lengths) * self.row_bytes(names) + BATCH_BYTES

    def touched(self, names: Sequence[str]) -> tuple[float, str]:
        row, typical = self.row_bytes(names), float(np.square(np.asarray(self.lengths, float)).sum() / self.rows)
        return typical * row, f"a row of {row} bytes comes with all of its partition, of about {typical:.0f} rows"


class FrameSource(PartitionedSource):
    """A Dask DataFrame."""

    label = "the Dask DataFrame"

    def __init__(self, frame: Any, in_time: bool) -> None:
        if not (frame.known_divisions or in_time):
            raise InputError(
                "the order of the partitions of the Dask DataFrame is not known, and the order of its rows matters: "
                "give time=, a column that says it and is checked, or a frame with divisions (as by set_index, or "
                "read_parquet(..., calculate_divisions=True))"
            )
        self._frame = frame
        if len(set(frame.columns)) < len(frame.columns):
            raise InputError(f"{self.label} has two columns of one name: {', '.join(map(str, frame.columns))}")
        self._columns = {str(name): name for name in frame.columns}
        self._chosen: dict[tuple[str, ...], Any] = {}  # some of the columns: to find out what they need takes a while
        self.lengths = [int(rows) for rows in frame[list(frame.columns[:1])].map_partitions(len).compute()]
        filled = next((index for index, rows in enumerate(self.lengths) if rows), 0)
        self._schema = pa.Schema.from_pandas(frame.get_partition(filled).compute(), preserve_index=False)
        self._arrange(self._schema)

    def computed(self, names: Sequence[str], number: int) -> Any:
        schema = pa.schema([self._schema.field(name) for name in names])
        if tuple(names) not in self._chosen:
            self._chosen[tuple(names)] = self._frame[[self._columns[name] for name in names]].optimize()
        part = self._chosen[tuple(names)].get_partition(number).compute()
        return pa.Table.from_pandas(part, schema=schema, preserve_index=False)

    def identity(self, names: Sequence[str]) -> list[object]:
        return [str(self._frame._name), list(self.lengths)]


class ChunkedSource(PartitionedSource):
    """Dask Arrays by name, with rows in the chunks of the first of them."""

    def __init__(self, arrays: Mapping[str, Any]) -> None:
        self.label = "the Dask Array" if list(arrays) == [BARE] else f"the Dask Arrays {', '.join(arrays)}"
        sized = {name: _sized(name, array) for name, array in arrays.items()}
        first, *others = sized
        for name in others:
            if len(sized[name]) != len(sized[first]):
                raise InputError(
                    f"all columns need the same number of rows, but {first} has {len(sized[first])} and {name} has "
                    f"{len(sized[name])}"
                )
        self.lengths = sized[first].chunks[0]
        self._arrays = {
            name: array.rechunk({0: self.lengths, **dict.fromkeys(range(1, array.ndim), -1)})
            for name, array in sized.items()
        }
        self._arrange(pa.schema([(name, _type(name, array)) for name, array in sized.items()]))

    def computed(self, names: Sequence[str], number: int) -> Any:
        return pa.table({name: as_arrow(self._arrays[name].blocks[number].compute()) for name in names})

    def identity(self, names: Sequence[str]) -> list[object]:
        return [[name, str(self._arrays[name].name)] for name in sorted(names)]


def _sized(name: str, array: Any) -> Any:
    """An array whose chunks have known sizes; they are computed once, where they are not."""
    if array.ndim not in (1, 2):
        raise InputError(f"column {name!r} has {array.ndim} dimensions; it needs 1 (numbers) or 2 (rows)")
    if any(np.isnan(size) for sizes in array.chunks for size in sizes):
        array = array.copy().compute_chunk_sizes()
    return array


def _type(name: str, array: Any) -> Any:
    try:
        kind = pa.from_numpy_dtype(array.dtype)
    except pa.ArrowException:
        raise InputError(f"column {name!r} has dtype {array.dtype}; it needs real numbers or booleans") from None
    return kind if array.ndim == 1 else pa.list_(kind, array.shape[1])


def partitioned(given: Any, in_time: bool) -> PartitionedSource | None:
    """The source of what is given, if that is Dask's; `in_time` says that a column is checked for the order."""
    if isinstance(given, Mapping) and given and all(map(_is_array, given.values())):
        return ChunkedSource({str(name): array for name, array in given.items()})
    if _is_array(given):
        return ChunkedSource({BARE: given})
    if not hasattr(given, "__dask_graph__"):
        return None
    if not (hasattr(given, "known_divisions") and hasattr(given, "columns")):
        raise InputError(f"a Dask {type(given).__name__} cannot be opened; give a Dask DataFrame or Array")
    return FrameSource(given, in_time)


def _is_array(given: Any) -> bool:
    return hasattr(given, "__dask_graph__") and hasattr(given, "chunks")
