"""Which kinds of epochs there are, for the readings that serve them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multireplay.engine.batched import BatchedStepper
from multireplay.engine.lazy import SparseStepper
from multireplay.engine.packs import row_bytes
from multireplay.engine.steppers import CompiledStepper, arrays_of, is_built_in
from multireplay.problems.glm import RegressionSamples
from multireplay.problems.policy_evaluation import TransitionSamples
from multireplay.replay import PlannedEpoch
from multireplay.steps import Constant, Theorem1

if TYPE_CHECKING:
    from multireplay.engine.plans import Job

MEMORY = 2**23
"""Bytes that the iterates of more chains than steps may take; beyond that they are run one after the other. It does not
depend on where the record is, so that the numbers do not."""


def is_scale(planned: PlannedEpoch, job: Job) -> bool:
    """Whether this is an epoch of static multiscale replay with one phase, compiled, with one step size."""
    return (
        planned.scale_of is not None
        and type(job.stepper) is CompiledStepper
        and is_built_in(job.record.example)
        and isinstance(job.schedule, Constant | Theorem1)
        and not job.averaging.rising
        and (job.track is None or isinstance(job.track.at, str))
    )


def can_be_lanes(planned: PlannedEpoch, job: Job) -> bool:
    """Whether the chains of an epoch can be compiled lanes, if there is room for their iterates."""
    return (
        planned.side_by_side is not None
        and type(job.stepper) is CompiledStepper
        and isinstance(job.record.example, RegressionSamples | TransitionSamples)
        and is_built_in(job.record.example)
        and job.track is None
    )


def is_side_by_side(planned: PlannedEpoch, job: Job) -> bool:
    """Whether the chains of an epoch are run as lanes, with all their iterates in memory."""
    return can_be_lanes(planned, job) and are_few(planned, job)


def takes_turns(planned: PlannedEpoch, job: Job) -> bool:
    """Whether the chains of an epoch, one or several, take turns with every block of a record on disk: any engine."""
    if job.make is None or job.record.budget is None or is_scale(planned, job) or can_be_lanes(planned, job):
        return False
    several = planned.side_by_side is not None and are_few(planned, job)
    return planned.forwards or (several and size_of_iterates(planned, job) <= max(MEMORY, job.record.budget // 4))


def is_batched_from_disk(planned: PlannedEpoch, job: Job) -> bool:
    """Whether the chains of an epoch over batches can be read from disk in order, each epoch by itself."""
    several = planned.side_by_side is not None and are_few(planned, job)
    return several and job.record.on_disk and isinstance(job.stepper, BatchedStepper)


def is_crowded(planned: PlannedEpoch, job: Job) -> bool:
    """Whether an epoch has so many chains that a pass in order has no room for their iterates."""
    return planned.side_by_side is not None and job.make is not None and not are_few(planned, job)


def are_few(planned: PlannedEpoch, job: Job) -> bool:
    """Whether the iterates of all chains of an epoch are kept side by side: it is a small part of the record.

    On sparse rows they are much larger than a row, and are not.
    """
    sparse = isinstance(job.stepper, SparseStepper)
    return (not sparse and planned.chains <= planned.length) or size_of_iterates(planned, job) <= MEMORY


def size_of_iterates(planned: PlannedEpoch, job: Job) -> int:
    """Bytes that the iterates of all chains of an epoch take side by side."""
    if can_be_lanes(planned, job):
        return planned.chains * row_bytes(len(job.x0), job.stepper.x.itemsize)
    return planned.chains * sum(int(array.nbytes) for array in arrays_of(job.stepper).values())
