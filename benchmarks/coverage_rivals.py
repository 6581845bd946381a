"""Other people's intervals for the table of coverage: statsmodels' HAC, arch's bootstrap, and batch means with 1.96.

The covariance that statsmodels gives with cov_type="HAC" is J⁻¹ΓJ⁻¹ with Bartlett's weights on the autocovariances of
the scores. Its diagonal is the same sum over the autocovariances of cᵀJ⁻¹F̃_t, row by row, which Fourier transforms give
for any lag in one go: the numbers are statsmodels' own (a test compares them), without its loop over hundreds of lags.
arch's circular block bootstrap, with its optimal block length, draws means of the same numbers, which for a mean is the
bootstrap itself, and for a regression that of one Newton step.
Usage: python benchmarks/coverage_rivals.py prints each on one record.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from coverage_worlds import Array, Cell, draw
from scipy.fft import irfft, next_fast_len, rfft

Z = 1.959963984540054
DRAWS = 199
"""Of the bootstrap."""


def default_lag(images: Array) -> Array:
    """statsmodels' lag where none is given, ⌊4(n/100)^(2/9)⌋."""
    return np.full(images.shape[1], np.floor(4 * (len(images) / 100) ** (2 / 9)))


def andrews_lag(images: Array) -> Array:
    """Andrews' (1991) lag for Bartlett's weights, of an AR(1) with the autocorrelation of each column."""
    parts = images - images.mean(axis=0)
    slope = (parts[1:] * parts[:-1]).sum(axis=0) / (parts[:-1] ** 2).sum(axis=0)
    return np.floor(1.1447 * np.cbrt(4 * slope**2 / (1 - slope**2) ** 2 * len(images)))


def hac_errors(images: Array, lags: Array, covariances: Array | None = None) -> Array:
    """Newey and West's standard errors of the mean of each column, of mean zero, with these lags."""
    found = autocovariances(images) if covariances is None else covariances
    variances = [
        column[0] + 2 * (1 - np.arange(1, int(lag) + 1) / (lag + 1)) @ column[1 : int(lag) + 1]
        for column, lag in zip(found.T, np.minimum(lags, len(found) - 1), strict=True)
    ]
    return np.sqrt(np.maximum(variances, 0) / len(images))


def autocovariances(images: Array) -> Array:
    """Of each column, at all lags up to half the rows."""
    rows = len(images)
    padded = next_fast_len(rows + rows // 2, real=True)
    return np.asarray(irfft(np.abs(rfft(images, padded, axis=0)) ** 2, padded, axis=0)[: rows // 2] / rows)


def hac_intervals(centre: Array, images: Array) -> dict[str, tuple[Array, Array]]:
    """Ends by statsmodels with its default lag and with Andrews'."""
    covariances, found = autocovariances(images), {}
    for name, rule in (("HAC, default lag", default_lag), ("HAC, Andrews' lag", andrews_lag)):
        half = Z * hac_errors(images, rule(images), covariances)
        found[name] = (centre - half, centre + half)
    return found


def batch_interval(centre: Array, images: Array, batches: int = 32) -> tuple[Array, Array]:
    """Ends by means of consecutive batches of one length, taken for independent and normal."""
    size = len(images) // batches
    means = images[: size * batches].reshape(batches, size, -1).mean(axis=1)
    half = Z * means.std(axis=0, ddof=1) / np.sqrt(batches)
    return centre - half, centre + half


def arch_interval(centre: float, images: Array, seed: int) -> tuple[float, float]:
    """Ends by arch's circular block bootstrap of one column, which the estimate is off by on average."""
    from arch.bootstrap import CircularBlockBootstrap, optimal_block_length

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        length = float(optimal_block_length(images)["circular"].iloc[0])
    drawn = CircularBlockBootstrap(max(1, int(np.ceil(length))), images, seed=seed)
    low, high = drawn.conf_int(np.mean, DRAWS, method="basic")[:, 0]
    return centre + low, centre + high


def main() -> None:
    cell = Cell("linear", 0.9, 20_000, 5)
    sample = draw(cell, cell.generator(0, seed=1))
    centre, images = sample.images(sample.truth, np.eye(5)[:2])
    ways: dict[str, Callable[[], object]] = {
        "batch means": lambda: batch_interval(centre, images),
        "HAC": lambda: hac_intervals(centre, images),
        "arch": lambda: arch_interval(centre[1], -images[:, 1], 0),
    }
    for name, way in ways.items():
        print(name, way())


if __name__ == "__main__":
    main()
