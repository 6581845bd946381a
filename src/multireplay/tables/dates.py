"""Text that is dates, in one of the usual ways."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

DAYS = (
    "%Y-%m-%d", "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%Y/%m/%d", "%d-%m-%Y", "%Y%m%d", "%d/%m/%y", "%m/%d/%y",
    "%d.%m.%y", "%Y-%m", "%d %b %Y", "%b %d %Y",
)  # fmt: skip
HOURS = ("", " %H:%M", " %H:%M:%S", "T%H:%M", "T%H:%M:%S")
"""What may follow a day."""
LOOKED_AT = 200


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
