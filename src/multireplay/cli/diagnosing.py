"""The work of `multireplay diagnose`: the columns of a file that are numbers, in the order of their chains."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from multireplay.buffer.disk import StoredBuffer
from multireplay.buffer.disk.layout import resolve
from multireplay.buffer.disk.memory import bytes_of
from multireplay.cli.data_file import DataFile
from multireplay.cli.options import Missing
from multireplay.cli.prepared import labels_of, not_used, times_of, told_apart
from multireplay.diagnose.record import ChainedColumns
from multireplay.errors import InputError
from multireplay.tables import Kind, Look, chained, look_at
from multireplay.tables.cells import as_lists, as_numbers
from multireplay.tables.recipe import dropped_in_words


class Looked(NamedTuple):
    """Columns to look at (None: all that are numbers), those that say when a row was and of which series it is."""

    columns: tuple[str, ...] | None
    time: str | None
    group: str | None
    missing: Missing


def read(file: DataFile, wanted: Looked) -> tuple[ChainedColumns, dict[str, str]]:
    """The columns in the order of their chains; and columns that are left out, each with the reason."""
    aside, asked = [name for name in (wanted.time, wanted.group) if name is not None], wanted.columns
    names = [name for name in file.names if name not in aside] if asked is None else list(asked)
    for name in (*aside, *names):
        if name not in file.names and name not in file.features:
            file.refuse(name)
    table = file.table(dict.fromkeys([*map(file.column_of, names), *aside]))
    looks = {name: look_at(table.select([file.column_of(name)]))[file.column_of(name)] for name in names}
    time = wanted.time
    left_out: dict[str, str] = {}
    if asked is None:
        time, looks, left_out = told_apart(time, looks, lambda look: _why_not(file, table, look))
    for name, look in looks.items():
        if look.kind is not Kind.number:
            raise InputError(file.source.refused.get(file.column_of(name)) or str(look.refuse()))
    if not looks:
        raise InputError(f"{file.path} has no other columns of numbers; it has {', '.join(file.names)}")
    columns = {name: _numbers(file, table, name) for name in looks}
    usable, dropped = np.ones(table.num_rows, dtype=bool), Counter[str]()
    for name, values in columns.items():
        for what, flags in (("nothing", np.isnan(values)), ("infinity", np.isinf(values))):
            bad = usable & (flags if values.ndim == 1 else flags.any(axis=1))
            usable &= ~bad
            dropped += Counter({f"{what} in {name!r}": int(bad.sum())})
    if dropped and wanted.missing is Missing.error:
        raise InputError(
            f"{file.path}: {(~usable).sum()} of {len(usable)} rows cannot be used, the first at "
            f"{file.source.at(int(np.argmin(usable)))} (counting from 0): {dropped_in_words(dropped)}. "
            "Leave them out with --missing drop, or mend the file"
        )
    times = None if time is None else times_of(file, table, time)
    chains = chained(
        usable, None if wanted.group is None else labels_of(file, table, wanted.group), times, file.source.at
    )
    about = chains.sentences
    if dropped:
        about += (f"Dropped {dropped.total()} rows: {dropped_in_words(dropped)}. A chain ends at each.",)
    taken = {name: values[chains.rows] for name, values in columns.items()}
    return ChainedColumns(taken, None, chains.lengths, about, chains.places), left_out


def left_there(file: DataFile, asked: tuple[str, ...] | None) -> tuple[StoredBuffer, dict[str, str]]:
    """The columns as a record that stays where it is, and those that are left out because they are no numbers."""
    for name in asked or ():
        if name not in file.source.fields:
            file.refuse(name)
    names = list(asked or file.source.fields)
    left_out = {} if asked else dict.fromkeys(file.source.refused, "holds no numbers")
    columns = resolve({name: name for name in names}, file.source)
    return StoredBuffer(file.source, columns, bytes_of(file.memory)), left_out


def _why_not(file: DataFile, table: Any, look: Look) -> str:
    """Why a column that was not asked for is left out."""
    return not_used(file, table, look) or ("holds categories" if look.kind is Kind.category else "")


def _numbers(file: DataFile, table: Any, name: str) -> Any:
    """A column, or one number of every list in it; not a number where there is nothing."""
    column, place = file.features.get(name, (name, None))
    if column not in file.widths:
        return as_numbers(table.column(column), column)
    values = as_lists(table.column(column), column)[0]
    return values if place is None else values[:, place]


def on_left_out(left_out: dict[str, str]) -> list[str]:
    """Sentences on columns that are left out: those that are no numbers together, and the rest one by one."""
    texts = [name for name, why in left_out.items() if why.startswith("holds")]
    said = [f"Left out, because they are not numbers: {', '.join(texts)}."] if texts else []
    return said + [f"Left out: {name!r} {why}." for name, why in left_out.items() if name not in texts]
