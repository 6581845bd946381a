"""What a page is made of: sections, each a list of blocks. A block holds values; the template turns them into HTML."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from multireplay.errors import InputError
from multireplay.show.text import TextTable, is_blank, names_of, number_in, short

MOST_ROWS = 1000
"""Rows of a table beyond this many are left out of the page, which says so."""


class Block:
    """One thing on the page."""

    @property
    def kind(self) -> str:
        """The name of its macro in the template."""
        return type(self).__name__.removesuffix("Block").lower()


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


@dataclass(frozen=True)
class Heading(Block):
    """A heading within a section."""

    text: str


@dataclass(frozen=True)
class Fact(Block):
    """One number worth a box of its own, with what it is and a remark."""

    label: str
    value: str
    remark: str = ""


@dataclass(frozen=True)
class Facts(Block):
    """A row of numbers worth a box each."""

    facts: Sequence[Fact]


@dataclass(frozen=True)
class FindingBlock(Block):
    """A finding in a list: what it is about, a verdict in a few words, and what stands behind it."""

    title: str
    verdict: str = ""
    text: str = ""


@dataclass(frozen=True)
class Cell:
    """A cell of a table: the text that is shown, and the number behind it, by which the column is sorted."""

    text: str
    number: float | None = None

    @property
    def is_plain(self) -> bool:
        """Whether the text is a number that the page itself can read."""
        return self.number is not None and re.fullmatch(r"−?[\d,]+(\.\d+)?(e−?\d+)?", self.text) is not None


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
    brief: bool = False
    """Whether numbers are only there as they are shown, to keep a page with many tables small."""

    @cached_property
    def names(self) -> list[str]:
        """Of the columns with a value in any row."""
        return names_of(self.rows)

    @cached_property
    def cells(self) -> list[list[Cell]]:
        """What is shown, row by row."""
        return [[as_cell(row.get(name, "")) for name in self.names] for row in self.rows[:MOST_ROWS]]

    @property
    def numeric(self) -> list[bool]:
        """Which columns hold numbers only."""
        return [
            all(cell.number is not None or is_blank(cell.text) for cell in column)
            for column in zip(*self.cells, strict=True)
        ]

    @property
    def folded(self) -> int:
        """Rows that are not shown at first."""
        return max(0, len(self.cells) - self.shown) if self.shown is not None else 0

    @property
    def left_out(self) -> int:
        """Rows that are not on the page."""
        return len(self.rows) - len(self.cells)

    @classmethod
    def of(cls, table: TextTable, caption: str = "") -> TableBlock:
        """From a table that prints as text; numbers in its texts are still sorted as numbers."""
        return cls(table.rows, caption=caption or table.title or "")


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


@dataclass(frozen=True)
class Picture(Block):
    """A picture from a PNG, JPEG or SVG file, or from the bytes of a PNG; it becomes part of the page."""

    source: str | Path | bytes
    caption: str

    @property
    def data_uri(self) -> str:
        """The picture as text, for the page's img element."""
        kind, data = ("image/png", self.source) if isinstance(self.source, bytes) else _read(Path(self.source))
        return f"data:{kind};base64,{base64.b64encode(data).decode('ascii')}"


def _read(path: Path) -> tuple[str, bytes]:
    types = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".svg": "image/svg+xml"}
    if path.suffix.lower() not in types:
        raise InputError(f"a picture must be a file ending in {', '.join(types)}, not {path.name!r}")
    if not path.is_file():
        raise InputError(f"there is no picture {path}")
    return types[path.suffix.lower()], path.read_bytes()


@dataclass(frozen=True)
class Code(Block):
    """Text to copy, such as a program or a command."""

    text: str
    caption: str = ""


@dataclass(frozen=True)
class Choice(Block):
    """Groups of blocks by name, such as one a class, of which the reader sees one at a time.

    Examples
    --------
    >>> Choice("Class", {"low": [Text("Few.")], "high": [Text("Many.")]}).kind
    'choice'
    """

    label: str
    groups: Mapping[str, Sequence[Block]]


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
    def plots(self) -> list[Plot]:
        """All that are on the tab, whether they are seen at first or not."""
        groups = [group for block in self.blocks if isinstance(block, Choice) for group in block.groups.values()]
        return [block for blocks in (self.blocks, *groups) for block in blocks if isinstance(block, Plot)]

    @property
    def slug(self) -> str:
        """The title as it stands in the page's address."""
        return "-".join(re.findall(r"[^\W_]+", self.title.lower())) or "section"
