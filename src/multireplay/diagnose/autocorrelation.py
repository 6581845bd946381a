"""Integrated autocorrelation time by FFT, with Sokal's automatic window, many features at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import fft
from scipy.sparse import issparse

from multireplay._check import cores
from multireplay.buffer.foreign import as_numpy
from multireplay.buffer.names import Names, names_in
from multireplay.diagnose.chains import Lengths, autocorrelations_within
from multireplay.errors import InputError

MIN_ROWS = 4
_CHUNK_VALUES = 2**21
A_ROW = 80
"""Bytes that `autocorrelations` takes for a row of a feature."""
ENOUGH_TIMES = 50  # a record shorter than this many autocorrelation times cannot be trusted to show them

Floats = NDArray[np.float64]


def integrated_autocorrelation_time(x: ArrayLike, *, c: float = 5.0) -> float | Floats:
    r"""Integrated autocorrelation time :math:`\tau = 1 + 2 \sum_{t \ge 1} \rho_t`, in steps.

    The mean of B dependent samples is about as accurate as the mean of B/τ independent ones, so
    independent samples have τ = 1.

    Parameters
    ----------
    x : array_like, shape (rows,) or (rows, features)
        The series, time along the first axis.
    c : float, default 5
        The sum stops at the smallest window W with W ≥ c τ(W). Larger is less biased and noisier.

    Returns
    -------
    float or ndarray of shape (features,)
        One time per feature, NaN for a constant one. A time below 1, where neighbours offset each other, is
        only believed if its window is within c/50 of the rows, else 1 is returned; never below 1/rows.

    Notes
    -----
    The window is that of A. Sokal, "Monte Carlo methods in statistical mechanics" (1997), section 3. Where neighbours
    repel each other, τ(W) swings around its limit and may be negative at the first W that passes. If that rule gives
    τ < 1, the window is therefore chosen again with :math:`|\rho_t|` in place of :math:`\rho_t`, counting only the lags
    beyond the noise level :math:`2/\sqrt{B}`.

    Two things the window cannot see: a component that is slow but so weak that the sum stops before it adds
    up, and a period, of which it measures the first swing and not the cancellation after a full turn.
    `multireplay.diagnose` looks for both.

    Examples
    --------
    An AR(1) series with coefficient φ has τ = (1 + φ)/(1 − φ), here 19.

    >>> import numpy as np
    >>> from scipy.signal import lfilter
    >>> noise = np.random.default_rng(0).standard_normal(200_000)
    >>> round(integrated_autocorrelation_time(noise), 2)
    0.99
    >>> round(integrated_autocorrelation_time(lfilter([1.0], [1.0, -0.9], noise)), 1)
    20.0
    >>> integrated_autocorrelation_time(np.column_stack([noise, np.ones_like(noise)])).round(1)
    array([ 1., nan])
    """
    if not c > 0:
        raise InputError(f"c is {c}; the window must be a positive multiple of the autocorrelation time.")
    series = as_series("x", x)
    tau, _ = estimate(series, np.arange(series.shape[1]), c=c)
    return float(tau[0]) if np.ndim(x) == 1 else tau


def as_series(name: str, values: ArrayLike) -> NDArray[Any]:
    """One column as a finite real ``(rows, features)`` array, a view of the input wherever possible."""
    try:
        array = as_numpy(values)
    except (TypeError, ValueError) as error:
        raise InputError(f"Column {name!r} cannot be read as an array: {error}.") from error
    if array.dtype.kind not in "biuf":
        raise InputError(f"Column {name!r} holds {array.dtype}; only real numbers and booleans are measured.")
    if array.ndim not in (1, 2):
        raise InputError(f"Column {name!r} has {array.ndim} axes; it must have one (rows) or two (rows, features).")
    check_shape(name, array.shape)
    _check_finite(name, array, names_in(values))
    return array[:, None] if array.ndim == 1 else array


def check_shape(name: str, shape: tuple[int, ...]) -> None:
    if shape[0] < MIN_ROWS:
        raise InputError(
            f"Column {name!r} has {shape[0]} rows; at least {MIN_ROWS} are needed to see how neighbours depend on "
            "each other."
        )
    if len(shape) == 2 and shape[1] == 0:
        raise InputError(f"Column {name!r} has no features: its shape is {shape}.")


def _check_finite(name: str, array: NDArray[Any], names: Names | None) -> None:
    """Refuse NaN and infinity, naming the first row that has one; a block of rows at a time."""
    if array.dtype.kind != "f":
        return
    rows = max(1, _CHUNK_VALUES // (array.size // array.shape[0]))
    for start in range(0, array.shape[0], rows):
        finite = np.isfinite(array[start : start + rows])
        if not finite.all():
            where = np.argwhere(~finite)[0]
            row = start + int(where[0])
            called = "" if array.ndim == 1 else int(where[1]) if names is None else repr(names[where[1]])
            place = f"{name!r}" if array.ndim == 1 else f"{name!r}, feature {called},"
            value = array[(row, *where[1:])]
            raise InputError(f"Column {place} is {value} at row {row}; every value must be finite.")


def autocorrelation(x: ArrayLike, lags: int, lengths: Lengths = ()) -> Floats:
    """Sample autocorrelations of one series at lags 0, …, `lags`, NaN if it is constant."""
    series = as_series("x", x)
    if series.shape[1] != 1:
        raise InputError(f"x has {series.shape[1]} features; give one series at a time.")
    if not 0 <= lags < len(series):
        raise InputError(f"lags is {lags}; a series of {len(series)} rows has lags 0 to {len(series) - 1}.")
    centred, varies = _centred(series, np.arange(1))
    return autocorrelations(centred, lengths)[0, : lags + 1] if varies.all() else np.full(lags + 1, np.nan)


class WindowedSum(NamedTuple):
    """An autocorrelation time by the automatic window, whether the record is long enough for it, and the last lag."""

    tau: float
    reliable: bool
    window: int


def estimate(
    series: NDArray[Any],
    features: NDArray[np.intp],
    *,
    c: float = 5.0,
    block_bytes: int = 128 * 2**20,
    lengths: Lengths = (),
) -> tuple[Floats, NDArray[np.bool_]]:
    """Autocorrelation times of some features, NaN where constant, and whether the record is long enough for each.

    The array has been checked. `lengths` are those of the chains that the rows are in, if these are several.
    """
    tau = np.full(len(features), np.nan)
    reliable = np.ones(len(features), dtype=np.bool_)
    for varying, centred in blocks(series, features, block_bytes):
        for i, rho in zip(varying, autocorrelations(centred, lengths), strict=True):
            tau[i], reliable[i], _ = windowed_sum(rho, c)
    return tau, reliable


def blocks(
    series: NDArray[Any], features: NDArray[np.intp], block_bytes: int = 128 * 2**20
) -> Iterator[tuple[NDArray[np.intp], Floats]]:
    """The features that vary as contiguous rows with mean zero, some at a time, and which of the features they are."""
    block = together(series.shape[0], block_bytes)
    for start in range(0, len(features), block):
        centred, varies = _centred(series, features[start : start + block])
        if varies.any():
            yield start + np.flatnonzero(varies), centred


def together(rows: int, block_bytes: int = 128 * 2**20) -> int:
    """How many features of so many rows are measured at a time, each with what `autocorrelations` takes."""
    return max(1, block_bytes // (A_ROW * rows))


def _centred(series: NDArray[Any], features: NDArray[np.intp]) -> tuple[Floats, NDArray[np.bool_]]:
    """The features that vary as contiguous rows with mean zero and size one, and which ones they are."""
    chosen: Any = series[:, features]
    chosen = chosen.toarray() if issparse(chosen) else chosen
    block = np.array(chosen.T, dtype=np.float64, order="C")
    # Halves cannot overflow when subtracted; relative to the first row, a constant is exactly zero.
    block *= 0.5
    block -= block[:, :1].copy()
    size = np.maximum(block.max(axis=1), -block.min(axis=1))
    varies = size > 0
    if not varies.all():
        block = block[varies]
    block /= size[varies, None]
    block -= block.mean(axis=1, keepdims=True)
    return block, varies


def autocorrelations(centred: Floats, lengths: Lengths = ()) -> Floats:
    """Sample autocorrelations of each row at every lag, by zero-padded real FFT (Wiener and Khinchin).

    `lengths` are those of the chains that the rows are in, if these are several.
    """
    if len(lengths) > 1:
        return autocorrelations_within(centred, lengths)
    count, rows = centred.shape
    length = fft.next_fast_len(2 * rows - 1, real=True)
    workers = min(count, cores())
    spectrum = fft.rfft(centred, n=length, axis=1, workers=workers)
    spectrum.real **= 2
    spectrum.imag **= 2
    spectrum.real += spectrum.imag
    spectrum.imag = 0.0
    rho: Floats = fft.irfft(spectrum, n=length, axis=1, workers=workers, overwrite_x=True)[:, :rows]
    rho /= rho[:, :1].copy()
    return rho


def windowed_sum(rho: Floats, c: float = 5.0) -> WindowedSum:
    """Sum autocorrelations up to the automatic window."""
    rows = len(rho)
    window = _window(rho, c)
    tau = _sum(rho, window)
    settled = True
    if tau < 1.0:
        size = np.abs(rho)
        size[size < 2.0 / np.sqrt(rows)] = 0.0
        window = _window(size, c)
        tau = _sum(rho, window)
        settled = window * ENOUGH_TIMES <= rows * c
    reliable = bool(settled and rows >= ENOUGH_TIMES * max(tau, 1.0))
    # The mean over the record is subtracted, so that all ρ sum to −1/2: a short series always seems to repel.
    return WindowedSum(max(tau, 1.0 / rows if reliable else 1.0), reliable, window)


def _sum(rho: Floats, window: int) -> float:
    return 2.0 * float(np.sum(rho[: window + 1])) - 1.0


def _window(rho: Floats, c: float) -> int:
    """The first lag that is at least c times the sum up to it, the last one when there is none."""
    length = 1024
    while True:
        passed = np.arange(min(length, len(rho))) >= c * (2.0 * np.cumsum(rho[:length]) - 1.0)
        first = int(np.argmax(passed))
        if passed[first] or length >= len(rho):
            return first if passed[first] else len(rho) - 1
        length *= 8
