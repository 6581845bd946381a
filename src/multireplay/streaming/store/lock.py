"""One writer at a time: a lock of the system's on a file, which is free again when its process is no more."""

from __future__ import annotations

import errno
import json
import os
import time
import weakref
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from multireplay.errors import InputError

try:
    import fcntl
except ImportError:  # pragma: no cover - where there is no flock, there is no writer
    fcntl = None  # type: ignore[assignment]

TRIES = 5
"""`is_locked` has the lock itself, for a moment."""


class Lock:
    """The right to write to a folder, until `release`, or until the process ends in whatever way."""

    def __init__(self, folder: Path) -> None:
        if fcntl is None:  # pragma: no cover
            raise InputError("a store needs a system with flock, to have one writer only")
        place = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        self.process = os.getpid()
        self.release = weakref.finalize(self, _release, place, self.process)
        try:
            _take(place)
            _held.add(self)
            with suppress(OSError):  # who it is is only for messages
                since = f"{datetime.now(UTC):%F %T} UTC"
                os.ftruncate(place, 0)
                os.pwrite(place, json.dumps({"process": self.process, "since": since}).encode(), 0)
        except OSError as error:
            self.release()
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise InputError(f"{folder} cannot be locked, which one writer needs: {error.strerror}") from None
            other = "mr.Stream.open(path, read_only=True) may read it"
            raise InputError(f"{folder} is being written by {writer_of(folder)}; {other}") from None
        except BaseException:
            self.release()
            raise

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Let go where the folder could not be opened: whoever looks at the error has this object for long."""
        if error is not None:
            self.release()

    def check(self) -> None:
        """Raise in a process that was forked from the one that writes."""
        if os.getpid() != self.process:
            raise InputError(
                f"this stream is written by process {self.process}, of which this one is a copy: it may only be read"
            )


_held: weakref.WeakSet[Lock] = weakref.WeakSet()


def _leave_to_parent() -> None:
    """A forked child has the parent's file: while it lived the folder would be locked, though the parent is no more."""
    for lock in list(_held):
        lock.release()


if fcntl is not None:
    os.register_at_fork(after_in_child=_leave_to_parent)


def _take(place: int) -> None:
    for left in reversed(range(TRIES)):
        try:
            return fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if not left:
                raise
            time.sleep(0.01)


def _release(place: int, process: int) -> None:
    """Let go: the lock is on the file, which copies of this process may have open too, and is the process's own."""
    with suppress(OSError):
        if os.getpid() == process:
            fcntl.flock(place, fcntl.LOCK_UN)
    os.close(place)


def writer_of(folder: Path) -> str:
    """Who had the lock last, in words."""
    try:
        noted = json.loads((folder / "lock").read_bytes())
        return f"process {int(noted['process'])} since {noted['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


def is_locked(folder: Path) -> bool:
    """Whether somebody writes to a folder now."""
    if fcntl is None or not (folder / "lock").exists():  # pragma: no cover
        return False
    place = os.open(folder / "lock", os.O_RDONLY)
    try:
        fcntl.flock(place, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(place)
    return False
