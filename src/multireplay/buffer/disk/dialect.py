"""How a text table is written: separator, encoding, decimal sign and what stands for nothing, found from its head."""

from __future__ import annotations

import csv
import re
import reprlib
from dataclasses import dataclass, replace
from io import StringIO
from typing import Any

import pyarrow as pa
import pyarrow.csv

from multireplay.buffer.disk.files import named
from multireplay.buffer.disk.remote import AnyPath, in_stream
from multireplay.buffer.disk.tidy import NOTHING, TEXT, tidied, with_codes
from multireplay.errors import InputError

SEPARATORS = (",", ";", "\t", "|")
HEAD = 2**16
"""Bytes that are looked at."""
LINES = 50
WITH_COMMA = re.compile(r"\s*[-+]?\d+,\d+([eE][-+]?\d+)?\s*")
WITH_POINT = re.compile(r"\s*[-+]?\d*\.\d+([eE][-+]?\d+)?\s*")
"""What tells the decimal sign."""
_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
"""What a file in that encoding begins with."""


@dataclass(frozen=True)
class Dialect:
    """How the cells of a text table are told apart and read; None is found out from the file.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "log.csv")
    ...     _ = file.write_text("heat;load\\n1,5;2,25\\n")
    ...     Dialect().of(file)
    Dialect(separator=';', encoding='utf8', decimal=',', missing=(), above=0)
    """

    separator: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    missing: tuple[str, ...] = ()
    """Texts that stand for nothing, besides the empty cell, NA, n/a, null, NaN and their like."""
    above: int = 0
    """Lines before the names: comments, and the separator as Excel notes it."""

    def of(self, path: AnyPath) -> Dialect:
        """The dialect of a file, with what is given left as it is."""
        with named(f"{path} cannot be read"), in_stream(path) as stream:
            head = stream.read(HEAD)
        encoding = self.encoding or _MARKS.get(head[:2]) or _tried(head)
        text = head.decode(encoding, errors="replace").removeprefix("\ufeff")
        lines = text.splitlines()[: LINES + 1]
        whole = lines[:-1] if len(head) == HEAD and len(lines) > 1 else lines
        above, noted = _above(whole)
        separator = self.separator or noted or _separator(whole[above:])
        above = _names_at(whole, above, separator)
        decimal = self.decimal or _decimal(whole[above:], separator)
        if decimal == separator:
            raise InputError(f"{path}: the separator and the decimal sign cannot both be {decimal!r}")
        return replace(self, separator=separator, encoding=encoding, decimal=decimal, above=above)

    def read(self, path: AnyPath) -> Any:
        """The table of a file, read as a whole, by one thread so that errors know the row."""
        found = self.of(path)
        if self.encoding is not None:
            try:
                return found._read(path)
            except UnicodeError as error:
                raise InputError(f"{path} is not written in {self.encoding}: {error}; leave --encoding out") from None
        for encoding in (found.encoding, "cp1252"):
            try:
                table = replace(found, encoding=encoding)._read(path)
            except UnicodeError:  # a letter far down
                continue
            if not any(pa.types.is_binary(column.type) for column in table.schema):  # of another encoding
                return table
        return replace(found, encoding="latin-1")._read(path)

    def _read(self, path: AnyPath) -> Any:
        null = [*pyarrow.csv.ConvertOptions().null_values, *NOTHING, *self.missing]
        wrong: list[Any] = []

        def other(row: Any) -> str:
            if not row.text.strip():
                return "skip"
            wrong.append(row)
            return "error"

        def read(**chosen: Any) -> Any:
            return pyarrow.csv.read_csv(
                self._even(path) if self.separator == " " else in_stream(path),
                pyarrow.csv.ReadOptions(use_threads=False, encoding=self.encoding, skip_rows=self.above),
                pyarrow.csv.ParseOptions(delimiter=self.separator, invalid_row_handler=other),
                pyarrow.csv.ConvertOptions(decimal_point=self.decimal, null_values=null, **chosen),
            )

        try:
            table = read()
        except pa.ArrowInvalid as error:
            if not wrong:
                raise InputError(f"{path} cannot be read as CSV: there are no names with rows below them") from None
            row, number = wrong[0], str(error).partition("Row #")[2].partition(":")[0]
            raise InputError(
                f"{path} cannot be read as CSV: it has {row.expected_columns} names of columns, but "
                f"{row.actual_columns} cells in the line {reprlib.repr(row.text)} (number {number} with the names); "
                "put the names first, and remove titles, totals and remarks"
            ) from None
        if self._has_codes(path):
            table = with_codes(table, lambda some: read(include_columns=some, column_types=dict.fromkeys(some, TEXT)))
        return tidied(table, self.decimal or ".", null)

    def _has_codes(self, path: AnyPath) -> bool:
        """Whether a cell is a whole number with a zero before it, as 02139: a name, not an amount."""
        assert self.encoding
        assert self.separator
        with in_stream(path) as stream:
            found: bytes = stream.read()
        if self.encoding.startswith("utf-16"):
            found = found.decode(self.encoding, errors="replace").encode()
        edge = rb'[\n\r"' + re.escape(self.separator).encode() + b"]"
        return re.search(edge + rb"[ \t]*0\d+[ \t]*" + edge, found + b"\n") is not None

    def _even(self, path: AnyPath) -> Any:
        """The file with one space wherever it has several."""
        assert self.encoding
        with in_stream(path) as stream:
            text = stream.read().decode(self.encoding)
        lines = (" ".join(line.split()) for line in text.removeprefix("\ufeff").splitlines())
        return pa.BufferReader("\n".join(lines).encode(self.encoding))


def _above(lines: list[str]) -> tuple[int, str | None]:
    """How many lines at the top are comments, and the separator if one of them says it."""
    count, noted = 0, None
    for line in lines:
        said = re.fullmatch(r"sep=(.)\s*", line)
        if line.strip() and not line.startswith("#") and not said:
            return count, noted
        count, noted = count + 1, said[1] if said else noted
    return 0, noted


def _names_at(lines: list[str], above: int, separator: str) -> int:
    """The line of the names: the last comment if it has as many cells as the lines below, as NumPy writes it."""
    if above and lines[above - 1].startswith("#"):
        cells = [len(row) for row in csv.reader(StringIO("\n".join(lines[above - 1 : above + 1])), delimiter=separator)]
        return above - 1 if cells[0] == cells[1] > 1 else above
    return above


def _separator(lines: list[str]) -> str:
    """The one that parts the lines most evenly; runs of spaces if no other does."""
    best = max(SEPARATORS, key=lambda one: _evenness(lines, one))
    counts = {len(line.split()) for line in lines if line.strip()}
    spaces = not _evenness(lines, best)[0] and len(counts) == 1 and counts != {1}
    return " " if spaces else best


def _tried(head: bytes) -> str:
    for start, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
        if 4 * head[start::2].count(0) > len(head):  # every other byte of plain letters is 0
            return encoding
    try:
        head[: max(len(head) - 3, 0)].decode("utf8")  # a letter may be cut at the end
    except UnicodeDecodeError as error:
        return "utf8" if error.end >= len(head) - 6 else "cp1252"
    return "utf8"


def _evenness(lines: list[str], separator: str) -> tuple[float, int]:
    """How many lines have as many cells as the first, as a share, and how many cells that is."""
    counts = [len(cells) for cells in csv.reader(StringIO("\n".join(lines)), delimiter=separator)]
    first = counts[0] if counts else 1
    return (sum(count == first for count in counts) / len(counts), first) if first > 1 else (0.0, first)


def _decimal(lines: list[str], separator: str) -> str:
    """A comma where cells have one between digits, and none has a point."""
    cells = [cell for row in csv.reader(StringIO("\n".join(lines[1:])), delimiter=separator) for cell in row]
    comma, point = (any(pattern.fullmatch(cell) for cell in cells) for pattern in (WITH_COMMA, WITH_POINT))
    return "," if separator != "," and comma and not point else "."
