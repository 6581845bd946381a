"""Small tables that print as text in a terminal and as HTML in a notebook, and numbers as a person reads them."""

from __future__ import annotations

import html
import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from multireplay.result import Epoch


CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that are orders to a terminal: a name in somebody's file must not give any."""


def printable(text: str) -> str:
    """The text with characters that would command the terminal written out.

    Examples
    --------
    >>> from multireplay.show.text import printable
    >>> print(printable("rate\x1b[2J"))
    rate\\x1b[2J
    """
    return CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def plain_text(text: str, style: str = "") -> Text:
    """A text for Rich that says what it says: nothing in it is markup, or an order to the terminal."""
    return Text(printable(text), style=style)


def say(text: str) -> None:
    """Print a text on standard output; a terminal breaks its lines where it likes."""
    terminal().print(plain_text(text), highlight=False, soft_wrap=True)


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

    def __init__(
        self, rows: Sequence[dict[str, Any]], title: str | None = None, wrap: str | tuple[str, ...] = ()
    ) -> None:
        self.rows = list(rows)
        self.wrap = (wrap,) if isinstance(wrap, str) else wrap
        self.title = title
        self.names = names_of(self.rows)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The table, drawn closer together where it would be wider than the terminal."""
        wide = self._drawn()
        fits = console.measure(wide, options=options.update(max_width=10_000)).maximum <= options.max_width
        yield wide if fits else self._drawn(close=True)

    def _drawn(self, close: bool = False) -> Table:
        """A table for Rich; a close one has one blank between columns, and names over several lines."""
        title = None if self.title is None else plain_text(self.title)
        table = Table(
            box=SIMPLE_HEAD, title=title, title_justify="left", title_style="bold", pad_edge=False,
            padding=(0, 0) if close else (0, 1),
        )  # fmt: skip
        for name in self.names:
            longest = max(len(str(row.get(name, ""))) for row in self.rows)
            shown = textwrap.fill(name, max(longest, 4), break_long_words=False) if close else name
            justify: JustifyMethod = "right" if self._is_numeric(name) else "left"
            table.add_column(plain_text(shown), justify=justify, no_wrap=name not in self.wrap, overflow="fold")
        for row in self.rows:
            table.add_row(*(plain_text(str(row.get(name, ""))) for name in self.names))
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


def in_names(text: str, names: Sequence[str]) -> str:
    """A sentence that speaks of coordinates as ``x[2]``, with their names instead where they have others.

    Examples
    --------
    >>> from multireplay.show.text import in_names
    >>> print(in_names("x[0], x[2] are combinations of one another", ["north", "south", "up"]))
    'north', 'up' are combinations of one another
    """

    def name_of(found: re.Match[str]) -> str:
        name = names[int(found[1])]
        return name if name == found[0] else f"'{name}'"

    return re.sub(r"\bx\[(\d+)\]", name_of, text)


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


def short(value: float) -> str:
    """Four digits, and whole numbers as they are."""
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    whole = value == int(value) and abs(value) < 1e15
    return _typeset(f"{int(value):,}" if whole else f"{value:,.4g}")


def rough(value: float) -> str:
    """Two digits, for sentences."""
    if not math.isfinite(value) or value == 0:
        return short(value)
    digits = 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, digits)
    return _typeset(f"{rounded:,.0f}") if 100 <= abs(rounded) < 1e9 else _typeset(f"{rounded:.2g}")


def seconds(value: float) -> str:
    """A duration with its unit."""
    if value < 1:
        return f"{rough(1000 * value)} ms"
    return f"{rough(value)} s" if value < 100 else f"{value / 60:.1f} min"


def plural(count: int, noun: str) -> str:
    """A count with its noun."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def by_class(said: Iterable[tuple[str, str]], count: int) -> list[str]:
    """Every line once, after the classes that it is said of; one that is said of all `count` of them stands alone.

    Examples
    --------
    >>> by_class([("a", "one"), ("b", "one"), ("a", "two")], 2)
    ['one', 'class a: two']
    """
    found: dict[str, list[str]] = {}
    for name, line in said:
        found.setdefault(line, []).append(name)
    return [
        line if len(names) == count else f"class{'es' * (len(names) > 1)} {', '.join(names)}: {line}"
        for line, names in found.items()
    ]


def _typeset(text: str) -> str:
    """A real minus, and exponents without leading zeros."""
    mantissa, _, power = text.partition("e")
    return (f"{mantissa}e{int(power)}" if power else mantissa).replace("-", "−")


def epoch_table(epochs: Sequence[Epoch], chosen: int | None = None, route: str = "steps") -> TextTable:
    """The table of the epochs of a run, with what each would have answered and which one does.

    Exact fits have no gap, and they and corrections no step size.
    """
    rows = []
    for index, epoch in enumerate(epochs):
        row: dict[str, Any] = {
            "epoch": epoch.k,
            "gap": "-" if epoch.gap is None or route == "exact" else f"{epoch.gap:.6g}",
            "steps": epoch.taken,
            "step size": "-" if route in ("exact", "corrections") else f"{epoch.step:.4g}",
            "‖last‖": f"{math.hypot(*epoch.last):.4g}",
            "‖average‖": f"{math.hypot(*epoch.average):.4g}",
        }
        if epoch.curve is not None:
            row["‖last − x*‖²"] = f"{epoch.curve.end_last:.3e}"
            row["‖average − x*‖²"] = f"{epoch.curve.end_average:.3e}"
        row["residual"] = "" if epoch.residual is None else f"{epoch.residual:.3e}"
        row["note"] = f"diverged at step {epoch.taken + 1}" if epoch.diverged else ""
        if index == chosen and len(epochs) > 1:
            row["note"] = "the answer"
        rows.append(row)
    return TextTable(rows)
