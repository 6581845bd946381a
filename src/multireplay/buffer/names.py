"""Names of features: those that are given, those that a data frame has for its columns, and how messages use them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from multireplay.errors import InputError, UncertaintyWarning, warn

Names: TypeAlias = tuple[str, ...]
"""One name a feature, all different and none empty."""

FEATURES = ("features", "next_features")
"""The columns of a record whose features have the buffer's names."""

INTERCEPT = "(intercept)"
"""What the coefficient of a column of ones is called that nobody has given."""


def as_names(names: Any, what: str = "names") -> Names:
    """The names given, or an error that calls them `what`."""
    if isinstance(names, str | bytes) or not isinstance(names, Iterable):
        raise InputError(f"{what} must be a list with a name for every feature, not {names!r}")
    found = tuple(names)
    for place, name in enumerate(found):
        if not isinstance(name, str):
            raise InputError(
                f"{what} must be texts, one for every feature, but at place {place} (counting from 0) there is "
                f"{name!r}; a column of the record cannot be called 'names'"
            )
        if not name.strip():
            raise InputError(f"{what} must not be empty, and at place {place} (counting from 0) there is {name!r}")
    if len(set(found)) < len(found):
        twice, times = Counter(found).most_common(1)[0]
        raise InputError(f"{what} must all be different, but {twice!r} is there {times} times")
    return tuple(map(str, found))


def require_count(names: Names, width: int, what: str = "names") -> None:
    """Raise unless there is a name for every feature."""
    if len(names) != width:
        raise InputError(f"{what} needs one for each of the {width} features, but there are {len(names)}")


def distinct(names: Iterable[Any]) -> Names | None:
    """Names that nobody has given as such, if they can serve: texts, none empty and no two the same."""
    found = tuple(names)
    fine = all(isinstance(name, str) and name.strip() for name in found) and 0 < len(set(found)) == len(found)
    return tuple(map(str, found)) if fine else None


def names_in(values: Any) -> Names | None:
    """The names that a data frame (pandas, polars, pyarrow, …) has for its columns, if they can serve."""
    if values is None or isinstance(values, np.ndarray | list | tuple):
        return None
    found = getattr(values, "column_names", getattr(values, "columns", ()))  # of pyarrow, and of all others
    return distinct(found) if isinstance(found, Iterable) else None


def refuse_twice(values: Any) -> None:
    """Raise where two columns of a data frame are called the same."""
    labels = getattr(values, "column_names", getattr(values, "columns", ()))
    if isinstance(labels, Iterable) and len(set(labels := tuple(labels))) < len(labels):
        twice, times = Counter(labels).most_common(1)[0]
        raise InputError(f"{times} columns of the data frame are called {twice!r}: which is meant?")


def warn_unordered(columns: Mapping[str, Any]) -> None:
    """Warn where rows come in another order than the index of a data frame or series, of numbers or dates, has."""
    for name, values in columns.items():
        index: Any = getattr(values, "index", None)
        if getattr(getattr(index, "dtype", None), "kind", "") in tuple("iufM") and not index.is_monotonic_increasing:
            return warn(
                f"rows are taken in the order in which they come, and the index of {name!r} is in another: sort by it "
                "(sort_index) if it tells when rows were, as standard errors depend on that, and otherwise drop it "
                "(reset_index(drop=True))",
                UncertaintyWarning,
            )


def refuse_reordered(names: Names, others: Names | None, what: str, against: str) -> None:
    """Raise where `what` has the same names in another order: numbers would stand for the wrong features."""
    if others is not None and names != others and set(names) == set(others):
        place = next(at for at, pair in enumerate(zip(names, others, strict=True)) if pair[0] != pair[1])
        raise InputError(f"{what} {others[place]!r} where {against} has {names[place]!r}: give all in one order")


def listed(names: Sequence[str], most: int) -> str:
    """The first names with commas between, and how many more there are.

    Examples
    --------
    >>> from multireplay.buffer.names import listed
    >>> listed(("temp", "hum", "wind", "sun"), 2)
    'temp, hum and 2 more'
    """
    return ", ".join(names[:most]) + f" and {len(names) - most} more" * (len(names) > most)


def place_in_words(place: tuple[int, ...], names: Names | None = None) -> str:
    """A place in a column of one or two dimensions, for messages.

    Examples
    --------
    >>> from multireplay.buffer.names import place_in_words
    >>> place_in_words((3, 1)), place_in_words((3, 1), ("temp", "hum"))
    ('row 3, feature 1 (counting from 0)', "row 3 (counting from 0), feature 'hum'")
    """
    row, *feature = place
    if feature and names is not None and feature[0] < len(names):
        return f"row {row} (counting from 0), feature {names[feature[0]]!r}"
    return f"row {row}{''.join(f', feature {number}' for number in feature)} (counting from 0)"
