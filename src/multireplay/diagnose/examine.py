"""From a record to its diagnosis: columns of finite real numbers, sparse ones and states as they are, each examined."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

from multireplay.buffer.buffer import STATES, Buffer
from multireplay.buffer.columns import SparseColumn, as_sparse_column
from multireplay.buffer.disk import StoredBuffer
from multireplay.buffer.names import Names, names_in
from multireplay.diagnose.autocorrelation import Floats, as_series, autocorrelation, blocks, check_shape
from multireplay.diagnose.batches import autocorrelation_times
from multireplay.diagnose.curves import curves_of
from multireplay.diagnose.cycles import NOTHING_LEFT, remove_cycles
from multireplay.diagnose.diagnosis import ColumnDiagnosis, Diagnosis
from multireplay.diagnose.record import ChainedColumns, as_record
from multireplay.errors import InputError

LEVEL = 0.02
"""Probability of a slow component, and of a cycle, found anywhere in a record without any."""


def diagnose(
    buffer: Buffer | StoredBuffer | Mapping[str, ArrayLike] | ArrayLike | ChainedColumns,
    *,
    extra: Mapping[str, ArrayLike] | None = None,
    max_features: int | None = 64,
    groups: Any = None,
    time: Any = None,
    on: Any = None,
) -> Diagnosis:
    """Measure how strongly the rows of a record depend on their neighbours; print it for a table and one sentence.

    Parameters
    ----------
    buffer : Buffer, StoredBuffer, mapping of names to arrays, data frame or array
        The ordered record, time along the first axis of every column. A bare array is named ``series``. Features go by
        the names of the buffer, or of a data frame. Columns of text in a data frame are left out.
    extra : mapping of names to arrays, optional
        Further series of the same length, examined like columns. What drives the error of a stochastic
        approximation is the autocorrelation of the operator at a point, F̃(x, ξ_t), row by row; pass it here
        as ``{"operator": values}``.
    max_features : int or None, default 64
        A column with more features is represented by this many, evenly spaced, or, where it is sparse, by those with
        the most nonzeros; None examines all. Columns of states count as one feature a state, 1 where it is visited.
    groups : array of shape (rows,) or str, optional
        Which of several series a row belongs to, as any labels, or the column that says so. The rows of a series are
        brought together, and nothing is measured across the border of two. Those of the buffer by default.
    time : array of shape (rows,) or str, optional
        When a row was: numbers or dates that do not go back within a group, or the column that says so. A gap, or a
        time that is there twice, is a border too. By default the one column (or the index) of dates of a data frame.
    on : dask.distributed.Client or concurrent.futures.Executor, optional
        Who measures, each some of the features, for a `Buffer` or `StoredBuffer`: see `multireplay.solve`.

    Notes
    -----
    The autocorrelation time is a sum of autocorrelations up to Sokal's window
    (`multireplay.diagnose.integrated_autocorrelation_time`), which misses two things that are therefore looked for.
    A *slow component* hidden under faster noise: where the variance of the means of 8, 16, 32, … rows is significantly
    above what the sum allows, these batches give the time, and the sentence says by how much they differ. A *cycle*:
    lines in the periodogram significantly above their surroundings are subtracted before anything is measured. A
    cycle averages out of a mean, so the time is that of the rest times its part of the variance, but no less than 1 if
    that of the rest is not. In a record with neither, one of the two is found with a probability of 2 % at most each,
    whatever the number of features.

    Where there are several chains (groups, or what lies between gaps), autocorrelations are of pairs of rows in one of
    them, scaled up to what one long chain would have; batches do not reach over a border. A cycle is looked for in the
    longest group with its gaps left open, as it goes on through them, or in the longest chain. The mean is that of all
    rows: groups that differ in level for good count as slow. An autocorrelation time that needs more lags than chains
    have rows is a lower bound.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.signal import lfilter
    >>> noise = np.random.default_rng(0).standard_normal((50_000, 3))
    >>> features = np.column_stack([np.ones(50_000), lfilter([1.0], [1.0, -0.9], noise[:, 0]), noise[:, 1]])
    >>> d = diagnose({"features": features, "rewards": noise[:, 2]})
    >>> round(d.tau, 1), round(d.ess), d.slowest.label, d.reliable
    (18.6, 2688, 'features[1]', True)
    >>> print(d)
    | column   | features | median tau | worst tau | at |   ESS |  ESS/B | note        |
    |----------|----------|------------|-----------|----|-------|--------|-------------|
    | features |        3 |        9.8 |      18.6 |  1 |  2688 | 5.38 % | 1 constant  |
    | rewards  |        1 |      0.999 |     0.999 |  - | 50041 |  100 % |             |
    <BLANKLINE>
    tau: integrated autocorrelation time in steps, 1 if independent. ESS = B/tau, B = 50000.
    <BLANKLINE>
    The slowest column (features[1]) has an autocorrelation time of 18.6 steps: ...
    """
    if max_features is not None and max_features < 1:
        raise InputError(f"max_features is {max_features}; it must be at least 1, or None for all.")
    if on is not None or isinstance(buffer, StoredBuffer):
        from multireplay.diagnose.stored import diagnose_stored  # which needs this module

        if not isinstance(buffer, Buffer | StoredBuffer) or any(given is not None for given in (extra, groups, time)):
            raise InputError("extra, groups and time are for a record in memory that is measured here")
        return diagnose_stored(buffer, max_features, on)
    record = as_record(buffer, groups, time)
    columns = record.columns
    for name, values in (extra or {}).items():
        if name in columns:
            raise InputError(f"The extra series {name!r} has the name of a column; give it another.")
        columns[name] = values
    if not columns:
        raise InputError("There are no columns to diagnose.")
    series: dict[str, Any] = {}
    for name, values in columns.items():
        sparse = as_sparse_series(name, values)
        series[name] = as_series(name, values) if sparse is None else sparse
    first, rows = next((name, array.shape[0]) for name, array in series.items())
    for name, array in series.items():
        if array.shape[0] != rows:
            raise InputError(
                f"Column {name!r} has {array.shape[0]} rows and {first!r} has {rows}; they must have the same."
            )
    if record.rows is not None:
        series = {name: _in_order(name, array, record.rows) for name, array in series.items()}
    counts = {name: min(array.shape[1], max_features or array.shape[1]) for name, array in series.items()}
    level = LEVEL / sum(counts.values())
    named = {name: names_in(values) for name, values in columns.items()}
    if isinstance(buffer, Buffer) and buffer.feature_names is not None:
        named["features"] = buffer.feature_names
        named["next_features"] = tuple(f"next {name}" for name in buffer.feature_names)
    entries = []
    for name, array in series.items():
        scalar = np.ndim(columns[name]) == 1 and not isinstance(array, SparseColumn)
        entries.append(_examine(name, array, (counts[name], record), (scalar, named[name]), level))
    slowest = [
        (entry, partial(autocorrelation, _slowest(array, entry), lengths=record.lengths))
        for entry, array in zip(entries, series.values(), strict=True)
    ]
    curves = curves_of(slowest, max(record.lengths or (rows,)))
    return Diagnosis(rows, tuple(entries), record.lengths, record.about, curves)


def _in_order(name: str, series: Any, rows: NDArray[np.int64]) -> Any:
    return as_sparse_column(name, series[rows]) if isinstance(series, SparseColumn) else series[rows]


def _slowest(series: Any, column: ColumnDiagnosis) -> Any:
    """The slowest feature of a column."""
    if column.worst_feature is None:
        return None
    values = series[:, [column.worst_feature]]
    return np.asarray(values.toarray() if issparse(values) else values, dtype=np.float64)[:, 0]


class Called(NamedTuple):
    """Whether a column has one axis, the names of its features, and whether it is sparse."""

    scalar: bool
    names: Names | None
    sparse: bool = False


class FeatureTimes(NamedTuple):
    """What was found in some features, NaN where there is nothing; `reliable` is 0 or 1, `share` that of a cycle."""

    tau: Floats
    reliable: Floats
    short: Floats
    batch: Floats
    period: Floats
    share: Floats
    rest: Floats


def measure(series: Any, features: NDArray[np.intp], level: float, record: ChainedColumns) -> FeatureTimes:
    """Cycles taken out, then the sum over short lags against batches."""
    found = FeatureTimes(*np.full((len(FeatureTimes._fields), len(features)), np.nan))
    for varying, centred in blocks(series, features):
        cycles = remove_cycles(centred, level, record.lengths, record.places)
        times = autocorrelation_times(centred, level, record.lengths)
        for i, cycle, time in zip(varying, cycles, times, strict=True):
            found.tau[i], found.reliable[i] = time.tau, time.reliable
            if time.batch > 1:
                found.short[i], found.batch[i] = time.short, time.batch
            if cycle is not None:
                left = 1.0 - cycle.share
                found.period[i], found.share[i], found.rest[i] = *cycle, time.tau
                found.tau[i] = max(left * time.tau, min(time.tau, 1.0))
                found.reliable[i] *= left > NOTHING_LEFT
    return found


def _examine(
    name: str, series: Any, extent: tuple[int, ChainedColumns], called: tuple[bool, Names | None], level: float
) -> ColumnDiagnosis:
    """Summarise one column by its slowest and its median feature, constant ones left out.

    `extent` is how many features are examined, and the record with the chains.
    """
    (rows, width), (scalar, names), (count, record) = series.shape, called, extent
    sparse = isinstance(series, SparseColumn)
    if sparse:
        features = most_frequent(series, count)
        found = measure(series[:, features].tocsc(), np.arange(count), level, record)
    else:
        features = evenly(width, count)
        found = measure(series, features, level, record)
    return summed_up(name, (rows, width), found, features, Called(scalar, names, sparse))


def evenly(width: int, count: int) -> NDArray[np.intp]:
    """So many features of as many as there are, at even spaces."""
    # Rounding keeps the features distinct because they are at least one apart before it.
    return np.linspace(0, width - 1, count).round().astype(np.intp)


def summed_up(
    name: str, shape: tuple[int, int], found: FeatureTimes, features: NDArray[np.intp], called: Called
) -> ColumnDiagnosis:
    """One column by its slowest and its median feature, constant ones left out."""
    (rows, width), (scalar, names, sparse), count, tau = shape, called, len(features), found.tau
    varies = np.flatnonzero(~np.isnan(tau))
    if varies.size == 0:
        return ColumnDiagnosis(name, width, math.nan, math.nan, None, math.nan, True, count, count, scalar, sparse)
    worst = varies[np.argmax(tau[varies])]
    turning = worst
    if np.isnan(found.period[worst]) and not np.isnan(found.period).all():
        turning = np.nanargmax(found.share)
    short, batch, period, rest = (
        None if np.isnan(value) else float(value)
        for value in (found.short[worst], found.batch[worst], found.period[turning], found.rest[worst])
    )
    return ColumnDiagnosis(
        name=name,
        width=width,
        tau_max=float(tau[worst]),
        tau_median=float(np.median(tau[varies])),
        worst_feature=int(features[worst]),
        ess=float(rows / tau[worst]),
        reliable=bool(found.reliable[worst]),
        examined=count,
        constant=count - varies.size,
        scalar=scalar,
        sparse=sparse,
        worst_name=None if names is None else names[features[worst]],
        tau_short=short,
        batch=None if batch is None else int(batch),
        period=period,
        cyclic_feature=None if period is None else int(features[turning]),
        tau_rest=rest,
        cyclic_name=None if period is None or names is None else names[features[turning]],
    )


def most_frequent(series: SparseColumn, count: int) -> NDArray[np.intp]:
    """The features with the most nonzeros, in rising order; among equals the first."""
    times = np.bincount(series.indices, minlength=series.shape[1])
    return np.sort(np.argsort(-times, kind="stable")[:count]).astype(np.intp)


def as_sparse_series(name: str, values: Any) -> SparseColumn | None:
    """A sparse column, checked; states as one indicator for each of them; None for any other column.

    The numbers of states are names: what depends on the past is which of them is visited.
    """
    if issparse(values):
        series = as_sparse_column(name, values)
    elif name in STATES and isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "iu":
        series = _visits(name, values)
    else:
        return None
    check_shape(name, series.shape)
    return series


def _visits(name: str, states: NDArray[Any]) -> SparseColumn:
    if len(states) and states.min() < 0:
        row = int(np.flatnonzero(states < 0)[0])
        raise InputError(f"Column {name!r} is {states[row]} at row {row}; states are counted from 0.")
    shape = len(states), int(states.max(initial=-1)) + 1
    return as_sparse_column(name, SparseColumn((np.ones(len(states)), states, np.arange(len(states) + 1)), shape=shape))
