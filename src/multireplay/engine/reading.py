"""What a reading of the record is that serves several epochs at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

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
