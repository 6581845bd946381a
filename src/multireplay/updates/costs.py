"""What a run costs on disk, said before it begins; and a checkpoint refused where there is nothing to go on from."""

from __future__ import annotations

from multireplay.buffer.disk.memory import in_words
from multireplay.buffer.record import StoredRecord
from multireplay.engine import (
    Job,
    can_be_resumed,
    crowded,
    in_order_alone,
    is_too_large,
    passes_in_parts,
    readings_in_order,
    runs_in_order,
    size_of_iterates,
)
from multireplay.errors import InputError, warn
from multireplay.replay import PlannedEpoch, Replay
from multireplay.updates.base import Update

Plan = tuple[PlannedEpoch, ...]


def tell_costs(plan: Plan, replay: Replay, update: Update, job: Job) -> None:
    """Warn of random access on disk and of further readings.

    Raises
    ------
    InputError
        If there is to be a checkpoint, and the epochs are not read in an order that it can keep.
    """
    in_order = job.make is not None
    again = readings_in_order(plan, job)
    if job.checkpoint is not None and again > 1:
        raise InputError(f"checkpoint=... is for one reading, and {_no_room_at_once(again)}: give it more")
    if job.checkpoint is not None and not can_be_resumed(plan, job):
        usual = "mr.Newton(), or mr.Multiscale() or mr.Interleaved() with mr.Plain(), and without track="
        why = (_no_room(plan, replay, job) or _too_many(plan, replay, job)) if in_order else ""
        raise InputError(f"checkpoint=... is for passes in order: {why or usual}")
    if isinstance(job.record, StoredRecord):
        for what in _costs(plan, replay, update, job, job.record, in_order):
            warn(what)


def _costs(plan: Plan, replay: Replay, update: Update, job: Job, record: StoredRecord, in_order: bool) -> list[str]:
    """Sentences on what the readings of a record on disk cost, none if it is read once and in order."""
    found = []
    if (again := readings_in_order(plan, job)) > 1:
        found.append(_no_room_at_once(again))
    if (in_order and runs_in_order(plan, job)) or in_order_alone(plan, job):
        return found
    if in_order and (no_room := _no_room(plan, replay, job)):
        random = record.stored.cost_of_random_access()
        return [*found, f"{no_room}, or the record is read in random order for them. {random}"]
    if in_order and (too_many := _too_many(plan, replay, job)):
        more, parts = passes_in_parts(plan, job), max(planned.length for planned in crowded(plan, job))
        times = "once" if more == 1 else f"{more} times"
        more_readings = f"the record is read {times} more for them, in up to {parts} parts side by side, each in order"
        return [*found, f"{too_many}: {more_readings}"]
    return [
        *found,
        f"{replay!r} with {update!r} does not read the record in order. {record.stored.cost_of_random_access()} "
        "mr.Newton(), mr.Multiscale() and mr.Interleaved() do",
    ]


def _no_room_at_once(readings: int) -> str:
    return (
        "memory= has no room for the iterates of all epochs at once, "
        f"so that the record is read {readings} times for them, in order"
    )


def _no_room(plan: Plan, replay: Replay, job: Job) -> str:
    """On epochs whose iterates do not fit, or nothing."""
    sizes = [size_of_iterates(planned, job) for planned in plan if is_too_large(planned, job)]
    if not sizes:
        return ""
    return (
        f"memory= has no room for the iterates of all chains of {len(sizes)} of the {len(plan)} epochs of {replay!r}, "
        f"which take up to {in_words(max(sizes))}: give it twice that"
    )


def _too_many(plan: Plan, replay: Replay, job: Job) -> str:
    """On epochs of more chains than a pass in order has room for, where all the others are read so; or nothing."""
    sizes = [size_of_iterates(planned, job) for planned in crowded(plan, job)]
    if not sizes:
        return ""
    return (
        f"the chains of {len(sizes)} of the {len(plan)} epochs of {replay!r} are too many for one pass in order, "
        f"because their iterates take up to {in_words(max(sizes))}"
    )
