"""Rows in chains: groups, or what lies between gaps in time. Nothing is measured across the border of two of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import fft

Floats = NDArray[np.float64]
Lengths = tuple[int, ...]
"""Rows of every chain, one after the other; empty where all rows are one."""

MOST_WEIGHT = 10.0
"""A lag that few chains are long enough for counts for no more than so many times what it shows."""


class Stretch(NamedTuple):
    """Rows on one clock: a slice of them, and how many steps after the first each is."""

    rows: slice
    places: NDArray[np.int64]

    @property
    def span(self) -> int:
        """Steps from the first to the last row, both counted."""
        return int(self.places[-1]) + 1

    def opened(self, series: Floats) -> Floats:
        """Series of these rows, along the last axis, with 0 in the gaps between them."""
        if self.span == len(self.places):
            return series
        found = np.zeros((len(series), self.span))
        found[:, self.places] = series
        return found


def stretches_of(lengths: Lengths, places: NDArray[np.int64] | None, rows: int) -> Iterator[Stretch]:
    """Groups with their gaps if places are known and the gaps not longer than what is there, otherwise chains."""
    if places is not None and len(places):
        bounds = [0, *(np.flatnonzero(np.diff(places) < 0) + 1).tolist(), rows]
        found = [Stretch(slice(*pair), places[slice(*pair)] - places[pair[0]]) for pair in pairwise(bounds)]
        if all(stretch.span <= 2 * len(stretch.places) for stretch in found):
            yield from found
            return
    for low, high in pairwise([0, *np.cumsum(lengths or (rows,)).tolist()]):
        yield Stretch(slice(low, high), np.arange(high - low))


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
