"""What an update is: it declares what it needs of a run, and moves the iterate by the record."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from multireplay.inference.images import Images
from multireplay.result import Epoch

if TYPE_CHECKING:
    from multireplay.solving.run import Run

Route = Literal["exact", "corrections", "rounds", "steps"]
"""Ways to an answer: an exact fit, Newton corrections, rounds of variance reduction, or plain steps."""
Engine = Literal["python", "compiled", "sparse", "batched", "sums"]
"""How a run is executed: chains of steps in one of four ways, or sums."""


@dataclass(frozen=True)
class Needs:
    """What an update needs of a run: each need is the sentence for a run that does not meet it, empty if there is none.

    A sentence may name what was given as ``{feasible}``, ``{precision}`` or ``{step}``. They are checked in one place,
    before anything is run.
    """

    whole_space: str = ""
    """No feasible set."""
    constant_step: str = ""
    """A number or "auto" for the step, no schedule."""
    one_step: str = ""
    """One step size, not several that compete."""
    double: str = ""
    """Iterates in float64."""
    own_order: str = ""
    """No replay scheme: the update reads the record in order by itself."""
    resumed: str = ""
    """No checkpoint."""
    no_step: str = ""
    """No step size: the update takes no steps."""


class Unsuitable(Exception):
    """An update found out from the data that it cannot be used; the text says why."""


class Singular(Unsuitable):
    """The Jacobian of all rows is singular, or all but that."""


@dataclass(frozen=True, eq=False)
class Found:
    """What an update found."""

    epochs: tuple[Epoch, ...]
    """Everything that was run, in its order."""
    chosen: int
    """Which of them answers."""
    passes: float
    """Samples touched, in passes over the record."""
    seconds: float
    """Wall-clock time of the steps or sums, without the time to compile a loop."""
    what: str
    """What was done and what the answer is, as the sentence of a status that begins with "Finished: "."""
    notes: tuple[str, ...] = ()
    """What else a person should know."""
    images: Images | None = None
    """What the batches of the record say of the answer, where the update has come by it: standard errors follow."""
    distance: float | None = None
    """Distance to the exact fit in standard errors of the worst coordinate, as far as it is known; None if not."""
    free: tuple[tuple[int, ...], ...] = ()
    """Directions that the record says nothing of, each by the coordinates that have part in it."""
    lipschitz: float | None = None
    """The Lipschitz constant from which an automatic step is made, where it may be needed to mend a run."""


class Update(ABC):
    """How the record moves the iterate; see `Plain`, `VarianceReduced`, `RichardsonRomberg`, `Newton` and `Exact`.

    An update of one's own is a class with a method ``run``, which gets the resolved `Run` and reaches the data through
    the engine alone: `multireplay.updates.plain.StepRun` for steps in the planned order, `multireplay.engine.sums` for
    sums over all rows.
    """

    needs: ClassVar[Needs] = Needs()
    route: ClassVar[Route] = "steps"
    engine: ClassVar[Engine] = "sums"
    """What executes it, where it reads the record by itself."""

    @abstractmethod
    def run(self, run: Run) -> Found:
        """Carry the run out.

        Raises
        ------
        Unsuitable
            If the data turn out not to be for this update.
        """
