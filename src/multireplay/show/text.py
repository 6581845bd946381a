"""Small tables that print as text in a terminal and as HTML in a notebook."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.table import Table


class TextTable:
    """Rows of named values. ``print`` it, or read ``rows``.

    Examples
    --------
    >>> from multireplay.show.text import TextTable
    >>> print(TextTable([{"method": "MER", "error": 0.25}, {"method": "serial", "error": 1.5}]))
     method   error
     ──────────────
     MER       0.25
     serial     1.5
    """

    def __init__(self, rows: Sequence[dict[str, Any]], title: str | None = None, wrap: str | None = None) -> None:
        self.rows = list(rows)
        self.wrap = wrap
        self.title = title
        self.names = names_of(self.rows)

    def __rich__(self) -> Table:
        table = Table(
            box=SIMPLE_HEAD, title=self.title, title_justify="left", title_style="bold", padding=(0, 1), pad_edge=False
        )
        for name in self.names:
            table.add_column(name, justify="right" if self._is_numeric(name) else "left", no_wrap=name != self.wrap)
        for row in self.rows:
            table.add_row(*(str(row.get(name, "")) for name in self.names))
        return table

    def _is_numeric(self, name: str) -> bool:
        texts = [str(row.get(name, "")) for row in self.rows]
        return all(is_blank(text) or number_in(text) is not None for text in texts)

    def __str__(self) -> str:
        return render(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.names)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(str(row.get(name, '')))}</td>" for name in self.names) + "</tr>"
            for row in self.rows
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def names_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names in the rows of a table, in order, without those that have no value anywhere."""
    names = dict.fromkeys(name for row in rows for name in row)
    return [name for name in names if any(row.get(name, "") != "" for row in rows)]


def number_in(text: str) -> float | None:
    """The number that a text stands for, such as ``"1.5 ± 0.1"`` or ``"12 %"``; None if it is none."""
    try:
        return float(text.split(" ± ")[0].removesuffix("%").removesuffix("×").strip())
    except ValueError:
        return None


def is_blank(text: str) -> bool:
    """Whether a text stands for a number that is not there."""
    return text in ("", "-", "–", "nan")


def render(renderable: RenderableType, width: int = 160) -> str:
    """Plain text of anything Rich can draw, without trailing blanks."""
    console = Console(width=width, color_system=None, force_terminal=False, legacy_windows=False)
    with console.capture() as capture:
        console.print(renderable)
    lines = (line.rstrip() for line in capture.get().splitlines())
    return "\n".join(line for line in lines if line)


def terminal() -> Console:
    """Standard output as it is, or 120 columns wide where it is not a terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=120)
