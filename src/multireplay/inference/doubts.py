"""What is said where an interval is not to be relied on, and which directions only a penalty settles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from multireplay._check import Vector
from multireplay.inference.images import Images

RELY = ": do not rely on this interval"
CROWD = f"few independent rows{RELY}"
ALONE = f"one or two stretches of the record tell nearly all of it{RELY}"
NEVER = f"the record says nothing of it{RELY}"
PENALTY = f"only the penalty settles it{RELY}"
NAMED = 6
SETTLED = 0.99
"""Of the curvature in a direction, the share that is the penalty's from which on the record says nothing of it."""
LARGEST = 512
"""Coordinates up to which such directions are looked for: it takes the inverse as a matrix."""
PART = 1e-3
"""A coordinate has no part in a direction that moves it by less than this share of what it moves another by."""


def mark_of(count: float, what: str, of: str = "") -> str:
    """A mark with a count.

    Examples
    --------
    >>> from multireplay.inference.doubts import mark_of
    >>> mark_of(5.7, "independent visit")
    'about 6 independent visits: do not rely on this interval'
    """
    number = max(1, round(float(count)))
    return f"about {number} {what}{'s' * (number != 1)}{of}{RELY}"


def reason_in(mark: str) -> str:
    """Why, without what to do about it.

    Examples
    --------
    >>> from multireplay.inference.doubts import reason_in
    >>> reason_in("about 6 independent visits: do not rely on this interval")
    'about 6 independent visits'
    """
    return mark.removesuffix(RELY)


def note_of(names: Sequence[str], doubts: Mapping[int, str]) -> str:
    """All doubts in one short sentence with names and reasons; empty if there are none.

    Examples
    --------
    >>> from multireplay.inference.doubts import mark_of, note_of
    >>> note_of(["temp", "hum"], {1: mark_of(6, "independent visit")})
    'the record has seen too little of hum to rely on its interval: about 6 independent visits'
    """
    if not doubts:
        return ""
    why: dict[str, list[str]] = {}
    for i in list(doubts)[:NAMED]:
        why.setdefault(reason_in(doubts[i]), []).append(names[i])
    each = len(set(doubts.values())) > 1
    some = ", ".join(", ".join(those) + f" ({reason})" * each for reason, those in why.items())
    more = f" and {len(doubts) - NAMED} more" if len(doubts) > NAMED else ""
    which = "its interval" if len(doubts) == 1 else "their intervals"
    return f"the record has seen too little of {some}{more} to rely on {which}{'' if each else ': ' + next(iter(why))}"


def settled_by_penalty(images: Images, penalty: Vector) -> Vector | None:
    """Directions of which the penalty says all and the record nothing, a row each; None where there are none.

    With the penalty P in the Jacobian J they are those of P^½J⁻¹P^½ to the eigenvalue 1. The trace, which is theirs
    together, says at little cost that there are none.
    """
    dim = len(penalty)
    if images.through is None or images.set_active or images.unknown is not None or dim > LARGEST or not penalty.any():
        return None
    roots = np.sqrt(penalty)
    inverse = images.of(np.eye(dim)).T
    inner = roots[:, None] * inverse * roots
    if not np.isfinite(inner).all() or np.trace(inner) < SETTLED:
        return None
    shares, vectors = np.linalg.eigh((inner + inner.T) / 2)
    found = (roots[:, None] * vectors[:, shares >= SETTLED]).T
    if not len(found):
        return None
    found = found @ inverse.T  # what the penalty alone moves along them
    scale = np.sqrt(np.maximum(np.diag(inverse), np.finfo(np.float64).tiny))
    moved = np.abs(found) / scale
    return np.where(moved > PART * moved.max(axis=1, keepdims=True), found, 0.0)
