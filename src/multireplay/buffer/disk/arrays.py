"""A source of separate arrays: a folder of .npy files, one .npy file, or the members of a .npz archive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from multireplay.buffer.disk.npy import PAGE, ArrayFile
from multireplay.buffer.disk.source import Array, Reader, Rows, Source
from multireplay.errors import InputError


class ArraySource(Source):
    """Arrays by name, all with the same number of rows."""

    def __init__(self, label: str, files: Mapping[str, ArrayFile]) -> None:
        self.label = label
        self._files = dict(files)
        self.fields, self.times, self.refused = {}, {}, {}
        for name, file in files.items():
            if (reason := file.header.refusal(file.label)) is not None:
                self.refused[name] = reason
            elif file.header.dtype.kind in "mM":
                self.refused[name] = f"{file.label} holds dates ({file.header.dtype}), which are not real numbers"
                self.times[name] = file.field
            else:
                self.fields[name] = file.field
        if not self.fields:
            raise InputError(next(iter(self.refused.values()), f"{label} holds no arrays of numbers"))
        self.rows = self._common_length({name: files[name] for name in (*self.fields, *self.times)})

    def _common_length(self, files: Mapping[str, ArrayFile]) -> int:
        (first, file), *others = files.items()
        for name, other in others:
            if other.rows != file.rows:
                raise InputError(
                    f"all columns need the same number of rows, but in {self.label} {first} has {file.rows} "
                    f"and {name} has {other.rows}"
                )
        return file.rows

    def reader(self, names: Sequence[str], first: int) -> Reader:
        return _ArrayReader({name: self._files[name] for name in names}, first)

    def take(self, names: Sequence[str], rows: Rows) -> dict[str, Array]:
        return {name: self._files[name].take(rows) for name in names}

    def place(self, name: str, row: int) -> tuple[str, int]:
        return self._files[name].label, row

    def overhead(self, names: Sequence[str]) -> int:
        return sum(self._files[name].overhead for name in names)

    def touched(self, names: Sequence[str]) -> tuple[float, str]:
        files = [self._files[name] for name in names]
        row = sum(file.header.row_bytes for file in files)
        reason = (
            f"a row of {row} bytes in {len(files)} {'array' if len(files) == 1 else 'arrays'} "
            f"comes with the pages of {PAGE} bytes around it"
        )
        if any(file.touched == file.header.size for file in files):
            reason = "rows of a compressed archive can only be had by reading it from the start"
        return sum(file.touched for file in files), reason


class _ArrayReader(Reader):
    def __init__(self, files: Mapping[str, ArrayFile], first: int) -> None:
        self._cursors = {}
        try:
            for name, file in files.items():
                self._cursors[name] = file.cursor(first)
        except BaseException:
            self.close()
            raise

    def read(self, targets: Mapping[str, Array]) -> None:
        for name, target in targets.items():
            self._cursors[name].read(target)

    def close(self) -> None:
        for cursor in self._cursors.values():
            cursor.close()
