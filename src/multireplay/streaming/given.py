"""What `observe` and `predict` are given, as the stream reads it: features by name, and times as seconds."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

import numpy as np

from multireplay._check import Vector
from multireplay.buffer.names import FEATURES, Names, distinct, names_in
from multireplay.errors import InputError

FEW = 5
"""Names that a message gives."""


def readable(given: Mapping[str, Any]) -> None:
    """Raise where a column is no array, as a list of rows of different lengths, naming it."""
    for name, value in given.items():
        try:
            np.shape(value)
        except (TypeError, ValueError) as error:
            raise InputError(f"column {name!r} is not a regular array: {error}") from None


def named(values: Any) -> Names | None:
    """The names that features come with: the columns of a data frame, or the index of one row of it."""
    if isinstance(values, np.ndarray | list | tuple):
        return None
    found, index = names_in(values), getattr(values, "index", None)
    if found is None and np.ndim(values) == 1 and index is not None and not callable(index):
        return distinct(index)
    return found


def in_order(names: Names | None, values: Any, what: str) -> Any:
    """Features that come with the stream's names, in its order; an error where they come with others.

    Examples
    --------
    >>> import pandas as pd
    >>> from multireplay.streaming.given import in_order
    >>> in_order(("a", "b"), pd.Series({"b": 1.0, "a": 2.0}), "'features'").tolist()
    [2.0, 1.0]
    """
    own = named(values)
    if names is None or own is None or own == names:
        return values
    if set(own) == set(names):
        select = values.select if hasattr(values, "select") else values.__getitem__
        return select(list(names))
    lacks = [f"lacks {_listed([name for name in names if name not in own])}"] * bool(set(names) - set(own))
    more = [f"has {_listed([name for name in own if name not in names])}"] * bool(set(own) - set(names))
    raise InputError(f"{what} {' and '.join((*lacks, *more))}: the features of the stream are {_listed(names)}")


def _listed(names: Any) -> str:
    return ", ".join(map(repr, names[:FEW])) + " …" * (len(names) > FEW)


def ordered(names: Names | None, given: Mapping[str, Any]) -> tuple[dict[str, Any], Names | None]:
    """A block with its features in the stream's order, and their names if they came with names."""
    own = named(given.get(FEATURES[0]))
    found = own if names is None else names
    rows = {
        name: in_order(found, value, f"column {name!r}") if name in FEATURES else value for name, value in given.items()
    }
    return rows, own and found


def as_rows(names: Names | None, features: Any, width: int) -> Vector:
    """One row of features to predict at, or several, in the stream's order."""
    try:
        rows = np.asarray(in_order(names, features, "'features'"), dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"'features' must be an array of real numbers, not {features!r}") from None
    if rows.ndim not in (1, 2) or rows.shape[-1] != width:
        raise InputError(f"predict takes rows of {width} features, as the stream has them, not of shape {rows.shape}")
    return rows


def as_moments(times: Any) -> Vector:
    """Numbers as they are, and dates of all kinds (also as text, ISO 8601) as seconds since 1970."""
    found = np.atleast_1d(np.asarray(times))
    if found.dtype.kind == "M":
        return np.where(np.isnat(found), np.nan, found.astype("datetime64[us]").astype(np.int64) / 1e6)
    if found.dtype.kind in "OUS":
        return np.array([moment(value, "time") for value in found.ravel()]).reshape(found.shape)
    if found.dtype.kind not in "biuf":
        raise InputError(f"time is {times!r}, which is neither a number nor a date")
    return found.astype(np.float64)


def moment(value: Any, what: str) -> float:
    """One number or date; without a zone a date is in UTC.

    Examples
    --------
    >>> from multireplay.streaming.given import moment
    >>> moment("1970-01-02", "time"), moment("1970-01-01T02:00+01:00", "time"), moment(5, "time")
    (86400.0, 3600.0, 5.0)
    """
    try:
        if isinstance(value, np.datetime64):
            return float(as_moments(value)[0])
        if not isinstance(value, date):
            try:
                return float(value)
            except ValueError:
                value = datetime.fromisoformat(value)
        when = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{what} is {value!r}, which is neither a number nor a date") from None
