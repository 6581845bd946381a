"""Long memory allowed for: the variance of a mean from all spectra of a family, each believed as far as it fits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtr, stdtr

from multireplay._check import Positions, Vector
from multireplay.inference.longrun.base import LongRun, Spread, centred

HIGHEST = 256
"""Frequencies that are looked at, the lowest: what is quicker says nothing of the mean, and may be of any kind."""
SINGLE, BANDS = 8, 20
"""The lowest are taken one by one, the others in bands whose width grows with the frequency."""
ORDERS = np.arange(10) / 20
"""Of fractional integration: autocorrelations fall as lag^(2 order − 1), and the mean has no variance from ½ on."""
MEMORIES = np.array([0.0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.97, 0.98, 0.99, 0.995, 0.998])
"""Coefficients of the autoregression on top of it, a piece each."""
SHARES = np.array([0.0, 0.3, 0.6, 0.8, 0.9, 0.95, 0.98, 0.99])
"""Of white noise in the variance."""
NO_ORDER, NO_MEMORY, NO_SHARE = 0.8, 0.3, 0.8
"""What is believed at first of the first of each; the others have the rest in equal parts. Chosen on means of simulated
records: with less for the first, intervals of independent rows were half as long again as they need be."""
UNBELIEVED, HALVINGS, FREE = 1e-7, 30, 100


class LongMemory(LongRun):
    """Autocorrelations may fall like a power, and intervals still hold: 960 spectra, each believed as far as it fits.

    A record has long memory if its autocorrelations fall as lag^(2d − 1) with 0 < d < ½ (traffic, river flows,
    volatility): its mean is known to n^(d − ½) and not to n^(−½), and no fixed number of batches or lags shows that.
    Here the pieces of a record are white noise in some share, plus a fractionally integrated autoregression (Granger
    and Joyeux 1980; Hosking 1981), with every order d, coefficient and share on a grid. Each has its exact expected
    periodogram, at frequency 0 the variance of the mean itself, and a likelihood on the 256 lowest frequencies::

        log L = −Σ_k [log E I(λ_k) + I(λ_k)/E I(λ_k)]      (Whittle 1953; the expectations of Sykulski et al. 2019)

    with the scale integrated out. The law of the mean's error is that of all of them, weighted by their likelihood and
    by what is believed at first, which is that there is no long memory (.8). So intervals of short memory stay about as
    long as those of batch means, and those of long memory grow to what they have to be. One more pass over the record.

    A strong cycle of few turns makes intervals longer than they need be: no spectrum of the family has one.

    Examples
    --------
    >>> import numpy as np
    >>> from multireplay.inference import LongMemory
    >>> found = LongMemory().spread(np.random.default_rng(1).standard_normal((4096, 1)))
    >>> (4096 * found.variance).round(1), found.quantile(0.95).round(1)
    (array([1.2]), array([1.9]))
    """

    def spread(self, values: Vector) -> Spread:
        family, believed = _believed(values)
        variances = believed.scales * family.at_zero[:, None] / len(values)
        mean = np.einsum("ij,ij->j", believed.weights, variances)
        of, members = np.nonzero(believed.weights.T > UNBELIEVED)  # column by column
        weights = believed.weights[members, of]
        ratios = np.sqrt(variances[members, of] / np.where(mean > 0, mean, 1.0)[of])
        ratios, starts = np.where(ratios > 0, ratios, 1.0), np.searchsorted(of, np.arange(len(mean)))

        def outside(bound: Vector) -> Vector:
            return np.asarray(np.add.reduceat(weights * _tails(np.abs(bound)[of] / ratios, family), starts))

        return Spread(mean, lambda level: _crossing(outside, 1 - level, len(mean)), outside)

    def covariance(self, values: Vector) -> Vector:
        """The correlations of what is slow, the 16 lowest frequencies, with the variances of `spread`."""
        slow = rfft(centred(values), axis=0)[1 : 2 + min(16, len(values) // 2)]
        products = (slow.conj().T @ slow).real
        size = np.sqrt(np.maximum(np.diag(products), np.finfo(np.float64).tiny))
        roots = np.sqrt(self.spread(values).variance)
        return np.asarray(roots[:, None] * (products / size[:, None] / size) * roots)


class Family(NamedTuple):
    """All spectra of the family, for so many numbers."""

    edges: Positions
    """Where bands of frequencies begin."""
    spectra: Vector
    """The expected periodogram of each in every band, in units of its variance."""
    inverses: Vector
    at_zero: Vector
    """The expected periodogram at frequency 0: the variance of the mean times the number of them."""
    prior: Vector
    fit: Vector
    """What the likelihood of each has that does not depend on the numbers, and what is believed at first."""

    @property
    def frequencies(self) -> int:
        return int(self.edges[-1] - self.edges[0])


class Believed(NamedTuple):
    """Of every member of the family and column: how far it is believed, and the variance of the numbers by it."""

    weights: Vector
    scales: Vector


def belief_in_long_memory(values: Vector) -> Vector:
    """How far it is believed of each column that its autocorrelations fall like a power, from 0 to 1.

    Examples
    --------
    >>> import numpy as np
    >>> from multireplay.inference.longrun.long_memory import belief_in_long_memory
    >>> belief_in_long_memory(np.random.default_rng(0).standard_normal((2048, 2))) < 0.2
    array([ True,  True])
    """
    weights = _believed(values)[1].weights
    return np.asarray(np.add.reduce(weights[len(MEMORIES) * len(SHARES) :]))  # the first have no fractional order


def odds_of_long_memory(values: Vector) -> float:
    """The logarithm of the odds that autocorrelations fall like a power, for one series.

    Examples
    --------
    >>> import numpy as np
    >>> from multireplay.inference.longrun.long_memory import odds_of_long_memory
    >>> odds_of_long_memory(np.random.default_rng(0).standard_normal(2048)) < -2
    True
    """
    family, first = family_of(len(values)), len(MEMORIES) * len(SHARES)  # those without a fractional order
    waves = rfft(values - np.add.reduce(values) / float(len(values)))[: family.edges[-1]]
    scales = family.inverses.dot(np.add.reduceat(waves.real**2 + waves.imag**2, family.edges[:-1]))
    if not scales[0] > 0:
        return -math.inf
    fit = family.fit - float(family.frequencies) * np.log(scales)
    likely = np.exp(fit - np.maximum.reduce(fit))
    return math.log(np.add.reduce(likely[first:]) / np.add.reduce(likely[:first]))


def _tails(bounds: Vector, family: Family) -> Vector:
    """The chance of a t with so many degrees of freedom beyond ± each bound, by Wallace's (1959) normal one if many."""
    freedom = 2 * family.frequencies
    if freedom < 2 * FREE:
        return np.asarray(2 * stdtr(freedom, -bounds))
    return np.asarray(2 * ndtr(-bounds * (1 - 1 / (4 * freedom)) / np.sqrt(1 + bounds**2 / (2 * freedom))))


def _believed(values: Vector) -> tuple[Family, Believed]:
    family, parts = family_of(len(values)), centred(values)
    squares = np.abs(rfft(parts, axis=0)[: family.edges[-1]]) ** 2 / len(values)
    seen = np.add.reduceat(squares, family.edges[:-1], axis=0)
    scales = family.inverses @ seen / family.frequencies
    fit = family.fit[:, None] - family.frequencies * np.log(np.where(scales > 0, scales, 1.0))  # 0 if it does not vary
    weights = np.exp(fit - fit.max(axis=0))
    return family, Believed(weights / weights.sum(axis=0), scales)


@lru_cache(maxsize=4)
def family_of(count: int) -> Family:
    """The family for so many numbers."""
    last = min(HIGHEST, max(1, (count - 1) // 2)) + 1
    growing = np.geomspace(min(SINGLE, last), last, BANDS).astype(np.int64)
    edges = np.unique([*range(1, min(SINGLE, last) + 1), *growing, last])
    beliefs = [np.append(first, np.full(len(grid) - 1, (1 - first) / (len(grid) - 1)))
               for first, grid in ((NO_ORDER, ORDERS), (NO_MEMORY, MEMORIES), (NO_SHARE, SHARES))]  # fmt: skip
    expected, spectra = _expected(count), []
    for slow, share in itertools.product(expected, SHARES):
        spectra.append((1 - share) * slow[:last] + share)
    whole = np.array(spectra)
    bands = np.add.reduceat(whole, edges[:-1], axis=1) / np.diff(edges)
    prior = np.einsum("i,j,k->ijk", *beliefs).ravel()
    return Family(edges, bands, 1 / bands, whole[:, 0], prior, np.log(prior) - np.log(bands) @ np.diff(edges))


def _expected(count: int) -> list[Vector]:
    """E I(λ_k) of fractionally integrated autoregressions, Σ_h γ(h)(1 − |h|/n)e^(−ihλ_k), in units of γ(0)."""
    found, size = [], next_fast_len(4 * count, real=True)
    turn, taper = np.exp(-2j * np.pi * np.arange(size // 2 + 1) / size), 1 - np.arange(count) / count
    lags = np.arange(1, size // 2 + 1)
    for order in ORDERS:
        fractional = np.append(1.0, np.cumprod((lags - 1 + order) / (lags - order)))
        around = np.append(fractional, fractional[1 : size - len(fractional) + 1][::-1])
        density = np.maximum(rfft(around).real, 0.0)
        for memory in MEMORIES:
            covariances = irfft(density / np.abs(1 - memory * turn) ** 2, size)[:count] * taper
            found.append((2 * rfft(covariances).real - covariances[0]) / covariances[0])
    return found


def _crossing(outside: Callable[[Vector], Vector], chance: float, columns: int) -> Vector:
    """How many standard errors leave this chance outside, by halving."""
    low, high = np.zeros(columns), np.full(columns, 1.0)
    while (outside(high) > chance).any() and high[0] < 1e6:
        high *= 2
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        wide = outside(middle) <= chance
        low, high = np.where(wide, low, middle), np.where(wide, middle, high)
    return high
