"""From the columns of a table to features, the same way for the rows of a fit and for new ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from multireplay.errors import InputError
from multireplay.tables.cells import Flags, as_chunked, as_lists, as_numbers, texts
from multireplay.tables.looks import Kind, Look

LARGEST = 1e100
"""Numbers beyond it are no measurements, and their squares no numbers."""


@dataclass(frozen=True)
class Term:
    """A column of the table as features: its number, one number of a list, or one feature a level but the first."""

    column: str
    place: int | None = None
    levels: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """What the features are called."""
        if self.levels:
            return tuple(f"{self.column}={level}" for level in self.levels[1:])
        return (self.column if self.place is None else f"{self.column}[{self.place}]",)

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        place = {} if self.place is None else {"place": self.place}
        return {"column": self.column, **place, **({"levels": list(self.levels)} if self.levels else {})}


@dataclass(eq=False)
class Design:
    """Features of some rows; those of a row that cannot be used are not numbers, and there is a reason for it."""

    matrix: NDArray[Any]
    usable: Flags
    reasons: Counter[str] = field(default_factory=Counter)
    """How many rows cannot be used, by why."""

    def leave_out(self, rows: Flags, why: str) -> None:
        """Mark rows that cannot be used, if they were not marked before."""
        rows = rows & self.usable
        if rows.any():
            self.reasons[why] += int(rows.sum())
            self.usable &= ~rows

    def leave_out_extremes(self, values: NDArray[np.float64], name: str) -> None:
        """Mark rows with a number that is no measurement."""
        self.leave_out(np.isinf(values), f"infinity in {name!r}")
        self.leave_out(np.abs(values) > LARGEST, f"a number beyond {LARGEST:g} in {name!r}")


@dataclass(frozen=True)
class Recipe:
    """Which columns become which features.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from multireplay.tables import look_at
    >>> table = pa.table({"heat": [1.0, 2.0] * 4, "day": ["Mon", "Tue"] * 4})
    >>> recipe = Recipe.of(look_at(table))
    >>> recipe.names, recipe.design(table.slice(0, 2)).matrix.tolist()
    (('heat', 'day=Tue'), [[1.0, 0.0], [2.0, 1.0]])
    """

    terms: tuple[Term, ...]

    @classmethod
    def of(cls, looks: Mapping[str, Look], widths: Mapping[str, int] | None = None) -> Recipe:
        """A recipe for these columns; `widths` has how many numbers a row of a list has."""
        terms: list[Term] = []
        for name, look in looks.items():
            if look.kind is Kind.category:
                if len(look.levels) > 1:
                    terms.append(Term(name, levels=look.levels))
            elif look.kind is not Kind.number:
                raise look.refuse()
            elif widths and name in widths:
                terms += [Term(name, place) for place in range(widths[name])]
            else:
                terms.append(Term(name))
        if not terms:
            raise InputError(f"there is nothing to predict from: {', '.join(looks) or 'no column'}")
        return cls(tuple(terms))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the table that are read."""
        return tuple(dict.fromkeys(term.column for term in self.terms))

    @property
    def names(self) -> tuple[str, ...]:
        """What the features are called."""
        return tuple(name for term in self.terms for name in term.names)

    def only(self, names: Iterable[str]) -> Recipe:
        """What makes these features, and possibly others of the same columns."""
        wanted = set(names)
        return Recipe(tuple(term for term in self.terms if wanted.intersection(term.names)))

    def design(self, table: Any) -> Design:
        """The features of all rows of an Arrow table or batch that has the columns."""
        found = Design(np.empty((table.num_rows, len(self.names))), np.ones(table.num_rows, dtype=bool))
        at, lists = 0, {}
        for term in self.terms:
            to = at + len(term.names)
            if term.place is None:
                _fill(found, slice(at, to), term, table.column(term.column))
            else:
                if term.column not in lists:
                    lists[term.column] = as_lists(table.column(term.column), term.column)
                values, empty = lists[term.column]
                found.matrix[:, at] = values[:, term.place] if values.shape[1] else np.nan
                found.leave_out(empty, f"nothing in {term.column!r}")
            at = to
        if not found.usable.all():
            found.matrix[~found.usable] = np.nan
        return found

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for a file."""
        return {"terms": [term.to_dict() for term in self.terms]}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Recipe:
        """A recipe from its plain values; what is not there raises a `KeyError`, `TypeError` or `ValueError`."""
        return cls(tuple(_term(entry) for entry in found["terms"]))


def _term(found: Mapping[str, Any]) -> Term:
    place = found.get("place")
    if place is not None and (type(place) is not int or place < 0):
        raise ValueError(f"place {place!r}")
    levels = tuple(found.get("levels", ()))
    if not all(isinstance(level, str) for level in levels) or len(levels) == 1:
        raise ValueError(f"levels {levels!r}")
    return Term(str(found["column"]), place, levels)


def _fill(found: Design, where: slice, term: Term, column: Any) -> None:
    if term.levels:
        cells = texts(as_chunked(column))
        codes = pc.index_in(cells, pa.array(term.levels)).to_numpy(zero_copy_only=False)
        empty = cells.is_null().to_numpy(zero_copy_only=False)
        known = np.isfinite(codes.astype(np.float64)) if codes.dtype.kind == "f" else np.ones(len(codes), dtype=bool)
        found.matrix[:, where] = codes[:, None] == np.arange(1, len(term.levels))
        found.leave_out(empty, f"nothing in {term.column!r}")
        strange = ~known & ~empty & found.usable
        for level in pc.unique(cells.filter(pa.array(strange))).to_pylist() if strange.any() else ():
            same = pc.fill_null(pc.equal(cells, level), False).to_numpy(zero_copy_only=False)
            found.leave_out(same, f"{level!r} in {term.column!r}, which the fit has not seen")
        return
    values = as_numbers(column, term.column)
    found.matrix[:, where.start] = values
    if (np.abs(values) <= LARGEST).all():
        return
    found.leave_out(np.isnan(values), f"nothing in {term.column!r}")
    found.leave_out_extremes(values, term.column)


def dropped_in_words(reasons: Mapping[str, int], most: int = 5) -> str:
    """The reasons and how many rows each has, the largest first."""
    ordered = sorted(reasons.items(), key=lambda pair: -pair[1])
    said: Iterable[str] = (f"{count} with {why}" for why, count in ordered[:most])
    more = [f"{sum(count for _, count in ordered[most:])} for {len(ordered) - most} more reasons"] * (
        len(ordered) > most
    )
    return ", ".join([*said, *more])
