"""The work of `multireplay diagnose`: the columns of a file that are numbers, in the order of their chains."""

from __future__ import annotations

from typing import Any, NamedTuple

from multireplay._check import Positions
from multireplay.buffer.disk import StoredBuffer
from multireplay.buffer.disk.layout import Layout, MappedColumn, Part
from multireplay.buffer.disk.memory import bytes_of
from multireplay.cli.data_file import DataFile
from multireplay.cli.designed import Designed
from multireplay.cli.options import Missing
from multireplay.cli.prepared import Tell, in_chains, not_used, on_dropped, the_time, told_apart
from multireplay.cli.surveyed import Survey, parts_of
from multireplay.diagnose import Diagnosis, diagnose
from multireplay.diagnose.record import ChainedColumns
from multireplay.diagnose.stored import diagnose_stored
from multireplay.errors import InputError
from multireplay.spread import as_workers
from multireplay.tables import Kind, Recipe, Term, look_at

MOST = 64
"""Numbers of a list that are examined."""


class Looked(NamedTuple):
    """Columns to look at (None: all that are numbers), those that say when a row was and of which series it is."""

    columns: tuple[str, ...] | None
    time: str | None
    group: str | None
    missing: Missing


class Series(NamedTuple):
    """What is looked at: the numbers that each column has, the time, and columns that are left out, with the reason."""

    terms: dict[str, tuple[Term, ...]]
    time: str | None
    left_out: dict[str, str]

    @property
    def recipe(self) -> Recipe:
        """All numbers side by side."""
        return Recipe(tuple(term for terms in self.terms.values() for term in terms))


def diagnosed(file: DataFile, wanted: Looked, on: Any = None) -> tuple[Diagnosis, dict[str, str]]:
    """How dependent the rows are, in memory or where they stay; and columns that are left out, each with the reason."""
    aside, asked = [name for name in (wanted.time, wanted.group) if name is not None], wanted.columns
    names = [name for name in file.names if name not in aside] if asked is None else list(asked)
    for name in (*aside, *names):
        if name not in file.names and name not in file.features:
            file.refuse(name)
    read = dict.fromkeys([*map(file.column_of, names), *aside, *([] if asked is None or wanted.time else file.datable)])
    if on is not None or not file.fits(read):
        survey = Survey(file, as_workers(on))
        starts = survey.starts(wanted.group, wanted.time)
        series = _series(file, wanted, names, survey.look)
        survey.starts(None, series.time)
        return _there(survey, wanted.missing, series, starts, on), series.left_out
    table = file.table(read)
    series = _series(file, wanted, names, lambda some, few: look_at(table.select(some), few))
    return diagnose(_here(file, table, wanted, series)), series.left_out


def _series(file: DataFile, wanted: Looked, names: list[str], look: Tell) -> Series:
    used, asked = dict.fromkeys(map(file.column_of, names)), wanted.columns is not None
    dates = [name for name in file.datable if name not in {*used, wanted.group}] if asked and not wanted.time else []
    found = look([*used, *dates], ())
    looks, time = {name: found[file.column_of(name)] for name in names}, wanted.time
    left_out: dict[str, str] = {}
    if asked:
        time = the_time(time, {name: found[name] for name in dates})
    else:
        first = next(iter(looks), "")
        time, looks, left_out = told_apart(
            time, looks,
            lambda one: not_used(file, one, first) or ("holds categories" if one.kind is Kind.category else ""),
        )  # fmt: skip
    for name, one in looks.items():
        if one.kind is not Kind.number:
            raise InputError(file.source.refused.get(file.column_of(name)) or str(one.refuse()))
    if not looks:
        raise InputError(f"{file.path} has no other columns of numbers; it has {', '.join(file.names)}")
    terms = {name: tuple(Term(*file.features[one]) for one in file.expand(name)) for name in looks}
    return Series(terms, time, left_out)


def _here(file: DataFile, table: Any, wanted: Looked, series: Series) -> ChainedColumns:
    """The columns in the order of their chains."""
    design = series.recipe.design(table)
    chains = in_chains(file, table, design, (wanted.group, series.time), wanted.missing)
    matrix, at, columns = design.matrix[chains.rows], 0, {}
    for name, terms in series.terms.items():
        columns[name] = matrix[:, at : at + len(terms)] if name in file.widths else matrix[:, at]
        at += len(terms)
    about = (*chains.sentences, *on_dropped(design.reasons))
    return ChainedColumns(columns, None, chains.lengths, about, chains.places)


def _there(survey: Survey, missing: Missing, series: Series, starts: Positions | None, on: Any) -> Diagnosis:
    """The columns where they are."""
    file, memory = survey.file, bytes_of(survey.file.memory)
    designed = Designed(next(parts_of(file)).path, file.dialect, series.recipe)
    checked = survey.check(designed, missing)
    chains = survey.chains(checked.dropped, starts, series.time)
    chains = chains._replace(sentences=(*chains.sentences, *on_dropped(checked.reasons)))
    columns = {
        name: MappedColumn(Layout(tuple(Part(term.names[0]) for term in terms), name not in file.widths))
        for name, terms in series.terms.items()
    }
    stored = StoredBuffer(designed.as_source(memory), columns, memory, None, checked.dropped)
    return diagnose_stored(stored, MOST, on, chains)


def on_left_out(left_out: dict[str, str]) -> list[str]:
    """Sentences on columns that are left out: those that are no numbers together, and the rest one by one."""
    texts = [name for name, why in left_out.items() if why.startswith("holds")]
    said = [f"Left out, because they are not numbers: {', '.join(texts)}."] if texts else []
    return said + [f"Left out: {name!r} {why}." for name, why in left_out.items() if name not in texts]
