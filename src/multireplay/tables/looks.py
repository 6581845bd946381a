"""What a column of a table holds: numbers, categories, dates, or text that is none of them."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from multireplay.errors import InputError
from multireplay.tables.cells import as_chunked, as_numbers, coded, decoded, inner_type, is_number, is_text, texts
from multireplay.tables.times import look_like_dates, no_dates_among

LEVELS = 50
"""A column of text with more different texts is no category, unless it is asked for."""
ROWS_A_LEVEL = 4
"""Nor is one with fewer rows for each text, on average."""
DATES = "holds dates, which are no feature: give the column as the time"
CLOCK = "holds times of day, which do not tell one day from the next: join them with the day, or give them as the time"
EXACT = 2**53
"""The largest whole number that is told apart from the next as a number with a point."""
BEYOND = f"holds whole numbers beyond {EXACT}, which are names rather than amounts, and not told apart as numbers"
NUMBER = r"^[-+($€£¥₹\s]*(\d+([.,' ]\d{3})*[.,]?\d*|[.,]\d+)([eE][-+]?\d+)?[\s%)$€£¥₹]*$"
CODE = r"^0\d+$"
"""A whole number with a zero before it: a name, as 02139, and not an amount."""
WHEN = {"time", "timestamp", "ts", "epoch", "unix", "unixtime", "date", "datetime", "when", "utc"}
"""What a column of times is called."""
PARTS = (1, 10**3, 10**6, 10**9)
SHOWN = 3
"""Cells that an error names."""
MOST = 2**16
"""Different texts of a column that are told apart."""


class Kind(StrEnum):
    """What a column holds."""

    number = "number"
    category = "category"
    date = "date"
    text = "text"
    mixed = "mixed"
    """Text in some cells of a column of numbers."""
    nothing = "nothing"


@dataclass(frozen=True)
class Look:
    """What a column holds, and what is known about it."""

    name: str
    kind: Kind
    missing: int = 0
    levels: tuple[str, ...] = ()
    about: str = ""
    """A clause on a column that cannot be used: why."""
    same: float | None = None
    """The number that is in all rows, where it is one."""
    counts: bool = False
    """Whether it only numbers the rows, from 0 or 1 on."""
    worded: bool = False
    """Whether it holds yes and no."""

    def refuse(self) -> InputError:
        """Why it cannot be used."""
        return InputError(f"column {self.name!r} {self.about}")


@dataclass(frozen=True)
class Contents:
    """What some rows of a column hold, as far as its look depends on it; what is in more rows is a sum of such."""

    type: Any
    rows: int
    missing: int = 0
    texts: Mapping[str, tuple[int, int]] | None = None
    """Different texts, as they come: in how many rows each is, and in which first. No more than `MOST` of them."""
    different: int = 0
    ends: tuple[Any, Any] | None = None
    """The least and the largest number."""
    lengths: tuple[int, ...] = ()
    """How long lists are."""
    counts: bool = False
    """Whether every number is one more than that before it."""

    @classmethod
    def of(cls, column: Any, wanted: bool = False, first: int = 0) -> Contents:
        """What a column holds; its categories are `wanted` whatever they are, and its first row is number `first`."""
        rows, inner = len(column), inner_type(column.type)
        if is_text(inner) or (wanted and not _is_list(inner)):
            cells = texts(as_chunked(column))
            told = coded(cells)
            codes = told.indices.drop_null().to_numpy()
            begins = np.empty(len(told.dictionary), dtype=np.int64)
            begins[codes[::-1]] = first + np.flatnonzero(told.indices.is_valid().to_numpy(zero_copy_only=False))[::-1]
            words = told.dictionary.slice(0, MOST).to_pylist()
            found = zip(words, zip(np.bincount(codes).tolist(), begins.tolist(), strict=True), strict=False)
            return cls(column.type, rows, cells.null_count, dict(found), len(told.dictionary))
        if _is_list(inner) and is_number(inner.value_type):
            lengths = pc.unique(pc.list_value_length(column)).drop_null().to_pylist()
            return cls(column.type, rows, column.null_count, lengths=tuple(lengths))
        if pa.types.is_null(inner) or not is_number(inner) or column.null_count == rows:
            return cls(column.type, rows, rows if pa.types.is_null(inner) else column.null_count)
        if pa.types.is_integer(inner):
            ends, counts = _ends(column), False
            if not column.null_count and ends[1] - ends[0] == rows - 1:
                counts = bool((np.diff(as_chunked(column).cast(inner).to_numpy()) == 1).all())
            return cls(column.type, rows, column.null_count, ends=ends, counts=counts)
        values = as_numbers(column, "")
        return cls(
            column.type, rows, int(np.isnan(values).sum()), ends=(np.fmin.reduce(values), np.fmax.reduce(values))
        )

    def __add__(self, other: Contents) -> Contents:
        """What these rows hold and those that follow on them."""
        words, different = self.texts, self.different
        if words is not None and other.texts is not None:
            both = dict(words)
            for text, (count, row) in other.texts.items():
                if text in both or len(both) < MOST:
                    before = both.get(text, (0, row))
                    both[text] = before[0] + count, before[1]
            words, different = both, max(self.different, other.different, len(both))
        ends = [one.ends for one in (self, other) if one.ends is not None]
        follows = self.ends is not None and other.ends is not None and self.ends[1] + 1 == other.ends[0]
        return Contents(
            self.type, self.rows + other.rows, self.missing + other.missing, words, different,
            (min(low for low, _ in ends), max(high for _, high in ends)) if ends else None,
            tuple(dict.fromkeys(self.lengths + other.lengths)), self.counts and other.counts and follows,
        )  # fmt: skip

    def look(self, name: str, wanted: bool = False) -> Look:
        """What a column that holds this is."""
        inner, missing = inner_type(self.type), self.missing
        if pa.types.is_null(inner) or (self.rows and missing == self.rows and (self.ends is None)):
            return Look(name, Kind.nothing, self.rows, about="is empty in all rows")
        if self.texts is not None:
            return self._levels(name, wanted)
        if pa.types.is_time(inner):
            return Look(name, Kind.text, missing, about=CLOCK)
        if _is_date(inner) or (pa.types.is_integer(inner) and self._is_epoch(name)):
            return Look(name, Kind.date, missing, about=DATES)
        if pa.types.is_integer(inner) and any(abs(end) > EXACT for end in self.ends or ()):
            return Look(name, Kind.text, missing, about=BEYOND)
        if is_number(inner):
            low, high = self.ends or (0, 1)
            same = float(low) if low == high and not missing and self.rows > 1 else None
            counts, worded = self.counts and low in (0, 1), pa.types.is_boolean(inner)
            return Look(name, Kind.number, missing, same=same, counts=counts, worded=worded)
        if _is_list(inner) and is_number(inner.value_type):
            if wanted:
                return Look(name, Kind.text, missing, about="holds lists, which are no categories")
            if len(self.lengths) > 1:
                about = f"holds lists of {self.lengths[0]} and of {self.lengths[1]} numbers"
                return Look(name, Kind.text, missing, about=about)
            return Look(name, Kind.number, missing)
        return Look(name, Kind.text, missing, about=f"holds {self.type}, which is neither numbers nor text")

    def _levels(self, name: str, wanted: bool) -> Look:
        found, missing = pa.array(self.texts, pa.string()), self.missing
        if not wanted and look_like_dates(found):
            return Look(name, Kind.date, missing, about=DATES)
        numbers = pc.match_substring_regex(found, NUMBER)
        codes = pc.any(pc.match_substring_regex(found, CODE)).as_py() and pc.all(numbers).as_py()
        if not (wanted or codes) and pc.sum(numbers).as_py() > len(found) / 2:
            about = self._words_among("numbers", found.filter(pc.invert(numbers)))
            return Look(name, Kind.mixed, missing, about=about)
        strays = found.slice(0, 0) if wanted else no_dates_among(found)
        if len(strays):
            return Look(name, Kind.mixed, missing, about=self._words_among("dates", strays))
        many = f"{self.different}{' or more' * (self.different >= MOST)} different"
        if wanted and self.different > MOST:
            return Look(name, Kind.text, missing, about=f"holds {many} texts, too many for categories")
        if not wanted and (self.different > LEVELS or ROWS_A_LEVEL * self.different > self.rows):
            what = f"numbers with zeros before them, as {found[0]}," if codes else "texts"
            about = (
                f"holds {many} {what} in {self.rows} rows; categories are at most {LEVELS}, of "
                f"{ROWS_A_LEVEL} rows each on average, unless asked for with --categorical {name}"
            )
            return Look(name, Kind.text, missing, about=about)
        return Look(name, Kind.category, missing, tuple(sorted(found.to_pylist(), key=_as_people_count)))

    def _words_among(self, what: str, words: Any) -> str:
        assert self.texts is not None
        if not len(words):
            odd = [text for text in self.texts if _as_people_count(text)[0]]
            return f"holds numbers as text, such as {reprlib.repr((odd or list(self.texts))[0])}"
        counted = [(row, count, word) for word in words.to_pylist() for count, row in [self.texts[word]]]
        rows = sum(count for _, count, _ in counted)
        cells = ", ".join(f"{reprlib.repr(word)} at row {row}" for row, _, word in sorted(counted)[:SHOWN])
        more = f" and {rows - SHOWN} more" if rows > SHOWN else ""
        return f"holds {what}, but text in {rows} of {self.rows} rows: {cells}{more} (counting from 0)"

    def _is_epoch(self, name: str) -> bool:
        """Whether a column that is called a time holds parts of a second since 1970, of days from 1990 to 2100."""
        if not called_a_time(name):
            return False
        years = [[end / (365.25 * 86_400 * parts) for end in self.ends or ()] for parts in PARTS]
        return any(all(20 <= year <= 130 for year in both) for both in years)


def called_a_time(name: str) -> bool:
    """Whether a column has the name of times."""
    return bool(WHEN & set(re.findall("[a-z]+", name.lower())))


def look_at(table: Any, categorical: Mapping[str, Any] | tuple[str, ...] = ()) -> dict[str, Look]:
    """What every column of an Arrow table holds; those named are categories whatever they hold.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"load": [1.0, None, 2.5], "day": ["Mon", "Tue", "Mon"]})
    >>> look_at(table, ("day",))["day"].levels, look_at(table)["load"].missing
    (('Mon', 'Tue'), 1)
    """
    found = {name: (Contents.of(table.column(name), name in categorical), name in categorical)
             for name in table.column_names}  # fmt: skip
    return {name: contents.look(name, wanted) for name, (contents, wanted) in found.items()}


def _as_people_count(level: str) -> tuple[bool, float, str]:
    try:
        return False, float(level), level
    except ValueError:
        return True, 0.0, level


def _ends(column: Any) -> tuple[int, int]:
    """The least and the largest of whole numbers, exactly."""
    ends = pc.min_max(decoded(column)).as_py()
    return ends["min"], ends["max"]


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _is_date(kind: Any) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))
