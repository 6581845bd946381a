"""From stored columns to the columns that are asked for: straight into place where possible, else by way of a copy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from multireplay.buffer.disk.mapping import Layout
from multireplay.buffer.disk.pool import pages
from multireplay.buffer.disk.source import Array, Reader, Rows, Source


@dataclass(frozen=True)
class _Use:
    layout: Layout
    start: int
    stop: int
    pick: tuple[int, ...] | None
    single: bool


class Assembly:
    """How the stored columns of a source fill some layouts."""

    def __init__(self, source: Source, layouts: Sequence[Layout]) -> None:
        self._source = source
        self.fields = {layout: layout.field(source) for layout in layouts}
        self._uses: dict[str, list[_Use]] = {}
        for layout in self.fields:
            start = 0
            for part in layout.parts:
                field = source.field(part.name)
                stop = start + Layout.width_of(part, field)
                use = _Use(layout, start, stop, part.pick, field.width is None)
                self._uses.setdefault(part.name, []).append(use)
                start = stop
        self.names = tuple(self._uses)
        self._copied = [name for name, uses in self._uses.items() if len(uses) > 1 or uses[0].pick is not None]
        self._scratch: dict[str, Array] = {}

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of the layouts."""
        return sum(field.row_bytes for field in self.fields.values())

    @property
    def scratch_bytes(self) -> int:
        """Bytes of a row of the copies."""
        return sum(self._source.field(name).row_bytes for name in self._copied)

    def read(self, reader: Reader, filled: Mapping[Layout, Array]) -> None:
        """Fill the arrays, all of one length, with the reader's next rows."""
        count = len(next(iter(filled.values())))
        targets = {
            name: self._copy(name, count) if name in self._copied else _strip(filled, uses[0])
            for name, uses in self._uses.items()
        }
        reader.read(targets)
        self._spread({name: targets[name] for name in self._copied}, filled)

    def take(self, rows: Rows) -> dict[Layout, Array]:
        """These rows, which are ascending and distinct."""
        stored = self._source.take(self.names, rows)
        filled = {}
        for layout, field in self.fields.items():
            alone = layout.parts[0].name
            whole = len(layout.parts) == 1 and alone not in self._copied and field == self._source.field(alone)
            filled[layout] = stored.pop(alone) if whole else pages(field, len(rows))
        self._spread(stored, filled)
        return filled

    def _spread(self, stored: Mapping[str, Array], filled: Mapping[Layout, Array]) -> None:
        for name, values in stored.items():
            for use in self._uses[name]:
                strip = _strip(filled, use)
                if use.pick is None:
                    strip[...] = values
                elif strip.ndim == 1:
                    strip[...] = values[:, use.pick[0]]
                elif use.pick == tuple(range(use.pick[0], use.pick[-1] + 1)):
                    strip[...] = values[:, use.pick[0] : use.pick[-1] + 1]
                else:  # one feature after the other: a fancy index would make another copy
                    for place, feature in enumerate(use.pick):
                        strip[:, place] = values[:, feature]

    def _copy(self, name: str, count: int) -> Array:
        if name not in self._scratch or len(self._scratch[name]) < count:
            field = self._source.field(name)
            self._scratch[name] = np.empty(field.shape(count), field.dtype)
        return self._scratch[name][:count]

    def stored_place(self, layout: Layout, feature: int) -> str:
        """The stored column that a feature of the layout comes from."""
        for name, uses in self._uses.items():
            for use in uses:
                if use.layout == layout and use.start <= feature < use.stop:
                    return name
        raise IndexError(feature)


def _strip(filled: Mapping[Layout, Array], use: _Use) -> Array:
    """The part of the layout's array that a stored column fills, with as many dimensions as that column has."""
    array = filled[use.layout]
    if array.ndim == 1:
        return array
    return array[:, use.start] if use.single else array[:, use.start : use.stop]
