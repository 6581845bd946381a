"""A column that says when a row was: numbers, dates, or text that is dates in one of the usual ways."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from multireplay.errors import InputError
from multireplay.tables.cells import as_chunked, as_numbers

DAYS = (
    "%Y-%m-%d", "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%Y/%m/%d", "%d-%m-%Y", "%Y%m%d", "%d/%m/%y", "%m/%d/%y",
    "%d.%m.%y", "%Y-%m", "%d %b %Y", "%b %d %Y",
)  # fmt: skip
HOURS = ("", " %H:%M", " %H:%M:%S", "T%H:%M", "T%H:%M:%S")
"""What may follow a day."""
LOOKED_AT = 200
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

    def show(self, row: int) -> str:
        """The time of a row, a date as one."""
        return as_date(self.values[row]) if self.dates else f"{self.values[row]:.12g}"

    def lasting(self, step: float) -> str:
        """A length of time, in the unit that suits it."""
        if not self.dates:
            return f"{step:g}"
        for unit, size in (("d", 86_400e9), ("h", 3600e9), ("min", 60e9), ("s", 1e9)):
            if step >= size:
                return f"{step / size:.3g} {unit}"
        return f"{step / 1e6:g} ms"


def as_times(column: Any, name: str) -> Times:
    """The column as times.

    Text is read as dates in the way that fits all cells; where day and month cannot be told apart by that, in the way
    in which time does not go back.

    Examples
    --------
    >>> import pyarrow as pa
    >>> times = as_times(pa.array(["30/01/2024", "31/01/2024", "01/02/2024"]), "day")
    >>> times.show(2), times.lasting(times.values[1] - times.values[0])
    ('2024-02-01', '1 d')
    """
    column = as_chunked(column)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    missing = np.asarray(column.is_null().to_numpy())
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _from_text(column.cast(pa.string()), name)
    if pa.types.is_time(kind):
        nanoseconds = column.cast(pa.time64("ns"))
        return Times(name, np.asarray(pc.fill_null(nanoseconds.cast(pa.int64()), 0).to_numpy()), missing, True)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return _moments(column, name, missing)
    if pa.types.is_integer(kind) and not missing.any():
        days = from_digits(column.to_numpy())
        if days is not None:
            return _moments(pa.chunked_array([days]), name, missing)
    values = as_numbers(column, name)
    return Times(name, np.where(np.isfinite(values), values, 0.0), ~np.isfinite(values))


def _moments(column: Any, name: str, missing: NDArray[np.bool_]) -> Times:
    zone = "UTC" if pa.types.is_timestamp(column.type) and column.type.tz is not None else None
    moments = column.cast(pa.timestamp("ns", zone), safe=False)
    return Times(name, np.asarray(pc.fill_null(moments.cast(pa.int64()), 0).to_numpy()), missing, True)


def _from_text(column: Any, name: str) -> Times:
    column = pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
    missing = np.asarray(column.is_null().to_numpy())
    read = [pc.strptime(column, format=way, unit="s", error_is_null=True) for way in usual_ways(column)]
    readings = [_moments(moments, name, missing) for moments in read]
    if not readings:
        raise InputError(
            f"column {name!r} holds text such as {column.drop_null()[0].as_py()!r}, which is no date or number"
        )
    forward = [times for times in readings if (np.diff(times.values[~missing]) >= 0).all()]
    return (forward or readings)[0]


def usual_ways(column: Any) -> list[str]:
    """The usual ways in which every cell of a column of text is a date."""
    cells = column.drop_null()
    few = cells.slice(0, LOOKED_AT)
    likely = [day + hour for day in DAYS for hour in HOURS if len(few) and _fits(few, day + hour)]
    return [way for way in likely if _fits(cells, way)]


def _fits(cells: Any, way: str) -> bool:
    return bool(pc.strptime(cells, format=way, unit="s", error_is_null=True).null_count == 0)


def look_like_dates(column: Any) -> bool:
    """Whether the first cells of a column of text are dates in one of the usual ways."""
    return bool(usual_ways(column.drop_null().slice(0, LOOKED_AT)))


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
