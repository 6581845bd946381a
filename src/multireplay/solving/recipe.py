"""What a run was asked to do: kept with its result, so that it can be reported and repeated."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from multireplay.buffer.buffer import Buffer
    from multireplay.buffer.disk import StoredBuffer
    from multireplay.problems import Problem


class Lost(NamedTuple):
    """What stands for an argument that could not be pickled, such as a lambda: its text."""

    text: str

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True, eq=False, repr=False)
class Recipe:
    """The arguments of one call of `solve`, by reference: nothing is copied.

    A pickled recipe, and with it a pickled result, leaves the record behind, which may be large, and whatever cannot be
    pickled.

    Attributes
    ----------
    problem : Problem or None
        None if it was lost in pickling.
    buffer : Buffer, StoredBuffer or None
        The record; None after pickling.
    rows : int
        Its length.
    arguments : mapping
        All other arguments, as they were given.

    Examples
    --------
    >>> import pickle
    >>> import numpy as np
    >>> import multireplay as mr
    >>> buffer = mr.Buffer(features=np.eye(2), targets=[1.0, 2.0])
    >>> recipe = mr.solve(mr.GLM(), buffer, step=0.5, holdout=None).recipe
    >>> recipe.problem, recipe.rows, recipe.arguments["step"], recipe.buffer is buffer
    (GLM(link='identity'), 2, 0.5, True)
    >>> print(pickle.loads(pickle.dumps(recipe)).buffer)
    None
    """

    problem: Problem | None
    buffer: Buffer | StoredBuffer | None
    rows: int
    arguments: Mapping[str, Any]

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Recipe:
        """From the arguments of `solve` by name."""
        rest = {name: value for name, value in given.items() if name not in ("problem", "buffer", "progress")}
        return cls(given["problem"], given["buffer"], len(given["buffer"]), rest)

    def __reduce__(self) -> tuple[Any, ...]:
        problem = self.problem if _can_be_pickled(self.problem) else None
        kept = {name: value if _can_be_pickled(value) else Lost(repr(value)) for name, value in self.arguments.items()}
        return (Recipe, (problem, None, self.rows, kept))

    def __repr__(self) -> str:
        return f"Recipe({self.problem!r}, {self.rows} rows)"


def _can_be_pickled(value: Any) -> bool:
    try:
        pickle.dumps(value)
    except Exception:  # pickle raises whatever an object's own code raises
        return False
    return True
