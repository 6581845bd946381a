"""A multiplier bootstrap over blocks."""

from __future__ import annotations

import numpy as np

from multireplay._check import Vector, whole_number
from multireplay.inference.longrun.base import LongRun, Spread, WaldTest, centred, solved
from multireplay.inference.longrun.newey_west import andrews

FEWEST = 16
"""Blocks that there are at least."""
APART = 7919
"""Beside the seed, so that signs are not made of the random numbers that somebody's data were made of."""


class MultiplierBootstrap(LongRun):
    """Sums of consecutive blocks with random signs, and quantiles of the ratio to its own standard error among them.

    Blocks longer than the memory of the record are nearly independent (Künsch 1989), and random signs on them (Liu
    1988; Shao 2010 for dependent data) make new sums of their variance: t* = Σ_b e_b u_b / s*, over many draws of e.
    Unlike a normal quantile, those of t* know that blocks are few and uneven. A block is as long as Andrews' bandwidth
    for Bartlett's kernel, of which moving blocks are another form, and there are 16 at least. It takes one more pass
    over the record, for 4096 pieces.

    Parameters
    ----------
    replications : int
        Draws of the signs.
    seed : int
        Of these draws.

    Examples
    --------
    >>> import numpy as np
    >>> from multireplay.inference import MultiplierBootstrap
    >>> values = np.random.default_rng(0).standard_normal((4096, 1))
    >>> variance, quantile, _ = MultiplierBootstrap().spread(values)
    >>> bool(1.8 < quantile(0.95)[0] < 2.2), bool(0.9 < 4096 * variance[0] < 1.1)
    (True, True)
    """

    def __init__(self, replications: int = 999, seed: int = 0) -> None:
        self.replications = whole_number("replications", replications, least=99)
        self.seed = whole_number("seed", seed, least=0)

    def spread(self, values: Vector) -> Spread:
        blocks = _blocks(values)
        squares, count = np.einsum("ij,ij->j", blocks, blocks), len(blocks)
        signs = self._signs(count)
        sums = signs @ blocks
        error = np.sqrt(np.maximum(squares - sums**2 / count, 0.0) * count / (count - 1))
        ratios = np.sort(np.abs(sums) / np.where(error > 0, error, 1.0), axis=0)

        def p_value(ratio: Vector) -> Vector:
            beyond = (ratios >= np.abs(np.atleast_1d(ratio))).sum(axis=0)
            return np.asarray((1 + beyond) / (1 + self.replications))

        variance = squares * count / (count - 1) / len(values) ** 2
        return Spread(variance, lambda level: np.asarray(np.quantile(ratios, level, axis=0)), p_value)

    def covariance(self, values: Vector) -> Vector:
        blocks = _blocks(values)
        return np.asarray(blocks.T @ blocks * len(blocks) / (len(blocks) - 1) / len(values) ** 2)

    def wald(self, values: Vector, off: Vector) -> WaldTest:
        """The statistic among those of sums with random signs."""
        blocks, q = _blocks(values), len(off)
        count = len(blocks)
        statistic = float(off @ solved(self.covariance(values), off))
        inverse = np.linalg.pinv(blocks.T @ blocks)
        sums = self._signs(count) @ blocks
        plain = np.einsum("ij,jk,ik->i", sums, inverse, sums)  # sᵀQ⁻¹s; of Q − ssᵀ/n it follows in closed form
        drawn = plain / np.maximum(1 - plain / count, 1e-12) * (count - 1) / count
        p_value = (1 + int((drawn >= statistic).sum())) / (1 + self.replications)
        return WaldTest(statistic / q, (float(q), np.inf), p_value)

    def _signs(self, count: int) -> Vector:
        drawn = np.random.default_rng((self.seed, APART)).integers(0, 2, (self.replications, count))
        return np.asarray(2.0 * drawn - 1)


def _blocks(values: Vector) -> Vector:
    """Sums of the numbers, less their mean, over blocks of one length; the last may be shorter."""
    parts = centred(values)
    length = int(np.clip(np.ceil(andrews(values, together=True)[0]), 1, max(1, len(values) // FEWEST)))
    return np.add.reduceat(parts, np.arange(0, len(parts), length), axis=0)
