"""Newey and West's estimator, with the lag that Andrews' rule chooses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from scipy.fft import next_fast_len, rfft
from scipy.special import ndtr, ndtri

from multireplay._check import Vector, whole_number
from multireplay.errors import InputError
from multireplay.inference.longrun.base import LongRun, Spread, centred


class NeweyWest(LongRun):
    """Autocovariances of 4096 pieces with weights that fall to 0 (Bartlett's kernel), and normal quantiles.

    By Newey and West (1987), Var = (γ₀ + 2Σ_j k(j/S) γ_j)/n with k(u) = 1 − u. Andrews (1991, Eqs. 6.2 and 6.4) gives
    the bandwidth of least error for an autoregression with the coefficient ρ of the data::

        S = 1.1447 (α n)^(1/3),        α = 4ρ²/((1 − ρ)²(1 + ρ)²)

    It takes one more pass over the record. Under strong dependence its intervals are too short.

    Parameters
    ----------
    lag : int or "andrews"
        The last lag, in pieces, with weight 1 − j/(lag + 1) at lag j.

    Examples
    --------
    >>> import numpy as np
    >>> from multireplay.inference import NeweyWest
    >>> values = np.random.default_rng(0).standard_normal((4096, 1))
    >>> bool(np.isclose(4096 * NeweyWest(lag=0).spread(values).variance[0], values.var()))
    True
    """

    def __init__(self, lag: int | Literal["andrews"] = "andrews") -> None:
        self.lag: Any = lag if lag == "andrews" else whole_number("lag", lag, least=0)

    def spread(self, values: Vector) -> Spread:
        return normal(np.array([one[0, 0] for one in _bartlett(values, self._widths(values))]) / len(values))

    def covariance(self, values: Vector) -> Vector:
        """With one bandwidth for all, by Andrews' α for several coordinates with equal weights."""
        return next(_bartlett(values, self._widths(values, together=True))) / len(values)

    def _widths(self, values: Vector, together: bool = False) -> Vector:
        if self.lag == "andrews":
            return andrews(values, together)
        if self.lag >= len(values):
            raise InputError(f"lag={self.lag} is no lag of {len(values)} pieces of a record: give less, or FixedB()")
        return np.full(1 if together else values.shape[1], self.lag + 1.0)


def normal(variance: Vector) -> Spread:
    """These variances with the quantiles of the normal law."""
    return Spread(
        np.asarray(variance),
        lambda level: np.asarray(ndtri((1 + level) / 2)),
        lambda ratio: np.asarray(2 * ndtr(-np.abs(ratio))),
    )


def andrews(values: Vector, together: bool = False) -> Vector:
    """Andrews' bandwidth for Bartlett's kernel, of each column, or one for all of them in their own units."""
    parts = centred(values)
    before, after = parts[:-1], parts[1:]
    squares = np.einsum("ij,ij->j", before, before)
    slope = np.einsum("ij,ij->j", after, before) / np.where(squares > 0, squares, 1.0)
    slope = np.clip(slope, 1 / len(values) - 1, 1 - 1 / len(values))  # no nearer to a unit root than can be told
    above, below = 4 * slope**2 / (1 - slope) ** 6 / (1 + slope) ** 2, 1 / (1 - slope) ** 4
    alpha = np.atleast_1d(above.sum() / below.sum()) if together else above / below
    return np.asarray(1.1447 * np.cbrt(alpha * len(values)))


def _bartlett(values: Vector, widths: Vector) -> Iterator[Vector]:
    """Σ_j k(j/S) Γ_j over all lags of either sign, the long-run covariance, for each width in turn.

    By Fourier transforms of the numbers, padded so that no end meets the other, which takes as long for every width.
    """
    count = len(values)
    padded = next_fast_len(2 * count, real=True)
    spectrum, lags = rfft(centred(values), padded, axis=0), np.arange(padded // 2 + 1)
    both_signs = np.where((lags == 0) | (2 * lags == padded), 1.0, 2.0)
    for place, width in enumerate(widths):
        weights = np.clip(1 - lags / max(width, 1e-9), 0.0, None) * (lags < count)
        kernel = rfft(np.concatenate([weights, weights[1 : (padded + 1) // 2][::-1]])).real * both_signs
        part = spectrum if len(widths) == 1 else spectrum[:, place : place + 1]
        yield np.asarray(((part.conj() * kernel[:, None]).T @ part).real / padded / count)
