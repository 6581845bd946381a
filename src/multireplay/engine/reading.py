"""What a reading of the record is that serves several epochs at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from multireplay.result import Epoch


class Reading(ABC):
    """Epochs under way that share one reading of the record.

    Attributes
    ----------
    size : int
        How far the reading goes: rows, or places of parts that are read side by side.
    """

    size: int

    @abstractmethod
    def run(self, first: int, note: Callable[[int], object]) -> None:
        """Go on from `first`, counted from 0; `note` is told how far this is."""

    @abstractmethod
    def epochs(self) -> dict[int, list[Epoch]]:
        """What was found, by the index in the plan, for each job."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """All that changes, as arrays."""

    def load(self, state: Mapping[str, Any]) -> None:
        """Go back to this state."""
        for name, array in self.state().items():
            array[...] = state[name]


class UnderWay(Protocol):
    """An epoch under way, for one job."""

    def state(self) -> dict[str, Any]:
        """Copies of all that changes, since an interruption may find it half done."""

    def load(self, state: Mapping[str, Any]) -> None:
        """Go back to this state."""

    def finish(self) -> Epoch:
        """What the epoch found."""


Run = TypeVar("Run", bound=UnderWay)


class ReadingOfRuns(Reading, Generic[Run]):
    """A reading whose epochs are kept apart, for each job.

    Attributes
    ----------
    runs : dict
        The epochs under way, by the index in the plan, for each job.
    """

    runs: dict[int, list[Run]]

    def by_name(self) -> dict[str, Run]:
        """All of them, under the names that they have in a checkpoint."""
        return {
            f"epoch {index} job {number} ": run for index, runs in self.runs.items() for number, run in enumerate(runs)
        }

    def epochs(self) -> dict[int, list[Epoch]]:
        return {index: [run.finish() for run in runs] for index, runs in self.runs.items()}

    def state(self) -> dict[str, Any]:
        return {name + what: array for name, run in self.by_name().items() for what, array in run.state().items()}

    def load(self, state: Mapping[str, Any]) -> None:
        for name, run in self.by_name().items():
            run.load({what.removeprefix(name): array for what, array in state.items() if what.startswith(name)})
