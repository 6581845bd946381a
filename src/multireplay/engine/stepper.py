"""What the drivers ask of an engine, which is called a stepper; its plain and its variance-reduced form."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numba.core.dispatcher import Dispatcher
from numba.core.errors import TypingError

from multireplay._check import Positions, Vector
from multireplay.errors import OperatorError
from multireplay.replay import PlannedEpoch
from multireplay.result import Epoch

if TYPE_CHECKING:
    from multireplay.engine.chains import Chains, Member
    from multireplay.engine.epoch import EpochRun, Job

MEMORY = 2**23
"""Bytes that the iterates of more chains than steps may take; beyond that they are run one after the other. It does not
depend on where the record is, so that the numbers do not."""

Told = Callable[[int], object]
"""Who is told of the steps that were taken."""

Way = Literal["scales", "lanes", "chain", "crowded", "parts", "alone"]
"""How an epoch is read: in order with others, as one of all scales, as lanes, or as one chain; as one of more chains
than there is room for, by itself, or with others in parts; or as whatever else, by itself."""


class Stepper(ABC):
    """An engine: it takes the steps of one chain, and says what else it has a loop of its own for."""

    name: ClassVar[str]
    """"python", "compiled", "sparse" or "batched"."""
    x: Vector
    total: Vector
    """The iterate and the weighted sum of the iterates, to be read or written in place."""

    @abstractmethod
    def advance(self, samples: Any, positions: Positions, steps: Vector, weights: Vector, limit: float) -> int:
        """Take one step for each 1-based position and add the iterates to `total` with their weights.

        Returns the number of steps taken: fewer than asked means that the operator went beyond the limit there.
        """

    @abstractmethod
    def fresh(self) -> Stepper:
        """Another one of this kind, for a chain that is under way beside others."""

    @abstractmethod
    def reduced(self, preconditioner: Preconditioner) -> ReducedStepper:
        """The variance-reduced engine of this kind."""

    def arrays(self) -> dict[str, Any]:
        """All that the steps change, as arrays that can be written into."""
        return {"x": self.x, "total": self.total}

    @property
    def nbytes(self) -> int:
        """Bytes of all that the steps change."""
        return sum(int(array.nbytes) for array in self.arrays().values())

    def way(self, planned: PlannedEpoch, job: Job) -> Way:
        """How the record is read for an epoch."""
        if planned.forwards and job.record.on_disk:
            return "chain"
        many = planned.side_by_side is not None and planned.chains > planned.length
        return "crowded" if many and not self.are_few(planned, self.room(planned, job)) else "alone"

    def room(self, planned: PlannedEpoch, job: Job) -> int:
        """Bytes that the iterates of all chains of an epoch take side by side."""
        return planned.chains * self.nbytes

    def are_few(self, planned: PlannedEpoch, room: int) -> bool:
        """Whether the iterates of all chains, which take that many bytes, are a small part of the record or memory."""
        return planned.chains <= planned.length or room <= MEMORY

    def member(self, way: Way, runs: Sequence[EpochRun]) -> Member:
        """Epochs of all scales, or all chains of one as lanes, in one loop, where `way` says so."""
        raise NotImplementedError

    def whole_chains(self, run: EpochRun) -> Chains | None:
        """A loop over whole chains, one after the other, if there is one."""
        return None

    def all_chains(self, planned: PlannedEpoch, job: Job, told: Told) -> Epoch | None:
        """An epoch of several chains that is read by itself, if the engine has a way of its own to run it."""
        return None


@dataclass(frozen=True, eq=False)
class Preconditioner:
    """P = I + Σ_k stretch_k a_k a_kᵀ with orthonormal axes a_k: it shortens the directions in which features are long.

    A step x ← x − ηP F̃(x, ξ) is a plain step in the variables z = P^(−1/2)x on the rows P^(1/2)ψ; done this way it
    needs no copy of the rows, and the iterate stays in the original variables.
    """

    axes: Vector
    stretch: Vector

    @property
    def rank(self) -> int:
        """Number of directions that are shortened."""
        return len(self.stretch)

    def apply(self, value: Vector) -> Vector:
        """P times a vector."""
        return np.asarray(value + self.axes.T @ (self.stretch * (self.axes @ value)))

    def root(self) -> Vector:
        """P^(1/2)."""
        return np.asarray(np.eye(self.axes.shape[1]) + (self.axes.T * (np.sqrt(1 + self.stretch) - 1)) @ self.axes)


class ReducedStepper(Stepper):
    """Steps along P(F̃(x, ξ) − F̃(x̃, ξ)) + g: one chain at a time, because its anchor changes from round to round."""

    anchor: Vector
    mean: Vector
    """x̃, and g, the preconditioned mean operator there. Without coordinates in x̃, steps are plain."""

    def __init__(self, preconditioner: Preconditioner, *plain: Any) -> None:
        super().__init__(*plain)
        self.preconditioner = preconditioner
        self.anchor, self.mean = np.zeros(0), np.zeros(len(self.x))

    def way(self, planned: PlannedEpoch, job: Job) -> Way:
        return "alone"

    def whole_chains(self, run: EpochRun) -> Chains | None:
        return None


class StepFailure(Exception):
    """The user's operator failed after `taken` steps of the block; the cause says how."""

    def __init__(self, taken: int) -> None:
        super().__init__(taken)
        self.taken = taken

    def explained(self, where: str) -> OperatorError:
        """The error for a person, with its place."""
        cause = self.__cause__
        what = str(cause) if isinstance(cause, OperatorError) else f"{type(cause).__name__}: {cause}"
        return OperatorError(f"the operator or the projection failed at {where}: {what}")


def run_kernel(kernel: Any, *arguments: Any) -> int:
    """Call a compiled loop, whose last argument counts the steps; its failures become ours."""
    taken = arguments[-1]
    try:
        kernel(*arguments)
    except TypingError as error:
        reason = str(error).strip().splitlines()[-1]
        raise OperatorError(f"Numba could not compile the operator for this problem: {reason}") from error
    except Exception as error:
        raise StepFailure(int(taken[0])) from error
    return int(taken[0])


def is_built_in(samples: Any) -> bool:
    """Whether no function of the user's is called, so that the cached loops can be used."""
    return not any(isinstance(field, Dispatcher) for field in samples)
