"""What a page is made of: sections, each a list of blocks. A block holds values; the template turns them into HTML."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from multireplay.errors import InputError
from multireplay.report.wording import short
from multireplay.show.text import TextTable, is_blank, names_of, number_in

MOST_ROWS = 1000
"""Rows of a table beyond this many are left out of the page, which says so."""


class Block:
    """One thing on the page; `kind` names its macro in the template."""

    kind: ClassVar[str]


@dataclass(frozen=True)
class Text(Block):
    """A paragraph. The tone is for a lead, a plain text, a remark, good news, or something to beware of.

    Examples
    --------
    >>> Text("The run finished.", tone="good").kind
    'text'
    """

    text: str
    tone: Literal["lead", "plain", "remark", "good", "beware"] = "plain"
    kind: ClassVar[str] = "text"


@dataclass(frozen=True)
class Heading(Block):
    """A heading within a section."""

    text: str
    kind: ClassVar[str] = "heading"


@dataclass(frozen=True)
class Fact(Block):
    """One number worth a box of its own, with what it is and a remark."""

    label: str
    value: str
    remark: str = ""
    kind: ClassVar[str] = "fact"


@dataclass(frozen=True)
class Facts(Block):
    """A row of numbers worth a box each."""

    facts: Sequence[Fact]
    kind: ClassVar[str] = "facts"


@dataclass(frozen=True)
class FindingBlock(Block):
    """A finding in a list: what it is about, a verdict in a few words, and what stands behind it."""

    title: str
    verdict: str = ""
    text: str = ""
    kind: ClassVar[str] = "entry"


@dataclass(frozen=True)
class Cell:
    """A cell of a table: the text that is shown, and the number behind it, by which the column is sorted."""

    text: str
    number: float | None = None

    @property
    def exact(self) -> str:
        """The number in full, such that ``float`` gives it back."""
        return "" if self.number is None else repr(float(self.number))


@dataclass(frozen=True)
class TableBlock(Block):
    """Rows of named values: numbers, which are shown in four digits, or texts. Rows after the first `shown` are folded.

    Examples
    --------
    >>> table = TableBlock([{"method": "serial", "error": 0.123456}], caption="Errors")
    >>> table.names, [cell.text for cell in table.cells[0]]
    (['method', 'error'], ['serial', '0.1235'])
    """

    rows: Sequence[Mapping[str, Any]]
    caption: str = ""
    shown: int | None = None
    kind: ClassVar[str] = "table"
    names: list[str] = field(init=False)
    cells: list[list[Cell]] = field(init=False)
    numeric: list[bool] = field(init=False)

    def __post_init__(self) -> None:
        names = names_of(self.rows)
        cells = [[as_cell(row.get(name, "")) for name in names] for row in self.rows[:MOST_ROWS]]
        numeric = [all(row[i].number is not None or is_blank(row[i].text) for row in cells) for i in range(len(names))]
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "cells", cells)
        object.__setattr__(self, "numeric", numeric)

    @property
    def folded(self) -> int:
        """Rows that are not shown at first."""
        return max(0, len(self.cells) - self.shown) if self.shown is not None else 0

    @property
    def left_out(self) -> int:
        """Rows that are not on the page."""
        return len(self.rows) - len(self.cells)

    @classmethod
    def of(cls, table: TextTable | TableBlock | Sequence[Mapping[str, Any]], caption: str = "") -> TableBlock:
        """From a table that prints as text, or from rows; numbers in its texts are still sorted as numbers."""
        if isinstance(table, TableBlock):
            return table
        rows = table.rows if isinstance(table, TextTable) else table
        title = table.title or "" if isinstance(table, TextTable) else ""
        return cls(rows, caption=caption or title)


def as_cell(value: Any) -> Cell:
    """A value as it is shown, with the number it stands for."""
    if isinstance(value, bool | np.bool_):
        return Cell("yes" if value else "no")
    if isinstance(value, int | float | np.integer | np.floating):
        return Cell(short(float(value)), float(value))
    text = "" if value is None else str(value)
    number = number_in(text)
    return Cell(text, None if number is None or math.isnan(number) else number)


@dataclass(frozen=True)
class Plot(Block):
    """An interactive plot: a Plotly figure, with a title above and a sentence on what it shows below."""

    figure: Any
    title: str
    caption: str = ""
    height: int = 380
    kind: ClassVar[str] = "plot"


@dataclass(frozen=True)
class Picture(Block):
    """A picture from a PNG, JPEG or SVG file, or from the bytes of a PNG; it becomes part of the page."""

    source: str | Path | bytes
    caption: str
    kind: ClassVar[str] = "picture"

    @property
    def data_uri(self) -> str:
        """The picture as text, for the page's img element."""
        if isinstance(self.source, bytes):
            return _data_uri("image/png", self.source)
        path = Path(self.source)
        types = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".svg": "image/svg+xml"}
        if path.suffix.lower() not in types:
            raise InputError(f"a picture must be a file ending in {', '.join(types)}, not {path.name!r}")
        if not path.is_file():
            raise InputError(f"there is no picture {path}")
        return _data_uri(types[path.suffix.lower()], path.read_bytes())


def _data_uri(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode('ascii')}"


@dataclass(frozen=True)
class Code(Block):
    """Text to copy, such as a program or a command."""

    text: str
    caption: str = ""
    kind: ClassVar[str] = "code"


@dataclass(frozen=True)
class Section:
    """One tab of the page.

    Examples
    --------
    >>> Section("What it cost", [Text("Nothing.")]).slug
    'what-it-cost'
    """

    title: str
    blocks: Sequence[Block]

    @property
    def slug(self) -> str:
        """The title as it stands in the page's address."""
        letters = "".join(letter if letter.isalnum() else " " for letter in self.title.lower())
        return "-".join(letters.split()) or "section"
