"""Autocorrelation times at several scales: batch means see the slow component that a sum over short lags misses."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc

from multireplay.diagnose.autocorrelation import ENOUGH_TIMES, Floats, autocorrelations, windowed_sum
from multireplay.diagnose.chains import Lengths, known_lags

FEWEST_BATCHES = 8
SMALLEST_BATCH = 8  # the window is at least 5 lags, and batches within it say what the sum says


class Time(NamedTuple):
    """An autocorrelation time, and where it is from."""

    tau: float
    reliable: bool
    short: float
    """What the sum over short lags says."""
    batch: int
    """Rows in the batches that contradict it, so that `tau` is theirs; 1 where nothing does."""


class _Scales(NamedTuple):
    """Batches of several sizes: for each size and series m Var(mean of m rows)/Var(row), and its degrees of freedom."""

    sizes: Floats
    times: Floats
    freedom: Floats


def autocorrelation_times(centred: Floats, level: float, lengths: Lengths = ()) -> list[Time]:
    r"""The autocorrelation time of each row by the windowed sum, or, where they are significantly above it, by batches.

    Parameters
    ----------
    centred : ndarray, shape (series, rows)
        Series that vary, with mean zero.
    level : float
        Probability of contradicting the windowed sum of one series that is right, over all its batch sizes together.
    lengths : tuple of int
        Rows of the chains, if there are several: pairs and batches are within one. A time whose window is longer than
        the chains is not reliable.

    Notes
    -----
    If the autocorrelations end at the window W, batches of m > W rows have
    :math:`m\,\mathrm{Var}(\bar x_m)/\mathrm{Var}(x) = 1 + 2 \sum_{t \le W} (1 - t/m) \rho_t`. The left side is
    estimated with N − 1 degrees of freedom from N batches, or with :math:`2N/(\kappa - 1)` where their kurtosis κ says
    less; the right side, a spectral estimate at zero with a window of 2W + 1 lags, with rows/(2W + 1) (Madras and
    Sokal 1988, "The pivot algorithm", appendix C), after adding the share (2W + 1)/rows that the subtracted mean takes
    away. Their ratio is compared with the F distribution at `level` over the number of batch sizes.

    Where sizes contradict the sum, the largest value of any size is taken, which is cautious: with few large batches it
    is noisy. From the size that contradicts most clearly, m, to that value τ the memory of the slow component is about
    m τ/τ_m rows; it is reliable in a record of 50 times that.
    """
    rows = centred.shape[1]
    scales = _batch_means(centred, lengths or (rows,))
    known = known_lags(lengths) if len(lengths) > 1 else rows
    found = []
    for rho, times, freedom in zip(autocorrelations(centred, lengths), scales.times, scales.freedom, strict=True):
        tau, reliable, window = windowed_sum(rho)
        reliable = reliable and window < known
        lags = 2 * window + 1
        later = 2.0 * float(np.arange(window + 1) @ rho[: window + 1])
        expected = np.maximum(tau - later / scales.sizes, 1.0 / rows) * (1.0 + lags / rows)
        chance = np.where(scales.sizes > window, fdtrc(freedom, rows / lags, times / expected), 1.0)
        doubtful = chance * len(chance) < level
        if not doubtful.any():
            found.append(Time(tau, reliable, tau, 1))
            continue
        clarity = np.log(times[doubtful] / expected[doubtful]) * np.sqrt(freedom[doubtful])
        clearest, largest = np.flatnonzero(doubtful)[np.argmax(clarity)], np.argmax(times)
        slow = float(times[largest])
        memory = scales.sizes[clearest] * slow / times[clearest]
        found.append(Time(slow, bool(rows >= ENOUGH_TIMES * memory), tau, int(scales.sizes[largest])))
    return found


def _batch_means(centred: Floats, lengths: Lengths) -> _Scales:
    """Batches of 8, 16, 32, … rows as long as there are 8 of them."""
    variance = np.einsum("ij,ij->i", centred, centred) / centred.shape[1]
    sizes, times, freedom = [], [], []
    size, (means, counts) = SMALLEST_BATCH, _means(centred, SMALLEST_BATCH, np.array(lengths))
    while (count := means.shape[1]) >= FEWEST_BATCHES:
        squares = (means - means.mean(axis=1, keepdims=True)) ** 2
        spread = squares.mean(axis=1)
        kurtosis = np.einsum("ij,ij->i", squares, squares) / count / np.maximum(spread**2, np.finfo(float).tiny)
        sizes.append(size)
        times.append(size * spread * count / (count - 1) / variance)
        freedom.append(np.minimum(count - 1, 2 * count / np.maximum(kurtosis - 1, 1e-9)))
        size, (means, counts) = 2 * size, _means(means, 2, counts)
    shape = len(sizes), len(centred)
    return _Scales(np.array(sizes, dtype=np.float64), np.reshape(times, shape).T, np.reshape(freedom, shape).T)


def _means(series: Floats, size: int, lengths: NDArray[np.int64]) -> tuple[Floats, NDArray[np.int64]]:
    """Means of so many neighbours of a chain along each row, without those left at its end, and how many it has."""
    counts = lengths // size
    if len(lengths) == 1:
        count = int(counts[0])
        whole = series[:, : count * size].reshape(len(series), count, size)
        return np.asarray(whole @ np.full(size, 1.0 / size)), counts
    starts, before = np.cumsum(lengths) - lengths, np.cumsum(counts) - counts
    first = np.repeat(starts - size * before, counts) + size * np.arange(counts.sum())
    return np.asarray(sum(series[:, first + place] for place in range(size)) / size), counts
