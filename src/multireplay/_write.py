"""Writing files: beside their place, onto the disk, and only then under their name.

A write that fails, for want of room or by Ctrl-C, leaves what was there before, and nothing else. What processes leave
that are killed is hidden, names its writer, and goes with the next write of the same file.
"""

from __future__ import annotations

import os
import re
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, BinaryIO

_LONGEST = 180
"""Bytes of a name that its hidden neighbours repeat: file systems take 255 in all."""
_TOKEN = uuid.uuid4().hex[:8]  # a process that is started anew may have the number of one that was killed


@contextmanager
def completed(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write, which has its name only once it is complete and on the disk; one that fails leaves nothing.

    Several processes may write under one name: each has a file of its own, and the last one to be complete is kept.
    A link stays one: what it leads to is written. What is no file, such as ``/dev/null``, is written straight.
    """
    target = Path(os.path.realpath(path))
    there = os.stat(path) if os.path.exists(path) else None
    with _said_of(path):
        if there is not None and not stat.S_ISREG(there.st_mode):
            with Path(path).open("wb") as file:
                yield file
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        remove_orphans(target)
        partial = beside(target, "partial")
        try:
            with partial.open("xb") as file:
                yield file
                to_disk(file)
            if there is not None:
                partial.chmod(stat.S_IMODE(there.st_mode))
            os.replace(partial, target)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
    sync_folder(target.parent)


def save_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text; folders on the way to it are made."""
    with completed(path) as file:
        file.write(text.encode())


@contextmanager
def _said_of(path: str | os.PathLike[str]) -> Iterator[None]:
    """Errors of the system that do not say which file they are about, with the name of this one."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = os.fspath(path)
        raise


def to_disk(file: IO[bytes] | IO[str]) -> None:
    """See to it that what was written to the file is on the disk."""
    file.flush()
    os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """See to it that the names in a folder are on the disk, where a folder can be synced."""
    with suppress(OSError):
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def beside(path: Path, ending: str) -> Path:
    """A new hidden name in the same folder, hence on the same disk, which says who made it."""
    return path.with_name(f"{_hidden(path)}{os.getpid()}-{_TOKEN}-{uuid.uuid4().hex[:8]}.{ending}")


def leftovers(path: Path, ending: str) -> list[Path]:
    """What processes that are no more left `beside` this path, the oldest first."""
    found = []
    start, shape = _hidden(path), re.compile(rf"(\d+)-([0-9a-f]{{8}})-[0-9a-f]{{8}}\.{ending}")
    with suppress(OSError), os.scandir(path.parent) as entries:
        for entry in entries:
            made = shape.fullmatch(entry.name.removeprefix(start)) if entry.name.startswith(start) else None
            if made is not None and not _is_at_work(int(made[1]), made[2]):
                with suppress(OSError):
                    found.append((entry.stat().st_mtime_ns, Path(entry.path)))
    return [left for _, left in sorted(found)]


def remove_orphans(path: Path) -> None:
    """Remove what processes left that were killed while they wrote this file."""
    for left in leftovers(path, "partial"):
        left.unlink(missing_ok=True)


def _hidden(path: Path) -> str:
    return f".{path.name.encode()[:_LONGEST].decode(errors='ignore')}."


def _is_at_work(process: int, token: str) -> bool:
    if process == os.getpid():
        return token == _TOKEN
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
