"""Whether the rows are in time order."""

from __future__ import annotations

from contextlib import closing

from multireplay.buffer.disk.mapping import Layout
from multireplay.buffer.disk.readahead import read_ahead
from multireplay.buffer.disk.source import Source
from multireplay.buffer.disk.stream import block_rows, stream
from multireplay.errors import InputError


def check_order(source: Source, time: Layout, memory: int) -> None:
    """Read the time column once and raise where it goes back, within a file or from one file to the next."""
    name = time.parts[0].name
    before = None
    rows = block_rows(source, [time], memory, 0)
    with closing(read_ahead(stream(source, [time], 0, source.rows, rows))) as blocks:
        for start, block in blocks:
            times = block[time]
            if before is not None and times[0] < before:
                raise _back(source, name, start, before, times[0])
            back = (times[1:] < times[:-1]).nonzero()[0]
            if len(back):
                raise _back(source, name, start + int(back[0]) + 1, times[back[0]], times[back[0] + 1])
            before = times[-1]


def _back(source: Source, name: str, row: int, before: object, after: object) -> InputError:
    file, inside = source.place(name, row)
    last, at = source.place(name, row - 1)
    where = f"row {at} of the same file" if last == file else f"the last row of {last}"
    return InputError(
        f"the rows are not in time order: {file} has {name} = {after} at row {inside} (counting from 0), "
        f"after {before} in {where}"
    )
