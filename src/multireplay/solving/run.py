"""What was run: the one resolved description that reports, status sentences and checkpoints read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from multireplay.averaging import Averaging
from multireplay.replay import Replay
from multireplay.sets import Set
from multireplay.solving.recipe import Lost, Recipe, _can_be_pickled
from multireplay.updates.base import Update

if TYPE_CHECKING:
    from multireplay.buffer.buffer import Buffer
    from multireplay.buffer.disk import StoredBuffer
    from multireplay.problems import Problem

__all__ = ["Lost", "Run"]


@dataclass(frozen=True, eq=False)
class Run:
    """The resolved description of one run of `solve`; pickled, without the record and what cannot be pickled."""

    problem: Problem | None
    buffer: Buffer | StoredBuffer | None
    rows: int
    arguments: Mapping[str, Any]
    update: Update
    route: Literal["exact", "corrections", "rounds", "steps"]
    why: str
    replay: Replay | None
    engine: Literal["python", "compiled", "sparse", "batched", "sums"]
    feasible: Set
    averaging: Averaging
    threads: int
    precision: str

    @classmethod
    def of(cls, given: Mapping[str, Any], **resolved: Any) -> Run:
        """From the arguments of `solve` by name, and what became of them."""
        recipe = Recipe.of(given)
        return cls(recipe.problem, recipe.buffer, recipe.rows, recipe.arguments, **resolved)

    def __reduce__(self) -> tuple[Any, ...]:
        kept = {field.name: getattr(self, field.name) for field in fields(self)} | {"buffer": None}
        kept = {name: value if _can_be_pickled(value) else None for name, value in kept.items()}
        kept["arguments"] = {k: v if _can_be_pickled(v) else Lost(repr(v)) for k, v in self.arguments.items()}
        return (Run, tuple(kept.values()))
