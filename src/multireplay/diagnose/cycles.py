"""Cycles: lines in the periodogram far above their surroundings, and the record without them."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from joblib import cpu_count
from numpy.typing import NDArray
from scipy import fft
from scipy.signal.windows import hann

from multireplay.diagnose.autocorrelation import Floats

FEWEST_TURNS = 16
GUARD, SURROUNDINGS = 3, 32  # ordinates left out around a line, and looked at beyond them on each side
DEPENDENT = 35 / 18  # variance of a mean of Hann-tapered ordinates: 1 + 2 (4/9 + 1/36) times that of independent ones
MOST_LINES = 16
SMALLEST_SHARE = 0.01


class Cycle(NamedTuple):
    """A part of a series that repeats."""

    period: float
    """Rows in a turn."""
    share: float
    """Its part of the variance."""


def remove_cycles(centred: Floats, level: float) -> list[Cycle | None]:
    """Subtract from each row, in place, the cycle in it; None where there is none worth a percent of the variance.

    Parameters
    ----------
    centred : ndarray, shape (series, rows)
        Series that vary, with mean zero.
    level : float
        Probability of finding a cycle in one series without any.

    Notes
    -----
    A cycle turns at least 16 times in the record. Its frequencies are ordinates of the periodogram (with a Hann taper,
    so that a line stays where it is) that are above the mean of their surroundings, on the left and on the right, by
    more than the largest of as many ordinates would be by chance: where the spectrum is smooth, the ratio to the mean
    of L ordinates exceeds r with probability (1 + r/L)^−L. The sinusoids are fitted by least squares, the strongest
    first, each at the frequency where the untapered periodogram is largest.
    """
    count, rows = centred.shape
    length = fft.next_fast_len(rows, real=True)
    spectrum = fft.rfft(centred * hann(rows, sym=False), n=length, axis=1, workers=min(count, int(cpu_count())))
    return [
        _remove(series, _lines(power, level) / length)
        for series, power in zip(centred, spectrum.real**2 + spectrum.imag**2, strict=True)
    ]


def _lines(power: Floats, level: float) -> NDArray[np.intp]:
    """The ordinates that are significant and apart from each other, the largest first."""
    last = len(power) - 1
    at = np.arange(FEWEST_TURNS, last - GUARD - FEWEST_TURNS // 2)
    around = np.minimum(np.minimum(at // 2, last - GUARD - at), SURROUNDINGS)
    total = np.concatenate(([0.0], np.cumsum(power)))
    left = total[at - GUARD] - total[at - GUARD - around]
    right = total[at + GUARD + around + 1] - total[at + GUARD + 1]
    floor = np.finfo(float).eps * total[-1]
    freedom = around / DEPENDENT
    ratio = power[at] * around / np.maximum(np.maximum(left, right), floor)
    significant = at[freedom * np.log1p(ratio / freedom) > math.log(len(power) / level)]
    lines: list[int] = []
    for k in significant[np.argsort(-power[significant])]:
        if len(lines) < MOST_LINES and all(abs(k - other) > GUARD for other in lines):
            lines.append(int(k))
    return np.array(lines, dtype=np.intp)


def _remove(series: Floats, frequencies: Floats) -> Cycle | None:
    """Subtract sinusoids near these frequencies if they are worth it."""
    if not len(frequencies):
        return None
    rest, exact = series.copy(), []
    for near in frequencies:
        exact.append(_refined(rest, near))
        wave = _wave(exact[-1], len(rest))
        gram = np.array([[wave.real @ wave.real, wave.real @ wave.imag], [wave.real @ wave.imag, wave.imag @ wave.imag]])
        cosine, sine = np.linalg.solve(gram, [wave.real @ rest, wave.imag @ rest])
        rest -= cosine * wave.real
        rest -= sine * wave.imag
    rest -= rest.mean()
    share = 1.0 - float(rest @ rest) / float(series @ series)
    if share < SMALLEST_SHARE:
        return None
    series[:] = rest
    return Cycle(1.0 / _fundamental(np.array(exact), len(series)), share)


def _refined(series: Floats, near: float) -> float:
    """The frequency within an ordinate or so of another at which the periodogram is largest.

    Blocks are demodulated at the first frequency, and their sums at ever closer ones.
    """
    rows = len(series)
    size = math.isqrt(rows)
    count = rows // size
    sums = series[: count * size].reshape(count, size) @ np.exp(-2j * np.pi * near * np.arange(size))
    starts, width = size * np.arange(count), 1.5 / rows
    while width > 1e-4 / rows:
        grid = near + width * np.linspace(-1, 1, 21)
        near = float(grid[np.argmax(np.abs(np.exp(-2j * np.pi * np.outer(grid, starts)) @ sums))])
        width /= 8
    return near


def _wave(frequency: float, rows: int) -> NDArray[np.complex128]:
    """exp(2πi f t) for every row, as products of two short ones."""
    size = math.isqrt(rows) + 1
    fine, coarse = (np.exp(2j * np.pi * frequency * step * np.arange(size)) for step in (1, size))
    return np.asarray(np.outer(coarse, fine).ravel()[:rows])


def _fundamental(frequencies: Floats, rows: int) -> float:
    """The lowest frequency of which the first, the strongest one, is a multiple."""
    multiples = np.round(frequencies[0] / frequencies)
    off = np.abs(frequencies[0] - multiples * frequencies) * rows
    return float(frequencies[off < 0.1 * np.maximum(multiples, 1)].min())
