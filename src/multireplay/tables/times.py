"""A column that says when a row was: numbers, dates, or text that is dates in one of the usual ways."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from multireplay.errors import InputError
from multireplay.tables.cells import as_chunked, as_numbers, coded, decoded, is_text

DAYS = (
    "%Y-%m-%d", "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%Y/%m/%d", "%d-%m-%Y", "%Y%m%d", "%d/%m/%y", "%m/%d/%y",
    "%d.%m.%y", "%Y-%m", "%d %b %Y", "%b %d %Y", "%b %d, %Y", "%d-%b-%Y", "%d-%b-%y", "%b %Y", "%b-%Y", "%b-%y",
    "%a %b %d %Y", "%a, %d %b %Y",
)  # fmt: skip
HOURS = ("", " %H:%M", " %H:%M:%S", "T%H:%M", "T%H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
"""What may follow a day."""
YEARS = 1678, 2261
"""What nanoseconds since 1970 can say."""
PERIODS = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?P<year>\d{4})[-: ]?[Qq](?P<quarter>[1-4])", r"[Qq](?P<quarter>[1-4])[-/ ]?(?P<year>\d{4})",
        r"(?P<year>\d{4})[Mm](?P<month>0?[1-9]|1[0-2])", r"(?P<year>\d{4})-?[Ww](?P<week>[0-5]\d)(-?(?P<day>[1-7]))?",
    )
)  # fmt: skip
"""Quarters, months, weeks and their days: 2019Q1, Q1 2019, 2019M01, 2019-W01, 2019-W01-7."""
LOOKED_AT = 200
FEWEST = 4
"""Dates that make a column one of dates, with at most one other text for so many."""
REGULAR = 0.8
"""Share of the steps in time that are nearly the usual one, from which on a longer one is a gap."""
NEAR, GAP = 0.15, 1.5
"""Nearly the usual step: within that share (a month has 28 to 31 days). A gap: so many times the usual step."""


@dataclass(frozen=True, eq=False)
class Times:
    """When every row was, as numbers; dates are nanoseconds since 1970."""

    name: str
    values: NDArray[Any]
    missing: NDArray[np.bool_]
    dates: bool = False
    clock: bool = False
    """Whether these are times of a day, without the day."""

    def show(self, row: int) -> str:
        """The time of a row, a date as one."""
        if self.clock:
            return str(np.datetime64(int(self.values[row]), "ns"))[11:19]
        return as_date(self.values[row]) if self.dates else _as_it_is(self.values[row])

    def lasting(self, step: float) -> str:
        """A length of time, in the unit that suits it."""
        if not self.dates:
            return f"{step:g}"
        for unit, size in (("d", 86_400e9), ("h", 3600e9), ("min", 60e9), ("s", 1e9)):
            if step >= size:
                return f"{step / size:.3g} {unit}"
        return f"{step / 1e6:g} ms"


def _as_it_is(value: Any) -> str:
    return str(value) if isinstance(value, np.integer) else f"{value:.15g}"


def as_times(column: Any, name: str) -> Times:
    """The column as times.

    Text is read as dates in the way that fits all cells; where day and month cannot be told apart by that, in the way
    in which time does not go back and jumps least often.

    Examples
    --------
    >>> import pyarrow as pa
    >>> times = as_times(pa.array(["30/01/2024", "31/01/2024", "01/02/2024"]), "day")
    >>> times.show(2), times.lasting(times.values[1] - times.values[0])
    ('2024-02-01', '1 d')
    """
    column = decoded(as_chunked(column))
    missing = np.asarray(column.is_null().to_numpy())
    kind = column.type
    if is_text(kind):
        return _from_text(column.cast(pa.string()), name)
    if pa.types.is_time(kind):
        nanoseconds = column.cast(pa.time64("ns"))
        values = np.asarray(pc.fill_null(nanoseconds.cast(pa.int64()), 0).to_numpy())
        return Times(name, values, missing, True, True)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return _moments(column, name, missing)
    if pa.types.is_integer(kind) and not missing.any():
        days = from_digits(column.to_numpy())
        if days is not None:
            return _moments(pa.chunked_array([days]), name, missing)
        return Times(name, column.cast(pa.int64(), safe=False).to_numpy(), missing)
    values = as_numbers(column, name)
    return Times(name, np.where(np.isfinite(values), values, 0.0), ~np.isfinite(values))


def _moments(column: Any, name: str, missing: NDArray[np.bool_]) -> Times:
    zone = "UTC" if pa.types.is_timestamp(column.type) and column.type.tz is not None else None
    moments = column.cast(pa.timestamp("ns", zone), safe=False)
    return Times(name, np.asarray(pc.fill_null(moments.cast(pa.int64()), 0).to_numpy()), missing, True)


def _from_text(column: Any, name: str) -> Times:
    column = pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
    missing = np.asarray(column.is_null().to_numpy())
    readings = [_moments(moments, name, missing) for moments in _readings(column)]
    if not readings:
        if pc.all(pc.match_substring_regex(column, r"^\d+$")).as_py():  # with zeros before them
            return as_times(column.cast(pa.int64()), name)
        raise InputError(
            f"column {name!r} holds text such as {column.drop_null()[0].as_py()!r}, which is no date or number"
        )
    forward = [times for times in readings if (np.diff(times.values[~missing]) >= 0).all()]
    return min(forward or readings, key=lambda times: _jumps(times.values[~missing]))


def _jumps(values: NDArray[Any]) -> int:
    """How many steps are longer than usual."""
    steps = np.diff(values)
    moving = steps[steps > 0]
    return int((moving > GAP * np.median(moving)).sum()) if len(moving) else 0


def _readings(column: Any) -> list[Any]:
    """A column of text as moments, in every usual way in which all of its cells are dates."""
    few = column.drop_null().slice(0, LOOKED_AT)
    if not len(few):
        return []
    parts = pc.extract_regex(column, r"^(?P<moment>.*:\d\d)[.,](?P<part>\d{1,9})$")
    if parts.null_count == column.null_count:  # of a second
        part = pc.utf8_rpad(pc.struct_field(parts, "part"), 9, "0").cast(pa.int64()).cast(pa.duration("ns"))
        moments = _readings(pc.struct_field(parts, "moment"))
        return [pc.add(found.cast(pa.timestamp("ns")), part) for found in moments]
    likely = [day + hour for day in DAYS for hour in HOURS if not _read(few, day + hour).null_count]
    found = [_read(column, way) for way in likely]
    others = [read(column) for read in (_periods, _with_zone) if read(few) is not None]
    return [moments for moments in (*found, *others) if moments is not None and moments.null_count == column.null_count]


def _read(cells: Any, way: str) -> Any:
    """Cells as moments, with nothing where one is none; a year must be one that people have in files."""
    moments = pc.strptime(cells, format=way, unit="s", error_is_null=True)
    years = pc.year(moments)
    fine = pc.and_(pc.greater_equal(years, YEARS[0]), pc.less_equal(years, YEARS[1]))
    return pc.if_else(fine, moments, pa.scalar(None, moments.type))


def _with_zone(cells: Any) -> Any:
    """Moments in the way of ISO 8601, with parts of a second or a zone, also after a blank."""
    cells = pc.replace_substring_regex(cells, r"(\d)\s*(UTC|GMT)$", r"\1Z")
    cells = pc.replace_substring_regex(cells, r"(:\d\d(?:\.\d+)?)\s+([-+]\d\d:?\d\d)$", r"\1\2")
    for kind in (pa.timestamp("ns"), pa.timestamp("ns", "UTC")):
        try:
            return cells.cast(kind)
        except pa.ArrowInvalid:
            continue
    return None


def _periods(cells: Any) -> Any:
    """The first days of quarters, months or weeks, or None where a cell is none of them."""
    told = coded(cells)
    days: list[date] = []
    for text in told.dictionary.to_pylist():
        day = _first_day(text)
        if day is None:
            return None
        days.append(day)
    return as_chunked(pa.array(days, pa.date32()).take(told.indices))


def _first_day(text: str) -> date | None:
    for pattern in PERIODS:
        found = pattern.fullmatch(text.strip())
        if found is None:
            continue
        parts = {name: int(number) for name, number in found.groupdict().items() if number}
        if "week" in parts:
            try:
                return date.fromisocalendar(parts["year"], parts["week"], parts.get("day", 1))
            except ValueError:
                return None
        return date(parts["year"], parts["month"] if "month" in parts else 3 * parts["quarter"] - 2, 1)
    return None


def look_like_dates(column: Any) -> bool:
    """Whether the first cells of a column of text are dates in one of the usual ways."""
    return bool(_readings(column.drop_null().slice(0, LOOKED_AT)))


def no_dates_among(cells: Any) -> Any:
    """The few cells that are no dates, such as 'Total', where most are; none where most are not."""
    few = cells.slice(0, LOOKED_AT)
    ways = [day + hour for day in DAYS for hour in HOURS]
    missed = {way: _read(few, way).null_count for way in ways}
    best = min(ways, key=missed.__getitem__)
    if len(few) < FEWEST or missed[best] > len(few) / FEWEST:
        return cells.slice(0, 0)
    return cells.filter(_read(cells, best).is_null())


def as_date(nanoseconds: Any) -> str:
    """A moment as people write it, as exactly as it needs to be."""
    whole, rest = divmod(int(nanoseconds), 10**9)
    text = str(np.datetime64(whole, "s")).replace("T", " ")
    if rest:
        return f"{text}.{rest:09d}".rstrip("0")
    return text.removesuffix(" 00:00:00").removesuffix(":00") if text.endswith(":00") else text


def from_digits(values: Any) -> Any:
    """Whole numbers such as 20240131 as moments, or None where one of them is no day."""
    if values.dtype.kind not in "iu" or not len(values) or values.min() < 1700_01_01 or values.max() > 2200_12_31:
        return None
    cells = pa.array(values.astype(str))
    days = pc.strptime(cells, format="%Y%m%d", unit="s", error_is_null=True)
    return None if days.null_count else days
