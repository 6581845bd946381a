"""Files on disk: their order by name, and noticing that one has changed or gone since it was opened."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from multireplay.errors import InputError


@dataclass(frozen=True)
class Stamp:
    """A file as it was when it was opened."""

    path: Path
    size: int
    modified: int

    @classmethod
    def of(cls, path: Path) -> Stamp:
        try:
            found = os.stat(path)
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror}") from None
        return cls(path, found.st_size, found.st_mtime_ns)

    def check(self, row: int) -> None:
        """Raise if the file is gone or is no longer the one that was opened; `row` is where the reading is."""
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            raise InputError(
                f"{self.path} disappeared while it was being read, at row {row} (counting from 0)"
            ) from None
        except OSError as error:
            raise InputError(f"{self.path} cannot be read at row {row} (counting from 0): {error.strerror}") from None
        if (found.st_size, found.st_mtime_ns) != (self.size, self.modified):
            raise InputError(
                f"{self.path} has changed since it was opened (noticed at row {row}, counting from 0); open it again"
            )


def natural(path: Path) -> list[tuple[bool, int, str]]:
    """Key that sorts names as people count: part-2 before part-10.

    Examples
    --------
    >>> from pathlib import Path
    >>> from multireplay.buffer.disk.files import natural
    >>> [path.name for path in sorted(map(Path, ["part-10", "part-2", "part-1"]), key=natural)]
    ['part-1', 'part-2', 'part-10']
    """
    pieces = re.split(r"(\d+)", path.name)
    return [(piece.isdigit(), int(piece) if piece.isdigit() else 0, piece) for piece in pieces]


def visible(folder: Path) -> list[Path]:
    """What is in a folder, in natural order, without the marks that other programs leave (.x, _SUCCESS)."""
    try:
        found = [path for path in folder.iterdir() if not path.name.startswith((".", "_"))]
    except OSError as error:
        raise InputError(f"{folder} cannot be read: {error.strerror}") from None
    return sorted(found, key=natural)
