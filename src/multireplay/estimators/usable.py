"""Which rows of a table an estimator learns from: those without missing values, chain by chain."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing, check_array

from multireplay.errors import InputError

MISSING = ("error", "drop")


def kept_rows(missing: str, X: Any, y: Any, groups: Any) -> Any:
    """The numbers of the rows to learn from, group by group, or None where that is all of them as they are."""
    if missing not in MISSING:
        raise InputError(f"missing must be 'error' or 'drop', not {missing!r}")
    if missing == "error" and groups is None:
        return None
    from multireplay.tables import chained

    whole = np.ones(_count(X), dtype=bool)
    if missing == "drop":
        loose = {"ensure_all_finite": "allow-nan", "ensure_min_samples": 0, "accept_sparse": "csr", "dtype": np.float64}
        rows = check_array(X, **loose)
        whole &= np.isfinite(rows.sum(axis=1)).ravel() if hasattr(rows, "tocsr") else np.isfinite(rows).all(axis=1)
        whole &= _there(np.asarray(y), len(whole))
        if not whole.any():
            raise InputError(f"all {len(whole)} rows have something missing, and missing='drop' leaves none")
    return chained(whole, None if groups is None else _one_a_row(groups, len(whole))).rows


def taken(values: Any, rows: Any) -> Any:
    """Some rows of anything that has rows; all of them where `rows` is None."""
    return values if rows is None or values is None or np.isscalar(values) else _safe_indexing(values, rows)


def _count(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def _there(y: Any, count: int) -> Any:
    """Where y has a value."""
    if y.shape[:1] != (count,):
        raise InputError(f"y has shape {y.shape}, but X has {count} rows")
    if y.dtype.kind == "f":
        return np.isfinite(y)
    return (
        np.array([one is not None and one == one for one in y]) if y.dtype.kind == "O" else np.ones(count, dtype=bool)
    )


def _one_a_row(groups: Any, count: int) -> Any:
    labels = np.asarray(groups)
    if labels.shape != (count,):
        raise InputError(f"groups has shape {labels.shape}, but X has {count} rows: it needs ({count},)")
    return labels


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
