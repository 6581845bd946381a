"""The table of a fit: coefficients with standard errors, tests and intervals, and how it was made below it."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from multireplay.show.text import TextTable, printable, short

Row: TypeAlias = dict[str, Any]
COLUMNS = ("name", "coefficient", "standard error", "t", "p", "low", "high", "effective", "mark")
BLANK = (math.nan,) * 6 + ("",)
LONGEST = 500
"""Rows that are printed: of more, the first of them and the last, which may be an intercept."""


class Summary:
    """A table of coefficients that prints as text and shows as a table in a notebook.

    Attributes
    ----------
    rows : list of dict
        Numbers by name: ``name``, ``coefficient``, ``standard error``, ``t``, ``p``, ``low``, ``high``, ``effective``
        (the effective sample size) and ``mark``, which says why not to rely on the interval, or is empty.
    level : float
        Of the intervals.
    lines : tuple of str
        What is said below the table.

    Examples
    --------
    >>> from multireplay.inference.summary import Summary, coefficient_row
    >>> print(Summary([coefficient_row("hum", 0.5, 0.1, 5.0, 0.00002, 0.3, 0.7, 812.4, "")], 0.95, ["4096 rows."]))
     name   coefficient   standard error   t         p   95 % from    to   effective
     ───────────────────────────────────────────────────────────────────────────────
     hum            0.5              0.1   5   2.0e-05         0.3   0.7         812
    4096 rows.
    """

    def __init__(self, rows: Sequence[Row] | Callable[[], list[Row]], level: float, lines: Sequence[str]) -> None:
        self._given, self.level, self.lines = rows, level, tuple(lines)

    @cached_property
    def rows(self) -> list[Row]:
        """Numbers by name, a row for each coefficient; made when somebody reads them."""
        return self._given() if callable(self._given) else list(self._given)

    def __reduce__(self) -> tuple[Any, ...]:
        return Summary, (self.rows, self.level, self.lines)

    def table(self) -> TextTable:
        """The table alone, with numbers as a person reads them."""
        return TextTable([self._shown(row) for row in self.rows], wrap="note")

    def _cut(self) -> Summary:
        """What is printed: a table that is not too long, and, where rows are left out of it, a word on them."""
        left = len(self.rows) - LONGEST
        if left <= 0:
            return self
        said = f"{left:,} of {len(self.rows):,} rows are not shown: .rows has them all."
        return Summary([*self.rows[: LONGEST - 1], self.rows[-1]], self.level, (said, *self.lines))

    def _shown(self, row: Row) -> dict[str, str]:
        kept: dict[str, Any] = {name: "" if _missing(value) else value for name, value in row.items()}
        return {
            "name": str(kept["name"]),
            "coefficient": _digits(kept["coefficient"]),
            "standard error": _digits(kept["standard error"]),
            "t": "" if kept["t"] == "" else f"{kept['t']:.3g}",
            "p": "" if kept["p"] == "" else _chance(kept["p"]),
            f"{100 * self.level:g} % from": _digits(kept["low"]),
            "to": _digits(kept["high"]),
            "effective": "" if kept["effective"] == "" else f"{kept['effective']:.0f}",
            "note": str(kept["mark"]),
        }

    def __str__(self) -> str:
        shown = self._cut()
        return "\n".join([str(shown.table()), *map(printable, shown.lines)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        shown = self._cut()
        below = "".join(f"<p>{html.escape(line)}</p>" for line in shown.lines)
        return f"{shown.table()._repr_html_()}{below}"


def coefficient_row(name: str, coefficient: float, *known: Any) -> Row:
    """One row of a `Summary` by its columns, all of them or only the first two."""
    return dict(zip(COLUMNS, (name, float(coefficient), *(known or BLANK)), strict=True))


def coefficient_rows(columns: tuple[Any, ...], level: float) -> list[Row]:
    """Rows of names, coefficients, centres of intervals, errors, their law, effective samples, and marks by place."""
    names, x, centre, error, spread, effective, doubts = columns
    half = spread.quantile(level) * error
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = centre / error + 0.0  # no -0
    effective = np.full(len(error), math.nan) if effective is None else effective
    if (unknown := np.isinf(error)).any():  # of which the ratio and the effective sample size say nothing
        ratios, effective = np.where(unknown, math.nan, ratios), np.where(unknown, math.nan, effective)
    marks = [doubts.get(i, "") for i in range(len(error))]
    for i in (~np.isfinite(error)).nonzero()[0]:
        marks[i] = "on the boundary" if np.isnan(error[i]) else "the record says nothing of it"
    numbers = (x, error, ratios, spread.p_value(ratios), centre - half, centre + half, effective)
    return list(map(coefficient_row, names, *(each.tolist() for each in numbers), marks))


def _missing(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _digits(value: Any) -> str:
    if value == "":
        return ""
    return short(value).replace(",", "").replace("−", "-") if math.isfinite(value) else "∞" if value > 0 else "-∞"


def _chance(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else f"{value:.1e}"
