"""What a stream can do that has a store: be opened, saved, closed, followed, and told rows by their position."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, TypeVar

from multireplay._check import whole_number
from multireplay.buffer.buffer import Buffer
from multireplay.buffer.disk import StoredBuffer
from multireplay.buffer.disk.memory import bytes_of
from multireplay.buffer.disk.opening import opened
from multireplay.errors import InputError, warn
from multireplay.problems import Problem
from multireplay.streaming.chains import NEXT
from multireplay.streaming.intake import say_taken, uninterrupted
from multireplay.streaming.store.checked import Damaged, alike, load, save
from multireplay.streaming.store.columns import GROUPS, MappedRows
from multireplay.streaming.store.journal import Sync, segment
from multireplay.streaming.store.quarantine import part_of_rows, rows_in
from multireplay.streaming.store.replay import Recovered, check_folder, recovered
from multireplay.streaming.store.store import Settings, StreamStore, begin, remove_orphans

ARGUMENTS = ("forget", "window", "clock", "names")
TRIES = 5
NO_STORE = "this stream has no store: mr.Stream(problem, store=path) has"
Self = TypeVar("Self", bound="Storable")


class Storable:
    """A stream whose rows and state may be kept in a folder."""

    problem: Problem
    _folder: Path | None = None
    _store: StreamStore | None = None
    _reads_only = False
    _set_aside = 0
    """Rows in quarantine, of a reader."""
    _held: int
    _open: Any
    _size: int

    @classmethod
    def open(
        cls: type[Self],
        path: str | os.PathLike[str],
        problem: Problem | None = None,
        *,
        read_only: bool = False,
        repair: bool = False,
        sync: Sync | None = None,
        bad: Literal["refuse", "quarantine"] | None = None,
    ) -> Self:
        """The stream in a folder that ``mr.Stream(..., store=path)`` has made, as it was after the last row taken.

        Parameters
        ----------
        path : str or path
            The folder.
        problem : Problem, optional
            Where it is one of your own, which a file cannot hold.
        read_only : bool
            Any number of readers may open a store, also while it is written: each has what was written by then.
        repair : bool
            Go back to before the first damage, where there is damage; what is damaged is put aside.
        sync, bad : str, optional
            In place of those the store was made with.

        Examples
        --------
        >>> import tempfile
        >>> import multireplay as mr
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with mr.Stream(mr.GLM(), store=f"{folder}/run") as stream:
        ...         _ = stream.observe(features=[[1.0], [2.0]], targets=[2.0, 4.0])
        ...     with mr.Stream.open(f"{folder}/run") as stream:
        ...         _ = stream.observe(features=[[2.0], [3.0]], targets=[4.0, 6.0], position=1)
        ...         stream.position, stream.x.round(6)
        (3, array([2.]))
        """
        folder = Path(path)
        check_folder(folder)
        if read_only:
            reader: Self = _read(cls, folder, problem)
            reader._folder = folder
            return reader
        with begin(folder) as lock:
            made = load(folder / "store.json", {"problem": problem})
            settings = Settings.chosen({"sync": sync, "bad": bad}, made["settings"])
            remove_orphans(folder)
            found = _found(cls, folder, made, repair)
            stream: Self = found.stream
            stream._folder, stream._store = folder, StreamStore(folder, lock, settings, found)
        return stream

    def _attach(self, path: str | os.PathLike[str] | None, arguments: Mapping[str, Any], given: Any) -> None:
        """Keep this stream, which has seen no row, in a folder, or become the one that is there."""
        if path is None:
            for name in (name for name, value in given.items() if value is not None):
                raise InputError(f"{name}= is of a store: give store=path too")
            return
        if not os.fspath(path):
            raise InputError(f"store must be the path of a folder, not {path!r}")
        folder, described = Path(path), {name: arguments[name] for name in ARGUMENTS}
        settings = Settings.chosen(given)
        with begin(folder) as lock:
            if not (folder / "store.json").is_file():
                name = uuid.uuid4().hex
                about = {"problem": self.problem, "arguments": described, "settings": vars(settings)}
                segment(folder, 0).touch()
                save(folder / "store.json", {"store": name, **about})
                self._folder, self._store = folder, StreamStore(folder, lock, settings, Recovered(self, name))
                return
            made = load(folder / "store.json", {"problem": self.problem})
            for name, now in (("problem", self.problem), ("arguments", described)):
                if not alike(made[name], now):
                    other = "another problem" if name == "problem" else "other arguments"
                    raise InputError(f"{folder} was made with {other}: {made[name]!r}, and not {now!r}")
            settings = Settings.chosen(given, made["settings"])
            remove_orphans(folder)
            found = _found(type(self), folder, made)
            vars(self).update(vars(found.stream) | {"_folder": folder})
            self._store = StreamStore(folder, lock, settings, found)

    @property
    def position(self) -> int:
        """How many rows were given to `observe` and taken in."""
        raise NotImplementedError

    @property
    def quarantined(self) -> int:
        """Rows that were put aside because they cannot be used; they count in `position`."""
        return self._set_aside if self._store is None else self._store.quarantine.count

    def save(self) -> None:
        """Write what was learnt to the store now, as `close` does, and as happens by itself as rows come in."""
        self._kept_in().snapshot(self)

    def close(self) -> None:
        """Write what was learnt to the store, and let others write to it. Rows are no longer taken in."""
        if self._store is not None and not self._reads_only:
            with uninterrupted(self):
                self._read_only()
                self._store.close(self)

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def buffer(self, memory: int | str = "512 MB") -> Buffer | StoredBuffer:
        """The rows before `position` that the store still has, of which there are ``keep=`` at least, as a buffer.

        The files of the store are mapped, and checked once: what takes at most half of `memory` is loaded, more is read
        in place, block by block. Steps of a trajectory are made to transitions; groups, and gaps, are chains of
        their own. Readers have it too, while another process writes. ``mr.Buffer.open(path)`` gives the rows as they
        came, without the stream.

        Examples
        --------
        >>> import tempfile
        >>> import multireplay as mr
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with mr.Stream(mr.GLM(), store=f"{folder}/run", keep="all") as stream:
        ...         _ = stream.observe_many(features=[[1.0], [2.0], [4.0]], targets=[2.0, 4.0, 8.0])
        ...     mr.Stream.open(f"{folder}/run", read_only=True).buffer()
        Buffer(3 rows: features (3, 1) float64, targets (3,) float64)
        """
        if self._folder is None:
            raise InputError(NO_STORE)
        if self._store is not None and not self._reads_only:
            self._store.catch_up(self)
        source = MappedRows(self._folder, self.position)
        columns: dict[str, Any] = {name: name for name in source.fields if name not in ("time", GROUPS)}
        for own, following in NEXT.items():
            if own in columns and following in self.problem.required and following not in columns:
                columns[following] = (own, +1)
        return opened(source, columns, bytes_of(memory), groups=GROUPS if GROUPS in source.fields else None)

    def follow(self, rows: Iterable[Mapping[str, Any]], start: int = 0, every: int = 1) -> Iterator[int]:
        """Take in rows, or blocks of rows, from an iterator, and yield the position after every so many of them.

        Those that the stream has taken before are skipped, by their position; `start` is that of the first.

        Examples
        --------
        >>> import multireplay as mr
        >>> stream = mr.Stream(mr.GLM())
        >>> rows = [{"features": [1.0], "targets": 2.0}, {"features": [2.0], "targets": 4.0}]
        >>> list(stream.follow(rows)), list(stream.follow(rows))
        ([1, 2], [2, 2])
        """
        try:
            for number, row in enumerate(rows, start=1):
                if not hasattr(row, "keys"):
                    raise InputError(f"follow takes rows as dictionaries of columns by name, not {row!r}")
                count = self._rows(row)
                self.observe(**{**row, "position": start})
                start += 1 if count is None else count
                if number % every == 0:
                    yield self.position
        except (KeyboardInterrupt, SystemExit) as stop:
            self._stopped(stop)
            raise

    def _kept_in(self) -> StreamStore:
        if self._store is None:
            raise InputError(NO_STORE)
        return self._store

    def _taken(self, given: dict[str, Any]) -> int:
        """Take in rows: those that are new by their position, and by choice but those that cannot be used."""
        self._check_open()
        given = dict(given)
        start = given.pop("position", None)
        if start is not None:
            start = whole_number("position", start, 0)
            count, skip = self._rows(given), self.position - start
            if skip < 0:
                raise InputError(f"the next row is that of position {self.position}, and these begin at {start}")
            if skip >= (1 if count is None else count):
                return 0
            if skip and count is not None:
                given = part_of_rows(given, skip, count)
        store = self._store
        if store is None:
            return self._take(given)
        store.catch_up(self)
        taken = self._take(given) if store.settings.bad == "refuse" else self._sift(given)
        store.tidy(self)
        return taken

    def _rows(self, given: Mapping[str, Any]) -> int | None:
        """How many rows these are: None for one, and for those that are put aside as one, as they cannot be counted."""
        try:
            return rows_in(given, {**self.problem.required, **self.problem.optional})
        except InputError:
            if self._store is None or self._store.settings.bad == "refuse":
                raise
            return None

    def _stopped(self, stop: BaseException) -> None:
        """Say in what ended a call how many rows were taken; the last one may not be in the journal yet."""
        with uninterrupted(self), suppress(Exception):
            if self._store is not None:
                self._store.catch_up(self)
        say_taken(stop, self)

    def _catch_up(self) -> None:
        """Journal the row that was written to the open block last. A full block is added up before a snapshot."""
        if self._store is not None:
            self._store.catch_up(self)
            if self._open.filled < self._size:
                self._store.tidy(self)

    def _gap(self, group: int | None) -> None:
        """Journal a gap, which is about to be made."""
        self._check_open()
        if self._store is not None:
            self._store.catch_up(self)
            self._store.gap(group)

    def _check_open(self) -> None:
        if self._reads_only:
            raise InputError("this stream takes no rows: it was closed, or opened with read_only=True")

    def _read_only(self) -> None:
        self._reads_only = True
        if self._open is not None:
            self._open.trusts = False  # so that every row is looked at, and refused

    def observe(self, **row: Any) -> int:
        raise NotImplementedError

    def _take(self, given: dict[str, Any]) -> int:
        raise NotImplementedError

    def _sift(self, given: dict[str, Any]) -> int:
        """Take in the rows that can be used, and put aside the others; how many there were."""
        try:
            return self._take(given)
        except InputError as error:
            if self._store is None or self._store.broken:
                raise
            count = self._rows(given)
            if count is None or count == 1:
                self._put_aside(given, str(error))
                return 1
            if not count:
                return 0
        half = count // 2
        return self._sift(part_of_rows(given, 0, half)) + self._sift(part_of_rows(given, half, count))

    def _put_aside(self, row: Mapping[str, Any], why: str) -> None:
        with uninterrupted(self):
            self._kept_in().bad(row, why)
            self._held += 1

    @contextmanager
    def _journaled(self, columns: Mapping[str, Any], names: Any) -> Iterator[None]:
        """Rows are in the journal before they are taken in; where that fails, the journal alone is to be believed."""
        if self._store is None:
            yield
            return
        self._store.write(columns, names)
        try:
            yield
        except BaseException as error:
            self._store.broken = f"taking in a row failed with {type(error).__name__}"
            raise


def _found(cls: Any, folder: Path, made: Mapping[str, Any], repair: bool = False) -> Recovered:
    problem, arguments = made["problem"], made["arguments"]
    fresh, resume = lambda: cls(problem, **arguments), lambda state: cls.from_state(problem, state)
    return recovered(folder, made.get("store", ""), fresh, resume, repair)


def _read(cls: Any, folder: Path, problem: Problem | None) -> Any:
    """The stream that readers see; a writer may throw away what they are reading, and they begin again."""
    made = load(folder / "store.json", {"problem": problem})
    for left in reversed(range(TRIES)):
        try:
            found = _found(cls, folder, made)
            if left and found.aside:
                continue
            break
        except (Damaged, FileNotFoundError):
            if not left:
                raise
            time.sleep(0.02)
    for note in found.notes if found.aside else ():
        warn(note)
    found.stream._set_aside = found.quarantined
    found.stream._read_only()
    return found.stream
