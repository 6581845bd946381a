"""A record that stays where it is, made ready for a fit: workers look at its columns and at every row, part by part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from operator import add
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from multireplay._check import Positions
from multireplay.buffer.disk.chained import A_ROW, group_starts
from multireplay.buffer.disk.memory import bytes_of, in_words
from multireplay.buffer.disk.stored import NOTHING, StoredBuffer
from multireplay.buffer.fingerprint import Fingerprint
from multireplay.cli.data_file import DataFile
from multireplay.cli.designed import Designed
from multireplay.cli.options import Missing, ModelKind
from multireplay.cli.prepared import FEWEST, Plan, Wanted, needed, not_usable, on_dropped, planned, times_of, too_few
from multireplay.cli.targets import TargetFacts, alike, check_spans, check_target
from multireplay.errors import InputError
from multireplay.show.progress import bar
from multireplay.spread import Workers
from multireplay.tables import Contents, Design, Look, StandingChains, chained_there

LEAST, MOST_PARTS = 2**20, 2**13
"""Rows of a part at least, and parts that there are at most: they depend on the record alone."""


class FilePart(NamedTuple):
    """A file, how it is read, and from which row to which."""

    path: Any
    memory: str | int
    dialect: Any
    mark: str
    """By which the file is known again."""
    first: int
    last: int

    def opened(self) -> DataFile:
        """The file, opened here."""
        return _opened(self._replace(first=0, last=0))

    def batches(self, names: Any, size: int | None = None) -> Iterator[tuple[int, Any]]:
        """The rows of these columns, with the number of the first of each batch."""
        return self.opened().batches(list(names), self.first, self.last, size)


@lru_cache(maxsize=2)
def _opened(where: FilePart) -> DataFile:
    file = DataFile.open(where.path, where.memory, where.dialect)
    if _mark(file) != where.mark:
        raise InputError(f"{where.path} has changed since the run began: a file of it was written, added or removed")
    return file


def _mark(file: DataFile) -> str:
    found = Fingerprint()
    found.add_facts(file.source.identity(list(file.source.fields)))
    return found.text()


def parts_of(file: DataFile) -> Iterator[FilePart]:
    """The parts of a file, one after the other."""
    rows, path = file.source.rows, file.path
    size = max(LEAST, -(-rows // MOST_PARTS))
    path, mark = path.absolute() if isinstance(path, Path) else path, _mark(file)
    for first in range(0, rows, size):
        yield FilePart(path, file.memory, file.dialect, mark, first, min(first + size, rows))


@dataclass(frozen=True)
class Looking:
    """A task: what some columns hold."""

    where: FilePart
    names: tuple[str, ...]
    categorical: tuple[str, ...]

    def __call__(self) -> dict[str, Contents]:
        found: dict[str, Contents] = {}
        for first, batch in self.where.batches(self.names):
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                here = Contents.of(column, name in self.categorical, first)
                found[name] = found[name] + here if name in found else here
        return found


class Checked(NamedTuple):
    """What was found in some rows: those that cannot be used, by why, and the target of the others."""

    dropped: Positions
    reasons: Counter[str]
    target: TargetFacts = TargetFacts()


@dataclass(frozen=True)
class Checking:
    """A task: which rows can be used, and what their target is."""

    where: FilePart
    designed: Designed

    def __call__(self) -> Checked:
        batches = self.where.batches(self.designed.columns, self.designed.at_once)
        return joined([self._checked(first, batch) for first, batch in batches])

    def _checked(self, first: int, batch: Any) -> Checked:
        response = self.designed.response
        try:
            design: Design = self.designed.recipe.design(batch)
            values = None if response is None else response.read(batch, design)
            spans = None if response is None or response.exposure is None else response.spans(batch, design)
        except InputError as error:
            raise InputError(f"{self.where.path}, rows from {first} on: {error}") from None
        dropped, rows = first + np.flatnonzero(~design.usable), first + np.flatnonzero(design.usable)
        if response is None or values is None:
            return Checked(dropped, design.reasons)
        target = TargetFacts.of(response.kind, values[design.usable], rows)
        if spans is not None:
            spans = spans[design.usable]
            check_spans(self.where.path, response.exposure, spans, rows)
            target = replace(target, spans=float(spans.sum()))
        return Checked(dropped, design.reasons, target)


def joined(found: list[Checked]) -> Checked:
    """What was found in all parts."""
    return Checked(
        np.concatenate([part.dropped for part in found]),
        sum((part.reasons for part in found), Counter()),
        reduce(add, (part.target for part in found)),
    )


class Standing(NamedTuple):
    """A record that is ready for a fit, and stays where it is."""

    stored: StoredBuffer
    designed: Designed
    chains: StandingChains
    plan: Plan
    dropped: Counter[str]
    target: TargetFacts
    doubts: list[str]
    """On the target."""

    def sentences(self, more: list[str]) -> list[str]:
        """What a person should know about the rows, and more on the target."""
        doubts = [*self.doubts, *more, *alike(self.plan.recipe)]
        return [*self.chains.sentences, *doubts, *on_dropped(self.dropped)]


class Survey:
    """Looks at a file where it is, part by part."""

    def __init__(self, file: DataFile, workers: Workers) -> None:
        self.file, self.workers = file, workers

    def done(self, what: str, task: Callable[[FilePart], Any]) -> list[Any]:
        """What the task gives for every part."""
        found, parts = [], list(parts_of(self.file))
        with bar("rows", transient=True) as progress:
            shown = progress.add_task(what, total=self.file.source.rows)
            for part, result in zip(parts, self.workers.map(map(task, parts)), strict=True):
                found.append(result)
                progress.advance(shown, part.last - part.first)
        return found

    def look(self, names: list[str], categorical: tuple[str, ...]) -> dict[str, Look]:
        """What columns hold."""
        for name in names:
            if name not in self.file.names:
                self.file.refuse(name)
        found = self.done("looking", lambda part: Looking(part, tuple(names), categorical)) if names else []
        whole = {name: reduce(add, (part[name] for part in found)) for name in names}
        return {name: contents.look(name, name in categorical) for name, contents in whole.items()}

    def check(self, designed: Designed, missing: Missing) -> Checked:
        """Which rows can be used; an error if all have to be."""
        found = joined(self.done("checking", lambda part: Checking(part, designed)))
        if found.reasons and missing is Missing.error:
            raise not_usable(self.file, len(found.dropped), int(found.dropped[0]), found.reasons)
        return found

    def starts(self, group: str | None, time: str | None) -> Positions | None:
        """FilePart groups begin, which have to lie one after the other; what takes too much memory is refused too."""
        file, budget = self.file, bytes_of(self.file.memory)
        if time is not None and A_ROW * file.source.rows > budget:
            raise InputError(
                f"{file.path}: the gaps in the time {time!r} take --memory '{in_words(A_ROW * file.source.rows)}' to "
                "find; give that"
            )
        starts = None if group is None else group_starts(file.source, group, budget)
        if group is not None and starts is None:
            raise InputError(
                f"{file.path}: the groups of {group!r} take turns, and rows are brought together in memory alone: "
                "sort the file by group, or leave --on and --workers out and give more --memory"
            )
        return starts

    def chains(self, dropped: Positions, starts: Positions | None, time: str | None) -> StandingChains:
        """The chains of the rows."""
        file = self.file
        times = None if time is None else times_of(file, file.table([time]), time)
        return chained_there(file.source.rows, dropped, starts, times, file.source.at)


def prepare_there(file: DataFile, wanted: Wanted, workers: Workers) -> Standing:
    """As `prepare`, of a record that stays where it is: its columns are looked at, then all of its rows."""
    survey, names = Survey(file, workers), needed(file, wanted)
    starts = survey.starts(wanted.group, wanted.time)
    plan = planned(file, wanted, survey.look, _first_row(file, names))
    survey.starts(None, plan.time)
    path = next(parts_of(file)).path
    found = survey.check(Designed(path, file.dialect, plan.recipe, plan.response), wanted.missing)
    chains = survey.chains(found.dropped, starts, plan.time)
    if sum(chains.lengths) < FEWEST:
        raise too_few(file, sum(chains.lengths), found.reasons)
    doubts = check_target(file, wanted, found.target)
    response = plan.response
    if wanted.kind is ModelKind.logistic:
        response = replace(response, classes=tuple(np.unique(list(found.target.classes)).tolist()))
    if response.exposure is not None:
        response = replace(response, weights=(found.target.rows / found.target.spans,))
    designed = Designed(path, file.dialect, plan.recipe, response)
    return Standing(
        stored_as(designed, bytes_of(file.memory), found.dropped), designed, chains, plan, found.reasons, found.target,
        doubts,
    )  # fmt: skip


def stored_as(designed: Designed, memory: int, left_out: Positions = NOTHING) -> StoredBuffer:
    """The record of a fit, without some rows."""
    return StoredBuffer(designed.as_source(memory), designed.layouts(), memory, designed.recipe.names, left_out)


def _first_row(file: DataFile, names: list[str]) -> Any:
    """The first row of a file as a table."""
    return pa.Table.from_batches([next(iter(file.batches(names, 0, 1)))[1]])
