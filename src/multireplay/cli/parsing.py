"""Lines as rows by column, for `multireplay watch`: JSON objects, or a table in CSV that grows."""

from __future__ import annotations

import codecs
import csv
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow.csv

from multireplay.buffer.disk.dialect import SEPARATORS, WITH_COMMA, WITH_POINT
from multireplay.buffer.disk.tidy import NOTHING
from multireplay.cli.app import note
from multireplay.cli.watched import Watched
from multireplay.errors import InputError

EMPTY = {*pyarrow.csv.ConvertOptions().null_values, *NOTHING}
"""What stands for nothing in a cell of a text table."""
Lines = Iterator[list[tuple[bytes, Any]]]
"""Every line with its row by column, or with the error that says why it is none, some at a time."""


@dataclass
class RunningTable:
    """A table in CSV that grows: its names, what stands between cells, and in numbers, as soon as a cell tells."""

    names: list[str]
    separator: str
    decimal: str = ""

    def row(self, text: bytes) -> Any:
        """The cells of a line by name, with a point in numbers; or the error that says why it is none."""
        cells = next(csv.reader([text.decode()], delimiter=self.separator))
        if len(cells) != len(self.names):
            return InputError(f"there are {len(cells)} cells, and {len(self.names)} columns")
        if self.separator != "," and self.decimal != ".":
            commas, points = ([one for one in cells if sign.fullmatch(one)] for sign in (WITH_COMMA, WITH_POINT))
            if self.decimal and points:
                return InputError(f"there is {points[0].strip()} with a point, where numbers have a decimal comma")
            if commas and not points:
                if not self.decimal:
                    note(f"Numbers have a decimal comma, as {commas[0].strip()}.", "green")
                cells = [one.replace(",", ".") if one in commas else one for one in cells]
            self.decimal = "." if points else "," if commas else self.decimal
        return {name: None if cell.strip() in EMPTY else cell for name, cell in zip(self.names, cells, strict=True)}


def parsed(chunks: Iterable[list[bytes]], wanted: Watched) -> Lines:
    """Every line with its row, or with the error that says why it is none; a table in CSV begins with its names."""
    table: RunningTable | None = None
    first = True
    for lines in chunks:
        found: list[tuple[bytes, Any]] = []
        for line in lines:
            text = (line.removeprefix(codecs.BOM_UTF8) if first else line).strip(b" \r\n")
            if not text.strip():
                continue
            if first and not text.startswith((b"{", b"[")):
                table = _header(text, wanted)
            else:
                found.append((text, _parsed(text, table)))
            first = False
        yield found


def _header(text: bytes, wanted: Watched) -> RunningTable:
    """A table by its first line: the names."""
    line = text.decode("utf-8", "replace")
    separator = max(SEPARATORS, key=line.count)
    names = [name.strip() for name in next(csv.reader([line], delimiter=separator))]
    for name in wanted.named():
        if name not in names:
            raise InputError(
                f"the first line is {line[:80]!r}: neither a JSON object nor a header with a column {name!r}"
            )
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"the first line names the column {name!r} {names.count(name)} times: which is meant?")
    return RunningTable(names, separator)


def _parsed(text: bytes, table: RunningTable | None) -> Any:
    try:
        if table is None:
            row = json.loads(text)
            return row if isinstance(row, dict) else InputError("a row is a JSON object, with the columns by name")
        return table.row(text)
    except (UnicodeDecodeError, RecursionError, csv.Error) as error:
        return InputError(str(error))
    except ValueError as error:
        return InputError(f"it is not JSON: {error}")
