"""Whether the target of a fit is one that the model is for: numbers that vary, counts, classes of several rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from multireplay.cli.options import ModelKind
from multireplay.errors import InputError

if TYPE_CHECKING:
    from multireplay.cli.data_file import DataFile
    from multireplay.cli.prepared import Wanted

SAME = 1e-12
"""How far from 1 a correlation is that is taken as 1."""


@dataclass(frozen=True)
class TargetFacts:
    """What is known of the target in some rows that can be used; that of more rows is a sum of such."""

    rows: int = 0
    low: float = np.inf
    high: float = -np.inf
    classes: Counter[Any] = field(default_factory=Counter)
    """How many rows each class has, of a logistic model."""
    odd: tuple[int, float] | None = None
    """The first row, and what is there, that is no class because it is not whole, or no count because it is below 0."""
    parts: int = 0
    """Rows of counts that are not whole."""
    spans: float = 0.0
    """The exposure of all rows."""

    @classmethod
    def of(cls, kind: ModelKind, target: NDArray[Any], rows: NDArray[np.int64]) -> TargetFacts:
        """The facts of a target at these rows of the file."""
        if not len(target):
            return cls()
        if kind is ModelKind.logistic:
            labels, counts = np.unique(target, return_counts=True)
            odd = target != np.round(target) if target.dtype.kind == "f" else np.zeros(1, dtype=bool)
            found: dict[str, Any] = {"classes": Counter(dict(zip(labels.tolist(), counts.tolist(), strict=True)))}
        else:
            odd = target < 0 if kind is ModelKind.poisson else np.zeros(1, dtype=bool)
            parts = int((target != np.round(target)).sum()) if kind is ModelKind.poisson else 0
            found = {"low": float(target.min()), "high": float(target.max()), "parts": parts}
        place = int(np.argmax(odd))
        return cls(len(target), **found, odd=(int(rows[place]), float(target[place])) if odd.any() else None)

    def __add__(self, other: TargetFacts) -> TargetFacts:
        return TargetFacts(
            self.rows + other.rows, min(self.low, other.low), max(self.high, other.high), self.classes + other.classes,
            self.odd or other.odd, self.parts + other.parts, self.spans + other.spans,
        )  # fmt: skip


def check_target(file: DataFile, wanted: Wanted, found: TargetFacts) -> list[str]:
    """Raise where there is nothing to learn, with the row of the file, and say what a person should know otherwise."""
    about = f"{file.path}: the target {wanted.target!r}"
    runs_off = wanted.kind is ModelKind.poisson and found.high == 0  # to a rate of 0, as its status will say
    if wanted.kind is not ModelKind.logistic and found.low == found.high and not runs_off:
        raise InputError(f"{about} is {found.low:g} in all rows that can be used: there is nothing to predict")
    if wanted.kind is ModelKind.logistic:
        different = list(found.classes)
        if len(different) == 1:
            raise InputError(f"{about} is {different[0]} in all rows that can be used, only one class of at least two")
        if 2 * len(different) > found.rows and len(different) > 2:
            numbers = isinstance(different[0], int | float)
            hint = "numbers are for --model linear" if numbers else "a class needs several rows"
            raise InputError(f"{about} has {len(different)} different values in {found.rows} rows; {hint}")
        if found.odd is not None:
            raise InputError(
                f"{about} is {found.odd[1]:g} at row {found.odd[0]} (counting from 0), which is no class; numbers are "
                "for --model linear, and classes are whole numbers or words"
            )
    elif found.odd is not None:
        raise InputError(f"{about} is {found.odd[1]:g} at row {found.odd[0]} (counting from 0); counts are at least 0")
    if found.parts:
        return [f"{wanted.target!r} is no whole number in {found.parts} rows: taken as rates, not as counts."]
    return []


def check_spans(path: Any, name: str | None, spans: NDArray[Any], rows: NDArray[np.int64]) -> None:
    """Raise where an exposure is not above 0, with the row of the file."""
    bad = np.flatnonzero(spans <= 0)
    if bad.size:
        raise InputError(
            f"{path}: the exposure {name!r} is {spans[bad[0]]:g} at row {rows[bad[0]]} (counting from 0); "
            "it must be above 0"
        )


def twins(name: str, target: NDArray[Any], features: dict[str, NDArray[Any]]) -> list[str]:
    """A word on features that are the target in other units, which a person will seldom have when predicting."""
    if target.dtype.kind not in "fiu":
        return []
    few = slice(0, 1000)
    pairs = features.items()
    return in_other_units(
        name, [one for one, values in pairs if _same(values[few], target[few]) and _same(values, target)]
    )


def in_other_units(name: str, features: Iterable[str]) -> list[str]:
    """A word on each of these features, which are the target in other units."""
    return [
        f"{feature!r} is {name!r} in other units, so that all else hardly counts; leave it out with "
        "--features if it is not known before."
        for feature in features
    ]


def _same(one: NDArray[Any], other: NDArray[Any]) -> bool:
    one, other = one - one.mean(), other - other.mean()
    sizes = [float(np.abs(values).max()) for values in (one, other)]
    if not all(sizes):
        return not any(sizes)
    one, other = one / sizes[0], other / sizes[1]
    return bool(abs(one @ other) >= (1 - SAME) * np.sqrt((one @ one) * (other @ other)))


def alike(recipe: Any) -> list[str]:
    """A word on categories whose levels differ only in capital letters, such as Yes and yes."""
    found = []
    for term in getattr(recipe, "terms", ()):
        folded = [level.casefold() for level in term.levels]
        twice = [level for level, one in zip(term.levels, folded, strict=True) if folded.count(one) > 1]
        if twice:
            found.append(f"{term.column!r} has {', '.join(map(repr, twice[:4]))}, which are taken for different ones.")
    return found
