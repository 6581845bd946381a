"""Which epochs of a plan share a reading of the record, and carrying these readings out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from multireplay.engine import sequential, together, turns
from multireplay.engine.checkpoint import Checkpoint
from multireplay.engine.kinds import is_batched_from_disk, is_crowded, size_of_iterates
from multireplay.engine.reading import Reading
from multireplay.engine.sequential import Pass
from multireplay.engine.together import InParts
from multireplay.engine.turns import Turns
from multireplay.replay import PlannedEpoch
from multireplay.result import Epoch

if TYPE_CHECKING:
    from multireplay.engine.plans import Job

Plan = tuple[PlannedEpoch, ...]


def run_passes(plan: Plan, jobs: Sequence[Job]) -> dict[int, list[Epoch]]:
    """The epochs that share a reading, by their index in the plan, for each job."""
    if jobs[0].checkpoint is not None:
        return _run_with_checkpoint([make() for make in _readings(plan, jobs)], jobs[0].checkpoint)
    found: dict[int, list[Epoch]] = {}
    for make in _readings(plan, jobs):
        found |= _run_alone(make())  # which is gone before the next one is made
    return found


def _run_alone(reading: Reading) -> dict[int, list[Epoch]]:
    reading.run(0, lambda at: None)
    return reading.epochs()


def _readings(plan: Plan, jobs: Sequence[Job]) -> list[Callable[[], Reading]]:
    """What makes the readings that there are to be."""
    job = jobs[0]
    kinds: list[tuple[type[Pass] | type[Turns] | type[InParts], list[int]]] = [
        (Pass, sequential.served(plan, job)),
        *((Turns, share) for share in turns.shares(plan, job)),
        (InParts, together.served(plan, job)),
    ]
    return [partial(kind, plan, chosen, jobs) for kind, chosen in kinds if chosen]


def _run_with_checkpoint(readings: Sequence[Reading], kept: Checkpoint) -> dict[int, list[Epoch]]:
    """The same, where a checkpoint counts how far the readings are, one after the other."""
    states = [reading.state() for reading in readings]
    reached = kept.restore({name: array for state in states for name, array in state.items()})
    for reading, state in zip(readings, states, strict=True):
        reading.load(state)
    del states
    before = 0
    for reading in readings:

        def note(at: int, before: int = before) -> None:
            kept.note(before + at, {name: array for one in readings for name, array in one.state().items()})

        reading.run(min(max(reached - before, 0), reading.size), note)
        before += reading.size
    return {index: epochs for reading in readings for index, epochs in reading.epochs().items()}


def fit_together(plan: Plan, jobs: Sequence[Job]) -> bool:
    """Whether half of the memory budget has room for the iterates of all jobs, as side by side as they are."""
    budget = jobs[0].record.budget
    in_order = (*sequential.served(plan, jobs[0]), *turns.served(plan, jobs[0]))
    side = [plan[index] for index in in_order if plan[index].chains > 1]
    kept = sum(size_of_iterates(planned, jobs[0]) for planned in side)
    return len(jobs) == 1 or budget is None or 2 * kept * len(jobs) <= budget


def in_one_pass(plan: Plan, job: Job) -> bool:
    """Whether the compiled pass serves all epochs, so that the stepper itself takes no step."""
    return len(sequential.served(plan, job)) == len(plan)


def runs_in_order(plan: Plan, job: Job) -> bool:
    """Whether all epochs are served by readings in order."""
    return len(sequential.served(plan, job)) + len(turns.served(plan, job)) == len(plan)


def readings_in_order(plan: Plan, job: Job) -> int:
    """How often the record is read in order, for the epochs that take turns: more than once where memory is short."""
    return len(turns.shares(plan, job))


def in_order_alone(plan: Plan, job: Job) -> bool:
    """Whether every epoch is read in order by itself, also with variance reduction."""
    return all(is_batched_from_disk(planned, job) for planned in plan)


def can_be_resumed(plan: Plan, job: Job) -> bool:
    """Whether all epochs are served by readings that a checkpoint can keep, which does not keep error curves."""
    in_turn = turns.served(plan, job)
    count = len(sequential.served(plan, job)) + len(in_turn) + len(together.served(plan, job))
    return count == len(plan) and not (in_turn and job.track is not None)


def crowded(plan: Plan, job: Job) -> list[PlannedEpoch]:
    """Epochs of too many chains for a reading in order, where all the others are served by one."""
    in_order = {*sequential.served(plan, job), *turns.served(plan, job)}
    left = [planned for index, planned in enumerate(plan) if index not in in_order]
    return left if all(is_crowded(planned, job) for planned in left) else []


def passes_in_parts(plan: Plan, job: Job) -> int:
    """How often the record is read for its crowded epochs: once for those together, and once for each of the others."""
    together_with_others = together.served(plan, job)
    crowds = sum(is_crowded(planned, job) for planned in plan)
    return bool(together_with_others) + crowds - len(together_with_others)
