"""Which rows of a table an estimator learns from: those without missing values, chain by chain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import _safe_indexing, check_array

from multireplay._check import one_a_row
from multireplay.buffer.names import names_in, place_in_words, refuse_twice, warn_unordered
from multireplay.errors import InputError

if TYPE_CHECKING:
    from multireplay.tables import ChainedRows

MISSING = ("error", "drop")
PLAIN = (np.dtype(np.float64), np.dtype(np.float32))


def kept_rows(host: Any, X: Any, y: Any, groups: Any, more: bool = False) -> ChainedRows | None:
    """The rows to learn from, group by group; None where that is all of them as they are. The host counts the rest.

    Of `more` rows, which come after others, none may be left, and the count goes on.
    """
    if host.missing not in MISSING:
        raise InputError(f"missing must be 'error' or 'drop', not {host.missing!r}")
    refuse_twice(X)
    if groups is None and not more:
        warn_unordered({"X": X, "y": y})
    host.n_dropped_ = getattr(host, "n_dropped_", 0) if more else 0
    if host.missing == "error" and groups is None:
        return None
    from multireplay.tables import chained

    whole = np.ones(_count(X), dtype=bool)
    if host.missing == "drop":
        loose = {"ensure_all_finite": "allow-nan", "ensure_min_samples": 0, "accept_sparse": "csr", "dtype": np.float64}
        rows = check_array(X, **loose)
        whole &= np.isfinite(rows.sum(axis=1)).ravel() if hasattr(rows, "tocsr") else np.isfinite(rows).all(axis=1)
        whole &= _there(np.asarray(y), len(whole))
        if not (whole.any() or more):
            raise InputError(f"all {len(whole)} rows have something missing, and missing='drop' leaves none")
        host.n_dropped_ += int((~whole).sum())
    labels = None if groups is None else np.asarray(groups)
    if labels is not None:
        one_a_row("groups", labels.shape, len(whole))
    return chained(whole, labels)


def taken(values: Any, kept: ChainedRows | None) -> Any:
    """The rows of anything that has rows that are kept; all of them where that is None."""
    return values if kept is None or values is None or np.isscalar(values) else _safe_indexing(values, kept.rows)


def _count(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def _there(y: Any, count: int) -> Any:
    """Where y has a value."""
    if y.shape[:1] != (count,):
        raise InputError(f"y has shape {y.shape}, but X has {count} rows")
    if y.dtype.kind == "f":
        return np.isfinite(y)
    return np.array([not _is_nothing(one) for one in y]) if y.dtype.kind == "O" else np.ones(count, dtype=bool)


def usable_as_they_are(estimator: Any, arrays: Sequence[Any], fewest: int = 1) -> bool:
    """Whether scikit-learn's checks would hand these arrays back as they are: they take longer than one row does.

    Plain arrays of finite numbers as wide as those before, which had no names.
    """
    X, *targets = arrays
    if type(X) is not np.ndarray or X.dtype not in PLAIN or X.ndim != 2 or hasattr(estimator, "feature_names_in_"):
        return False
    if X.shape[1] != estimator.n_features_in_ or len(X) < fewest or not np.isfinite(X).all():
        return False
    return all(
        type(y) is np.ndarray and y.dtype.kind in "fiu" and y.shape == X.shape[:1] and bool(np.isfinite(y).all())
        for y in targets
    )


def refuse_by_place(X: Any, y: Any = None) -> None:
    """Raise where a value of X is no finite number, or one of y is NaN or infinite, with its row and column.

    scikit-learn's checks say only that there is one.
    """
    for what, values in (("X", X), ("y", y)):
        names, sparse = names_in(values), hasattr(values, "tocoo")
        entries: Any = values.tocoo() if sparse else np.asarray(values)
        cells = np.asarray(entries.data if sparse else entries)
        bad = np.zeros(cells.shape, dtype=bool)
        if cells.dtype.kind == "f":
            bad = ~np.isfinite(cells)
        elif what == "X" and cells.ndim == 2 and cells.dtype.kind in "OU":
            bad = np.vectorize(_is_none, otypes=[bool])(cells)
        elif cells.ndim == 1 and cells.dtype.kind == "O":
            bad = np.vectorize(_is_nothing, otypes=[bool])(cells)
        if not bad.any():
            continue
        first = tuple(int(at) for at in np.argwhere(bad)[0])
        place = (int(entries.row[first]), int(entries.col[first])) if sparse else first
        value = cells[first]
        if not (isinstance(value, str | float | np.floating) or _is_nothing(value)):  # scikit-learn says what it is
            continue
        told = repr(value) if isinstance(value, str) else "NaN" if _is_nothing(value) else str(value)
        said = ", which is not a number" if isinstance(value, str) else "; all values must be finite"
        also = ", and missing='drop' leaves out rows that have one missing" * (told == "NaN")
        raise InputError(f"{what} holds {told} at {place_in_words(place, names)}{said}{also}")


def _is_nothing(cell: Any) -> bool:
    try:
        return cell is None or bool(cell != cell)
    except (TypeError, ValueError):  # NA of pandas is not even that; an array is something
        return np.ndim(cell) == 0


def _is_none(cell: Any) -> bool:
    try:
        return not np.isfinite(float(cell))
    except (TypeError, ValueError):
        return True


def as_table(data: Any) -> Any:
    """A data frame (pandas, polars) or Arrow table as an Arrow table."""
    import pyarrow as pa

    if isinstance(data, pa.Table):
        return data
    if hasattr(data, "to_arrow"):
        return data.to_arrow()
    if hasattr(data, "iloc"):
        return pa.Table.from_pandas(data, preserve_index=False)
    if isinstance(data, dict):
        return pa.table(data)
    raise InputError(
        f"a formula needs a data frame (pandas or polars), an Arrow table or a dictionary, not {type(data)}"
    )
