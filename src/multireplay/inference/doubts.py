"""What is said where an interval is not to be relied on, and which directions only a penalty settles."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from multireplay._check import Vector
from multireplay.inference.images import Images

RELY = ": do not rely on this interval"
COUNTED = re.compile(r"about (\d+) (independent visit|effective sample|event)s?(.*)")
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
    >>> note_of(["temp", "hum"], {0: mark_of(12, "independent visit"), 1: mark_of(6, "independent visit")})
    'the record has seen too little of temp, hum to rely on their intervals: about 6 to 12 independent visits'
    """
    if not doubts:
        return ""
    why: dict[str, tuple[list[str], list[int]]] = {}
    for place, (i, mark) in enumerate(doubts.items()):
        counted = COUNTED.fullmatch(reason_in(mark))
        kind = reason_in(mark) if counted is None else "about {} " + counted[2] + "{}" + counted[3]
        named, counts = why.setdefault(kind, ([], []))
        named += [names[i]] * (place < NAMED)
        counts += [] if counted is None else [int(counted[1])]
    reasons = {kind: _ranged(kind, counts) for kind, (_, counts) in why.items()}
    each = len(why) > 1
    some = ", ".join(", ".join(named) + f" ({reasons[kind]})" * each for kind, (named, _) in why.items() if named)
    more = f" and {len(doubts) - NAMED} more" if len(doubts) > NAMED else ""
    which = "its interval" if len(doubts) == 1 else "their intervals"
    return f"the record has seen too little of {some}{more} to rely on {which}{'' if each else ': ' + reasons[kind]}"


def _ranged(kind: str, counts: Sequence[int]) -> str:
    """A reason with the counts that there are."""
    if not counts:
        return kind
    low, high = min(counts), max(counts)
    return kind.format(low if low == high else f"{low} to {high}", "s" * (high != 1))


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
