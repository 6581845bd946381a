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
FEW = 2**9
"""Chains that cost little although each of them is a call from Python."""


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
    if job.make is None or not job.record.on_disk or is_scale(planned, job) or can_be_lanes(planned, job):
        return False
    return planned.forwards or (_several(planned, job) and not is_too_large(planned, job))


def is_batched_from_disk(planned: PlannedEpoch, job: Job) -> bool:
    """Whether the chains of an epoch over batches can be read from disk in order, each epoch by itself."""
    there = job.record.on_disk and isinstance(job.stepper, BatchedStepper)
    return there and _several(planned, job) and not is_too_large(planned, job)


def is_too_large(planned: PlannedEpoch, job: Job) -> bool:
    """Whether memory has no room for the iterates of chains that could take turns otherwise."""
    room = max(MEMORY, (job.record.budget or 0) // 2)
    return _several(planned, job) and not can_be_lanes(planned, job) and size_of_iterates(planned, job) > room


def is_crowded(planned: PlannedEpoch, job: Job) -> bool:
    """Whether an epoch has so many chains, of fewer steps, that a pass in order has no room for their iterates."""
    many = planned.side_by_side is not None and planned.chains > planned.length
    return many and job.make is not None and not are_few(planned, job)


def are_few(planned: PlannedEpoch, job: Job) -> bool:
    """Whether the iterates of all chains of an epoch are a small part of the record, or of memory.

    On sparse rows an iterate is much larger than a row, and costs as much as a step for each of its coordinates.
    """
    chains, length = planned.chains, planned.length
    small = size_of_iterates(planned, job) <= MEMORY
    if isinstance(job.stepper, SparseStepper):
        return (chains <= length and len(job.x0) <= length) or (chains <= max(length, FEW) and small)
    return chains <= length or small


def _several(planned: PlannedEpoch, job: Job) -> bool:
    """Whether an epoch has several chains that read the record side by side, and they are not too many for that."""
    return planned.side_by_side is not None and are_few(planned, job)


def size_of_iterates(planned: PlannedEpoch, job: Job) -> int:
    """Bytes that the iterates of all chains of an epoch take side by side."""
    if can_be_lanes(planned, job):
        return planned.chains * row_bytes(len(job.x0), job.stepper.x.itemsize)
    return planned.chains * sum(int(array.nbytes) for array in arrays_of(job.stepper).values())
