"""Cycles: lines in the periodogram far above their surroundings, and the record without them."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import fft
from scipy.signal.windows import hann

from multireplay._check import cores
from multireplay.diagnose.chains import Floats, Lengths, Stretch, stretches_of

FEWEST_TURNS = 16
GUARD, SURROUNDINGS = 3, 32  # ordinates left out around a line, and looked at beyond them on each side
DEPENDENT = 35 / 18  # variance of a mean of Hann-tapered ordinates: 1 + 2 (4/9 + 1/36) times that of independent ones
MOST_LINES, MOST_ROUNDS = 16, 4  # a strong line hides others near it, which are looked for again without it
FEWEST_OWN, FEWEST_ROWS = 2, 8  # turns in a chain, and rows for every sinusoid, to tell its phase there
SMALLEST_SHARE = 0.01
NOTHING_LEFT = 1e-6
"""Part of the variance beside a cycle below which the record is too regular to say anything."""


class Cycle(NamedTuple):
    """A part of a series that repeats."""

    period: float
    """Rows in a turn."""
    share: float
    """Its part of the variance."""


def remove_cycles(
    centred: Floats, level: float, lengths: Lengths = (), places: NDArray[np.int64] | None = None
) -> list[Cycle | None]:
    """Subtract from each row, in place, the cycle in it; None where there is none worth a percent of the variance.

    Parameters
    ----------
    centred : ndarray, shape (series, rows)
        Series that vary, with mean zero.
    level : float
        Probability of finding a cycle in one series without any.
    lengths : tuple of int
        Rows of the chains, if there are several. A cycle is looked for in the longest, and taken out of all that are
        long enough, with a phase of its own in each.
    places : ndarray of shape (rows,), optional
        Steps from the beginning of its group to a row. A cycle goes on through gaps, so that a whole group then takes
        the part of a chain, with 0 in its gaps where it is looked for, unless these are longer than what is there.

    Notes
    -----
    A cycle turns at least 16 times in the record. Its frequencies are ordinates of the periodogram (with a Hann taper,
    so that a line stays where it is) that are above the mean of their surroundings, on the left and on the right, by
    more than the largest of as many ordinates would be by chance: where the spectrum is smooth, the ratio to the mean
    of L ordinates exceeds r with probability (1 + r/L)^−L. The sinusoids are fitted by least squares, the strongest
    first, each at the frequency where the untapered periodogram is largest, and the rest is looked through again.
    """
    stretches = sorted(stretches_of(lengths, places, centred.shape[1]), key=lambda stretch: -len(stretch.places))
    longest = stretches[0]
    part = centred[:, longest.rows]
    found = _lines(longest.opened(part - part.mean(axis=1, keepdims=True) if len(stretches) > 1 else part), level)
    return [
        _remove(series, lines, level, stretches) if len(lines) else None
        for series, lines in zip(centred, found, strict=True)
    ]


def _lines(centred: Floats, level: float) -> list[Floats]:
    """For each row the frequencies that are significant and apart from each other, the strongest first."""
    count, rows = centred.shape
    length = fft.next_fast_len(rows, real=True)
    # Single precision is enough to find a line; what is subtracted is fitted in double.
    tapered = np.multiply(centred, hann(rows, sym=False), dtype=np.float32, casting="same_kind")
    spectrum = fft.rfft(tapered, n=length, axis=1, workers=min(count, cores()))
    return [_significant(power, level) / length for power in spectrum.real**2 + spectrum.imag**2]


def _significant(power: Floats, level: float) -> NDArray[np.intp]:
    """The ordinates of one periodogram that are above both sides by more than chance, the largest first."""
    last = len(power) - 1
    inner = power[FEWEST_TURNS : last - GUARD - FEWEST_TURNS // 2]
    at = FEWEST_TURNS + 1 + np.flatnonzero((inner[1:-1] >= inner[:-2]) & (inner[1:-1] > inner[2:]))
    around = np.minimum(np.minimum(at // 2, last - GUARD - at), SURROUNDINGS)
    total = np.concatenate(([0.0], np.cumsum(power, dtype=np.float64)))
    left = total[at - GUARD] - total[at - GUARD - around]
    right = total[at + GUARD + around + 1] - total[at + GUARD + 1]
    mean = np.maximum(np.maximum(left, right), np.finfo(float).eps * total[-1]) / around
    freedom = around / DEPENDENT
    significant = at[freedom * np.log1p(power[at] / mean / freedom) > math.log(len(power) / level)]
    lines: list[int] = []
    for k in significant[np.argsort(-power[significant])]:
        if len(lines) < MOST_LINES and all(abs(k - other) > GUARD for other in lines):
            lines.append(int(k))
    return np.array(lines, dtype=np.intp)


def _remove(series: Floats, lines: Floats, level: float, stretches: list[Stretch]) -> Cycle | None:
    """Subtract sinusoids near these frequencies, and those that come to light without them, if they are worth it."""
    rest, whole = series.copy(), float(series @ series)
    longest, *others = stretches
    exact = _taken_out(rest[longest.rows], longest, lines, level)
    fewest = max(FEWEST_OWN / min(exact), FEWEST_ROWS * len(exact))
    for stretch in others:
        if len(stretch.places) < fewest:
            break  # they become shorter
        part = rest[stretch.rows]
        mean = part.mean()
        wave = np.vstack([_wave(frequency, stretch.span)[:, stretch.places] for frequency in exact])
        part -= np.linalg.lstsq(wave.T, part - mean, rcond=None)[0] @ wave
    rest -= rest.mean()
    share = 1.0 - float(rest @ rest) / whole
    if share < SMALLEST_SHARE:
        return None
    series[:] = rest
    return Cycle(1.0 / _fundamental(np.array(exact), longest.span), share)


def _taken_out(rest: Floats, stretch: Stretch, lines: Floats, level: float) -> list[float]:
    """Subtract sinusoids from one stretch, in place, and return their frequencies, the strongest first."""
    whole, mean, exact = float(rest @ rest), rest.mean(), []
    rest -= mean
    for _ in range(MOST_ROUNDS):
        for near in lines:
            exact.append(_refined(stretch.opened(rest[None])[0], near))
            wave = _wave(exact[-1], stretch.span)[:, stretch.places]
            rest -= np.linalg.solve(wave @ wave.T, wave @ rest) @ wave
        (lines,) = _lines(stretch.opened(rest[None]), level)
        if not len(lines) or float(rest @ rest) < NOTHING_LEFT * whole:
            break
    rest += mean
    return exact


def _refined(series: Floats, near: float) -> float:
    """The frequency within an ordinate or so of another at which the periodogram is largest.

    Blocks are demodulated at the first frequency, and their sums at ever closer ones.
    """
    rows = len(series)
    size = -(-rows // 64)
    count = rows // size
    sums = series[: count * size].reshape(count, size) @ np.exp(-2j * np.pi * near * np.arange(size))
    starts, width = size * np.arange(count), 1.5 / rows
    while width > 1e-4 / rows:
        grid = near + width * np.linspace(-1, 1, 21)
        near = float(grid[np.argmax(np.abs(np.exp(-2j * np.pi * np.outer(grid, starts)) @ sums))])
        width /= 8
    return near


def _wave(frequency: float, rows: int) -> Floats:
    """Cosine and sine at every row, by products of two short exponentials."""
    size = math.isqrt(rows) + 1
    fine, coarse = (np.exp(2j * np.pi * frequency * step * np.arange(size)) for step in (1, size))
    whole = np.outer(coarse, fine).ravel()[:rows]
    return np.stack([whole.real, whole.imag])


def _fundamental(frequencies: Floats, rows: int) -> float:
    """The lowest frequency of which the first, the strongest one, is a multiple."""
    multiples = np.round(frequencies[0] / frequencies)
    off = np.abs(frequencies[0] - multiples * frequencies) * rows
    return float(frequencies[off < 0.1 * np.maximum(multiples, 1)].min())
