"""Numbers as people write them in text: 1,234.50, $ 12, 3.5 %, 1.234,50 €."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

SIGNS = ("", "%", "$", "€", "£", "¥", "₹")
"""What may stand before or after a number; a column has one of them in all of its cells, or none."""
_SPACES = " \u00a0\u202f'"
FEW = 100


def read_numerals(column: Any, decimal: str) -> Any:
    """The numbers of a column of text where every cell is one, in thousands or with a sign; otherwise the column.

    Percents stay as they are written: 3.5 % is 3.5.

    Examples
    --------
    >>> import pyarrow as pa
    >>> read_numerals(pa.chunked_array([["$1,234.50", "-$12", None]]), ".").to_pylist()
    [1234.5, -12.0, None]
    """
    if not pa.types.is_string(column.type):
        return column
    cells = pc.replace_substring_regex(pc.utf8_trim_whitespace(column), '^"(.*)"$', r"\1")  # quotes after a blank
    cells = pc.if_else(pc.equal(cells, ""), pa.scalar(None, pa.string()), cells)
    known = cells.drop_null()
    thousands = rf"[{_SPACES}{',' if decimal == '.' else '.'}]"
    for sign in SIGNS if len(known) else ():
        pattern = _pattern(sign, thousands, decimal)
        if _all_match(known.slice(0, FEW), pattern) and _all_match(known, pattern):
            bare = pc.replace_substring_regex(cells, rf"{thousands}|\s|{re.escape(sign)}", "")
            return pc.replace_substring(bare, decimal, ".").cast(pa.float64())
    return column


def _pattern(sign: str, thousands: str, decimal: str) -> str:
    number = rf"(\d+|\d{{1,3}}({thousands}\d{{3}})+)?({re.escape(decimal)}\d*)?([eE][-+]?\d+)?"
    mark = re.escape(sign)
    return rf"^([-+]?{number}\s*{mark}|[-+]?{mark}\s*{number}|{mark}\s*[-+]?{number})$"


def _all_match(cells: Any, pattern: str) -> bool:
    digits = pc.match_substring_regex(cells, r"\d")
    return bool(pc.all(pc.and_(digits, pc.match_substring_regex(cells, pattern))).as_py())
