"""How well a record knows the value of its policy: at observations, and where episodes start."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multireplay._check import Vector
from multireplay.inference import BatchMeans
from multireplay.inference.uncertainty import FEW
from multireplay.rl.spaces import Array
from multireplay.show.text import plural

if TYPE_CHECKING:
    from multireplay.rl.evaluate import ValueEstimate

LEVEL = 0.95


class _Between(NamedTuple):
    """A value and the two ends of its interval."""

    value: float
    low: float
    high: float


class StartValue(_Between):
    """The value where episodes start: the mean over the first observations of a record, and its interval.

    The ends are NaN where there are no standard errors, and infinite where the record says nothing of some start.

    Attributes
    ----------
    value, low, high : float
        What it is made of, in this order.
    doubt : str
        Why not to rely on the interval; empty where one may.

    Examples
    --------
    >>> import multireplay as mr
    >>> estimate = mr.rl.evaluate("CartPole-v1", "random", "polynomial(degree=2)", 0.9, steps=5000, check=0)
    >>> value, low, high = estimate.start_value
    >>> low < value < high, estimate.start_value.doubt
    (True, '')
    """

    doubt: str = ""

    def __new__(cls, value: float, low: float, high: float, doubt: str = "") -> StartValue:
        found = super().__new__(cls, value, low, high)
        found.doubt = doubt
        return found

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}{f', doubt={self.doubt!r}' if self.doubt else ''})"


def intervals_at(estimate: ValueEstimate, observations: Array, level: float) -> Vector:
    """Intervals of the values of many observations, as they are stored, of shape (k, 2); blocks bound the memory."""
    features, found = estimate.features, [np.zeros((0, 2))]
    for start, stop in features._blocks(observations):
        names = [f"observation {place}" for place in range(start, stop)]
        rows = features.rows(observations[start:stop])
        found.append(estimate.result.uncertainty.mapped(rows, names).interval(level))
    return np.concatenate(found)


def start_value(estimate: ValueEstimate, level: float = LEVEL) -> StartValue:
    """The mean value of the starts of a record with its interval, and what is doubtful of that.

    There are two errors in v̄ = ⟨ψ̄, x⟩ with the mean ψ̄ of the features of N starts among n rows: that of x, and that of
    the starts, which are a sample too. To first order, with V for v̄ at no error, v̄ − V is the mean over the rows of
    −⟨ψ̄, J⁻¹F̃_t⟩ + (n/N) 1{t is a start}(v(s_t) − V). Both are taken together in the batches of the record, so that
    what they have to do with one another is counted, and so is dependence between episodes. Of a single start, or of
    starts that are all alike, the second is 0: the interval is then of the value there.
    """
    record, known = estimate.trajectory, estimate.result.uncertainty
    first = np.flatnonzero(record.starts)
    mean = estimate.features.total(record.observations[first]) / len(first)
    value = float(mean @ estimate.x)
    if known.images is None:
        return StartValue(value, np.nan, np.nan)
    if not np.isfinite(known.ends(level, of=mean)).all():
        return StartValue(value, -np.inf, np.inf)
    rows = known.images.rows
    bounds = np.round(np.cumsum(rows) / rows.sum() * len(record))
    off = estimate.values(record.observations[first]) - value
    sums = np.bincount(np.searchsorted(bounds, first, side="right"), weights=off, minlength=len(rows))
    series = sums / rows * rows.sum() / len(first) - known.pieces(mean[None, :])[:, 0]
    spread = BatchMeans().spread(series[:, None])
    half = float(spread.quantile(level) * np.sqrt(spread.variance[0]))
    doubt = known.mapped(mean[None, :], ["the start"]).doubts.get(0, "")
    if not doubt and 1 < len(first) < FEW and np.ptp(off) > 0:
        doubt = f"{len(first)} starts are few: do not rely on this interval"
    return StartValue(value, value - half, value + half, doubt)


def start_sentence(estimate: ValueEstimate, level: float = LEVEL) -> str:
    """The value at the start, in words, with what is doubtful of it."""
    found, known = estimate.start_value if level == LEVEL else start_value(estimate, level), estimate.result.uncertainty
    number = int(estimate.trajectory.starts.sum())
    text = f"Value at the start: {found.value:.4g}"
    if known.images is None:
        return f"{text}; no interval: {known.why_not}."
    if not np.isfinite(found.low):
        return f"{text}; no interval: the record says nothing of some of the {plural(number, 'start')}."
    text += f", {100 * level:g} % from {found.low:.4g} to {found.high:.4g}, over {plural(number, 'start')}."
    return f"{text} Note: {found.doubt}." if found.doubt else text
