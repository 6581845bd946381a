"""Whether the target of a fit is one that the model is for: numbers that vary, counts, classes of several rows."""

from __future__ import annotations

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


def check_target(file: DataFile, wanted: Wanted, target: NDArray[Any], rows: NDArray[np.int64]) -> list[str]:
    """Raise where there is nothing to learn, with the row of the file, and say what a person should know otherwise."""
    about = f"{file.path}: the target {wanted.target!r}"
    runs_off = wanted.kind is ModelKind.poisson and target.max() == 0  # to a rate of 0, as its status will say
    if wanted.kind is not ModelKind.logistic and target.min() == target.max() and not runs_off:
        raise InputError(f"{about} is {target[0]:g} in all rows that can be used: there is nothing to predict")
    if wanted.kind is ModelKind.logistic:
        different = np.unique(target)
        if len(different) == 1:
            raise InputError(f"{about} is {different[0]} in all rows that can be used, only one class of at least two")
        if 2 * len(different) > len(target) and len(different) > 2:
            numbers = target.dtype.kind in "fiu"
            hint = "numbers are for --model linear" if numbers else "a class needs several rows"
            raise InputError(f"{about} has {len(different)} different values in {len(target)} rows; {hint}")
        if target.dtype.kind == "f":
            whole = target == np.round(target)
            place = int(np.argmin(whole))
            raise InputError(
                f"{about} is {target[place]:g} at row {rows[place]} (counting from 0), which is no class; numbers are "
                "for --model linear, and classes are whole numbers or words"
            )
    if wanted.kind is ModelKind.poisson:
        if target.min() < 0:
            place = int(np.argmax(target < 0))
            raise InputError(
                f"{about} is {target[place]:g} at row {rows[place]} (counting from 0); counts are at least 0"
            )
        parts = int((target != np.round(target)).sum())
        if parts:
            return [f"{wanted.target!r} is no whole number in {parts} rows: taken as rates, not as counts."]
    return []


def twins(name: str, target: NDArray[Any], features: dict[str, NDArray[Any]]) -> list[str]:
    """A word on features that are the target in other units, which a person will seldom have when predicting."""
    if target.dtype.kind not in "fiu":
        return []
    few = slice(0, 1000)
    found = []
    for feature, values in features.items():
        if _same(values[few], target[few]) and _same(values, target):
            found.append(f"{feature!r} is {name!r} in other units, so that all else hardly counts; leave it out with "
                         "--features if it is not known before.")  # fmt: skip
    return found


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
