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
from multireplay.tables.cells import texts
from multireplay.tables.times import look_like_dates, no_dates_among

LEVELS = 50
"""A column of text with more different texts is no category, unless it is asked for."""
ROWS_A_LEVEL = 4
"""Nor is one with fewer rows for each text, on average."""
DATES = "holds dates, which are no feature: give the column as the time"
CLOCK = "holds times of day, which do not tell one day from the next: join them with the day, or give them as the time"
EXACT = 2**53
"""The largest whole number that is told apart from the next as a number with a point."""
NUMBER = r"^[-+($€£¥₹\s]*(\d+([.,' ]\d{3})*[.,]?\d*|[.,]\d+)([eE][-+]?\d+)?[\s%)$€£¥₹]*$"
CODE = r"^0\d+$"
"""A whole number with a zero before it: a name, as 02139, and not an amount."""
WHEN = {"time", "timestamp", "ts", "epoch", "unix", "unixtime", "date", "datetime", "when", "utc"}
"""What a column of times is called."""
PARTS = (1, 10**3, 10**6, 10**9)
SHOWN = 3
"""Cells that an error names."""


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

    def refuse(self) -> InputError:
        """Why it cannot be used."""
        return InputError(f"column {self.name!r} {self.about}")


def look_at(table: Any, categorical: Mapping[str, Any] | tuple[str, ...] = ()) -> dict[str, Look]:
    """What every column of an Arrow table holds; those named are categories whatever they hold.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"load": [1.0, None, 2.5], "day": ["Mon", "Tue", "Mon"]})
    >>> look_at(table, ("day",))["day"].levels, look_at(table)["load"].missing
    (('Mon', 'Tue'), 1)
    """
    return {name: _look(name, table.column(name), name in categorical) for name in table.column_names}


def _look(name: str, column: Any, wanted: bool) -> Look:
    kind = column.type
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    text = pa.types.is_string(inner) or pa.types.is_large_string(inner)
    if pa.types.is_null(inner) or (len(column) and column.null_count == len(column)):
        return Look(name, Kind.nothing, len(column), about="is empty in all rows")
    if wanted or text:
        return _levels(name, texts(column), wanted)
    if pa.types.is_time(inner):
        return Look(name, Kind.text, column.null_count, about=CLOCK)
    if _is_date(inner):
        return Look(name, Kind.date, column.null_count, about=DATES)
    if pa.types.is_integer(inner) and _is_epoch(name, column):
        return Look(name, Kind.date, column.null_count, about=DATES)
    if pa.types.is_integer(inner) and _beyond(column):
        about = (
            f"holds whole numbers beyond {EXACT}, which are names rather than amounts, and not told apart as numbers"
        )
        return Look(name, Kind.text, column.null_count, about=about)
    if _is_number(inner):
        return Look(name, Kind.number, column.null_count + _not_a_number(column, inner))
    if _is_list(inner) and _is_number(inner.value_type):
        lengths = pc.unique(pc.list_value_length(column)).drop_null().to_pylist()
        if len(lengths) > 1:
            about = f"holds lists of {lengths[0]} and of {lengths[1]} numbers"
            return Look(name, Kind.text, column.null_count, about=about)
        return Look(name, Kind.number, column.null_count)
    return Look(name, Kind.text, column.null_count, about=f"holds {kind}, which is neither numbers nor text")


def _levels(name: str, column: Any, wanted: bool) -> Look:
    missing = column.null_count
    found = pc.unique(column).drop_null()
    if not len(found):
        return Look(name, Kind.nothing, len(column), about="is empty in all rows")
    if not wanted and look_like_dates(found):
        return Look(name, Kind.date, missing, about=DATES)
    numbers = pc.match_substring_regex(found, NUMBER)
    codes = pc.any(pc.match_substring_regex(found, CODE)).as_py() and pc.all(numbers).as_py()
    if not (wanted or codes) and pc.sum(numbers).as_py() > len(found) / 2:
        about = _words_among("numbers", column, found.filter(pc.invert(numbers)))
        return Look(name, Kind.mixed, missing, about=about)
    strays = found.slice(0, 0) if wanted else no_dates_among(found)
    if len(strays):
        return Look(name, Kind.mixed, missing, about=_words_among("dates", column, strays))
    if not wanted and (len(found) > LEVELS or ROWS_A_LEVEL * len(found) > len(column)):
        what = f"numbers with zeros before them, as {found[0]}," if codes else "texts"
        about = (
            f"holds {len(found)} different {what} in {len(column)} rows; categories are at most {LEVELS}, of "
            f"{ROWS_A_LEVEL} rows each on average, unless asked for with --categorical {name}"
        )
        return Look(name, Kind.text, missing, about=about)
    return Look(name, Kind.category, missing, tuple(sorted(found.to_pylist(), key=_as_people_count)))


def _words_among(what: str, column: Any, words: Any) -> str:
    if not len(words):
        odd = [cell for cell in pc.unique(column).drop_null().to_pylist() if _as_people_count(cell)[0]]
        return f"holds numbers as text, such as {reprlib.repr((odd or column.drop_null().to_pylist())[0])}"
    rows = np.flatnonzero(pc.fill_null(pc.is_in(column, words), False).to_numpy())
    cells = ", ".join(f"{reprlib.repr(column[int(row)].as_py())} at row {row}" for row in rows[:SHOWN])
    more = f" and {len(rows) - SHOWN} more" if len(rows) > SHOWN else ""
    return f"holds {what}, but text in {len(rows)} of {len(column)} rows: {cells}{more} (counting from 0)"


def _as_people_count(level: str) -> tuple[bool, float, str]:
    try:
        return False, float(level), level
    except ValueError:
        return True, 0.0, level


def _ends(column: Any) -> list[int]:
    ends = pc.min_max(column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column)
    return [end for end in ends.as_py().values() if end is not None]


def _is_epoch(name: str, column: Any) -> bool:
    """Whether a column that is called a time holds parts of a second since 1970, of days from 1990 to 2100."""
    if not WHEN & set(re.findall("[a-z]+", name.lower())):
        return False
    return any(all(20 <= end / (365.25 * 86_400 * parts) <= 130 for end in _ends(column)) for parts in PARTS)


def _beyond(column: Any) -> bool:
    """Whether whole numbers are too large to be told apart as numbers with a point."""
    return any(abs(end) > EXACT for end in _ends(column))


def _not_a_number(column: Any, kind: Any) -> int:
    return int(pc.sum(pc.is_nan(column)).as_py() or 0) if pa.types.is_floating(kind) else 0


def _is_number(kind: Any) -> bool:
    return bool(
        pa.types.is_boolean(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
    )


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _is_date(kind: Any) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))
