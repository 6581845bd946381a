"""Rows in chains: groups, or what lies between gaps in time. Nothing is measured across the border of two of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy import fft

Floats = NDArray[np.float64]
Lengths = tuple[int, ...]
"""Rows of every chain, one after the other; empty where all rows are one."""

MOST_WEIGHT = 10.0
"""A lag that few chains are long enough for counts for no more than so many times what it shows."""


def slices(lengths: Lengths, rows: int) -> Iterator[slice]:
    """The rows of every chain."""
    ends = np.cumsum(lengths or (rows,)).tolist()
    return (slice(end - length, end) for end, length in zip(ends, lengths or (rows,), strict=True))


def pairs(lengths: Lengths) -> NDArray[np.int64]:
    """How many pairs of rows of one chain are 0, 1, 2, … apart, up to the longest chain."""
    longer = np.cumsum(np.bincount(lengths)[::-1])[::-1]  # chains of at least so many rows
    return np.asarray(np.cumsum(longer[:0:-1])[::-1])


def weights(lengths: Lengths) -> Floats:
    """What the sum over the pairs at a lag is multiplied by, so that it is as large as that of one long chain.

    That is cautious: rows on both sides of a short gap may depend on each other, though no pair of them is counted.
    """
    found = pairs(lengths)
    return np.minimum((sum(lengths) - np.arange(len(found))) / found, MOST_WEIGHT)


def known_lags(lengths: Lengths) -> int:
    """Lags at which there are pairs enough."""
    return int(np.count_nonzero(weights(lengths) < MOST_WEIGHT))


def autocorrelations_within(centred: Floats, lengths: Lengths) -> Floats:
    """Sample autocorrelations of each row at every lag from pairs within chains alone; 0 where there are none.

    Chains of about one length are transformed together, and their spectra added up.
    """
    rows, sizes = centred.shape[1], np.array(lengths)
    starts = np.cumsum(sizes) - sizes
    total = np.zeros_like(centred)
    doublings = np.ceil(np.log2(sizes)).astype(int)
    for doubling in np.unique(doublings):
        width, these = 2 ** int(doubling), doublings == doubling
        inside = np.arange(width) < sizes[these, None]
        places = np.minimum(starts[these, None] + np.arange(width), rows - 1)
        spectrum = fft.rfft(np.where(inside, centred[:, places], 0.0), n=2 * width, axis=2)
        power = np.einsum("ijk,ijk->ik", spectrum.real, spectrum.real)
        power += np.einsum("ijk,ijk->ik", spectrum.imag, spectrum.imag)
        last = min(width, rows)
        total[:, :last] += fft.irfft(power, n=2 * width, axis=1)[:, :last]
    total /= total[:, :1].copy()
    longest = int(sizes.max())
    total[:, :longest] *= weights(lengths)
    total[:, longest:] = 0.0
    return total
