"""Memory whose end 32 batches cannot see: noticed in rows that are looked at anyway, allowed for in one more pass."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from multireplay._check import Vector
from multireplay.inference.images import Images
from multireplay.inference.longrun import BatchMeans, LongMemory
from multireplay.inference.longrun.batch_means import TINY, autocorrelation
from multireplay.inference.longrun.long_memory import belief_in_long_memory, odds_of_long_memory

ROWS = 1 << 14
"""Records of fewer rows are not looked at: in short ones a sum of a few short memories, or noise on top of one, cannot
be told from long memory, and would get intervals two to six times as long as they need be."""
ALIKE, MOST = 4.0, 0.6
"""What the autocorrelation of neighbouring batches adds to the logarithm of the odds, and up to where."""
ODDS, LESS = -1.0, 0.3
"""From here on a record of `ROWS` rows is looked at closer, and from so much less with every doubling: the longer a
record, the further apart spread rows are, and the better the closer look tells. Chosen on simulated means and
regressions of 8192 to 200,000 rows: it is passed by 96 to 100 of 100 with long memory, and by 3 to 20 of 100
autoregressions, of which the closer look then stretches hardly one in long records."""
PIECES = 1024
"""Stretches of the record that are looked at then: twice as many as the frequencies that matter, and a quarter of the
time of as many as other estimators take."""
BELIEF, LEVEL = 0.25, 0.95
"""How far long memory has to be believed of a coordinate, and the level at which intervals are compared."""


def looks_long(errors: Vector, scores: Vector, sizes: Vector, rows: int) -> bool:
    """Whether a record may have long memory, by its errors at spread rows and the scores of its batches.

    The odds are those of `LongMemory` on the errors at some 2048 rows spread over the record, whatever the number of
    coordinates. Between such rows much is not seen of a long record, but batches have all of it: of the coordinate
    that dependence costs most (`sizes` are the variances of a row's score), neighbouring ones are alike if memory is
    long. Both are put together.
    """
    _, squares, alike = autocorrelation(scores)
    costs = squares / np.maximum(sizes, TINY)
    limit = ODDS - LESS * math.log2(rows / ROWS)
    return odds_of_long_memory(errors) + ALIKE * min(float(alike[costs.argmax()]), MOST) > limit


def stretched(images: Images, pieces: Vector) -> Images:
    """Images whose spread is what `LongMemory` makes of finer pieces of the same record, where that is more.

    Every coordinate that may have it is stretched about its mean until its 95 % interval by batch means is as long as
    that by long memory, so that all that is made of images has it in it: covariances, tests, functions of coordinates.

    Examples
    --------
    >>> import numpy as np
    >>> from multireplay.inference.images import Images
    >>> from multireplay.inference.slow import stretched
    >>> pieces = np.random.default_rng(0).standard_normal((1024, 1))
    >>> batches = pieces.reshape(32, 32, 1).mean(axis=1)
    >>> images = Images(batches, batches, np.full(32, 640.0))
    >>> stretched(images, pieces) is images  # independent numbers
    True
    """
    plain, long = BatchMeans().spread(images.values), LongMemory().spread(pieces)
    have, want = (np.sqrt(found.variance) * found.quantile(LEVEL) for found in (plain, long))
    there = (have > 0) & (belief_in_long_memory(pieces) > BELIEF)
    factor = np.maximum(np.divide(want, have, out=np.ones_like(want), where=there), 1.0)
    if not np.isfinite(factor).all() or (factor == 1).all():
        return images
    mean = np.add.reduce(images.values) / len(images.values)
    values = np.where(factor > 1, mean + factor * (images.values - mean), images.values)
    return replace(images, values=values, stretch=factor)
