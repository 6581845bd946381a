"""How good predictions are, by sums over rows: the same of a record in memory and of one that is read in parts."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from multireplay._check import Vector
from multireplay.cli.options import ModelKind

SCORES = {ModelKind.linear: "R²", ModelKind.logistic: "accuracy", ModelKind.poisson: "D²"}


class Tally(NamedTuple):
    """What a score is made of; that of more rows is made by `joined`."""

    rows: int = 0
    right: int = 0
    """Rows whose class is the predicted one."""
    weight: float = 0.0
    """Rows, or their exposure: of rates y and predicted ones p, as all that follows."""
    total: float = 0.0
    squares: float = 0.0
    """Σ(y − ȳ)²"""
    errors: float = 0.0
    """Σ(y − p)²"""
    own: float = 0.0
    cross: float = 0.0
    fitted: float = 0.0
    """Σ y log y, Σ y log p and Σ p, of counts."""
    ends: tuple[float, float] = (np.inf, -np.inf)
    rates: tuple[float, float] = (np.inf, -np.inf)
    """The least and the largest target, and rate."""
    finite: bool = True
    """Whether all predicted counts are numbers above 0."""

    def joined(self, other: Tally) -> Tally:
        """Of these rows and those."""
        sums = [one + more for one, more in zip(self[:9], other[:9], strict=True)]
        apart = self.total / (self.weight or 1) - other.total / (other.weight or 1)
        sums[4] += apart**2 * self.weight * other.weight / (sums[2] or 1)
        ends, rates = ((min(a[0], b[0]), max(a[1], b[1])) for a, b in zip(self[9:11], other[9:11], strict=True))
        return Tally._make((*sums, ends, rates, self.finite and other.finite))

    def score(self, kind: ModelKind) -> dict[str, Any]:
        """The score; None where it is not defined, with the reason."""
        score, why, counts = None, None, kind is ModelKind.poisson
        same = f"all {self.rows} are {self.ends[0]:g}" if self.ends[0] == self.ends[1] else ""
        if self.rows < 2:
            why = "there are fewer than two rows"
        elif kind is ModelKind.logistic:
            score = self.right / self.rows
        elif counts and self.ends[0] < 0:
            why = "there are counts below 0"
        elif counts and not self.finite:
            why = "a predicted count is 0 or infinite"
        elif counts and self.rates[0] == self.rates[1]:
            why = f"{same or 'all rates are the same'}, so that there is no deviance to explain"
        elif counts:
            whole = self.own - xlogy(self.total, self.total / self.weight)
            score = 1 - (self.own - self.cross - self.total + self.fitted) / whole
        elif same:
            why = f"{same}, so that there is no variance to explain"
        else:
            score = 1 - self.errors / self.squares
        return {"metric": SCORES[kind], "score": None if score is None else float(score), "why_not": why}


def tally(kind: ModelKind, truth: NDArray[Any], predicted: NDArray[Any], exposure: Vector | None = None) -> Tally:
    """What the score of these predictions is made of."""
    rows = len(truth)
    if not rows:
        return Tally()
    if kind is ModelKind.logistic:
        alike = truth == predicted if truth.dtype.kind == predicted.dtype.kind == "i" else None
        right = (truth.astype(str) == predicted.astype(str)) if alike is None else alike
        return Tally(rows, int(right.sum()), float(rows))
    weights = np.ones(rows) if exposure is None else exposure
    y, p = (truth, predicted) if exposure is None else (truth / exposure, predicted / exposure)
    weight, total, ends = float(weights.sum()), float(weights @ y), (float(truth.min()), float(truth.max()))
    off = y - total / weight
    sums = weight, total, float(weights @ (off * off)), float(weights @ ((y - p) ** 2))
    finite = bool((np.isfinite(p) & (p > 0)).all())
    logs = 0.0, 0.0, 0.0
    if kind is ModelKind.poisson and ends[0] >= 0 and finite:
        logs = float(weights @ xlogy(y, y)), float(weights @ xlogy(y, p)), float(weights @ p)
    return Tally(rows, 0, *sums, *logs, ends, (float(y.min()), float(y.max())), finite)


def score_by(
    kind: ModelKind, truth: NDArray[Any], predicted: NDArray[Any], exposure: Vector | None = None
) -> dict[str, Any]:
    """The score of predictions; None where it is not defined, with the reason."""
    return tally(kind, truth, predicted, exposure).score(kind)
