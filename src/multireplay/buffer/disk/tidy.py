"""A text table as people write it: blanks around names, empty ends, and numbers such as 1,234.50, $12 or 3.5 %."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

SIGNS = ("", "%", "$", "€", "£", "¥", "₹", "EUR", "USD", "GBP", "CHF", "JPY")
"""What may stand before or after a number; a column has one of them in all of its cells, or none."""
UNIT = re.compile(r"[-+]?[\d.,' \u00a0\u202f]*\d[.,]?\s*([^\d\s.,][^\d]*)")
"""What else may stand after one, as kg or °C."""
_SPACES = " \u00a0\u202f'"
FEW = 100
NOTHING = ("-", "--", "---", "?")
"""Texts that stand for nothing, besides those of Arrow; a minus beside a plus does not."""
TEXT = pa.string()
CODE = r"^\s*0\d+\s*$"
"""A whole number with a zero before it."""


def tidied(table: Any, decimal: str, missing: Sequence[str] = ()) -> Any:
    """Names without blanks around them, numbers as people write them, and no empty cells at the ends.

    Texts for nothing are that among other texts too. One that is a number, such as -999, stands for it however it is
    written: -999.0.
    """
    names = [_bare(name) for name in table.column_names]
    names[0] = names[0].removeprefix("#").strip() or names[0]  # names in a comment, as NumPy writes them
    columns = [read_numerals(_emptied(column, missing), decimal) for column in table.columns]
    for word in filter(_is_number, missing):
        columns = [_without(column, float(word)) for column in columns]
    end = table.num_rows
    while end and all(column[end - 1].as_py() in (None, "") for column in table.columns):
        end -= 1
    kept = [k for k, name in enumerate(names) if name or columns[k].null_count < table.num_rows or not end]
    return pa.table([columns[k] for k in kept], names=[names[k] for k in kept]).slice(0, end)


def with_codes(table: Any, as_text: Callable[[list[str]], Any]) -> Any:
    """The table with columns of numbers as text where one of them has zeros before it, as names such as 02139 have."""
    numbers = [column.name for column in table.schema if _has_numbers(column)]
    names = [name for name in numbers if table.column_names.count(name) == 1]
    cells = as_text(names) if names else table
    for name in names:
        if pc.any(pc.match_substring_regex(cells.column(name), CODE)).as_py():
            table = table.set_column(table.column_names.index(name), name, cells.column(name))
    return table


def _has_numbers(column: Any) -> bool:
    return bool(pa.types.is_integer(column.type) or pa.types.is_floating(column.type))


def _is_number(word: str) -> bool:
    try:
        return math.isfinite(float(word))
    except ValueError:
        return False


def _emptied(column: Any, words: Sequence[str]) -> Any:
    if not pa.types.is_string(column.type):
        return column
    cells = pc.utf8_trim_whitespace(column)
    signs = pc.any(pc.equal(cells, "+")).as_py()
    nothing = pa.array([word for word in words if not (signs and word == "-")], TEXT)
    return pc.if_else(pc.is_in(cells, nothing), pa.scalar(None, TEXT), column)


def _without(column: Any, number: float) -> Any:
    if not _has_numbers(column):
        return column
    return pc.if_else(pc.equal(column, number), pa.scalar(None, column.type), column)


def _bare(name: str) -> str:
    name = name.strip()
    if len(name) > 2 and name[0] == name[-1] == '"':  # after a blank, where they are not seen as quotes
        name = name[1:-1].strip()
    return name


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
    cells = pc.replace_substring(pc.replace_substring_regex(cells, r"^\((.*\d.*)\)$", r"-\1"), "\u2212", "-")
    cells = pc.if_else(pc.equal(cells, ""), pa.scalar(None, pa.string()), cells)
    known = cells.drop_null()
    if pc.any(pc.match_substring_regex(known, CODE)).as_py():
        return column
    thousands = rf"[{_SPACES}{',' if decimal == '.' else '.'}]"
    unit = UNIT.fullmatch(known[0].as_py()) if len(known) else None
    for sign in (*SIGNS, *([unit[1].strip()] if unit else [])) if len(known) else ():
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
