"""What a run costs on disk, said before it begins; and a checkpoint refused where there is nothing to go on from."""

from __future__ import annotations

from multireplay.buffer.disk.memory import in_words
from multireplay.buffer.record import StoredRecord
from multireplay.engine import Itinerary
from multireplay.errors import InputError, warn
from multireplay.replay import Replay
from multireplay.updates.base import Update


def tell_costs(itinerary: Itinerary, replay: Replay, update: Update) -> None:
    """Warn of random access on disk, of further readings, and of step sizes that are run one after the other.

    Raises
    ------
    InputError
        If there is to be a checkpoint, and the epochs do not share one reading in order.
    """
    job = itinerary.jobs[0]
    if job.checkpoint is not None:
        _check_checkpoint(itinerary, replay)
    if not itinerary.fits:
        warn(f"{_no_room(itinerary)}: the record is read anew for each of them")
    if isinstance(job.record, StoredRecord) and not itinerary.in_order:
        random = job.record.stored.cost_of_random_access()
        usual = (
            f"{replay!r} with {update!r} does not read the record in order. {random} "
            "mr.Newton(), mr.Multiscale(), mr.Serial() and mr.Skip() do, and mr.Interleaved() for the built-in problems"
        )
        warn(_more_readings(itinerary, replay) or usual)


def _check_checkpoint(itinerary: Itinerary, replay: Replay) -> None:
    """A checkpoint keeps one reading in order, and no other."""
    if not itinerary.resumable:
        usual = (
            "mr.Newton(), or mr.Plain() with mr.Multiscale() or mr.Interleaved(), and from disk with mr.Serial() or "
            "mr.Skip(), without track="
        )
        raise InputError(f"checkpoint=... is for passes in order: {_too_many(itinerary, replay) or usual}")
    if not itinerary.fits:
        raise InputError(
            f"{_no_room(itinerary)}, and checkpoint=... is for one reading: give more memory=, or fewer step sizes"
        )


def _no_room(itinerary: Itinerary) -> str:
    count = len(itinerary.jobs)
    return f"the memory budget has no room for the iterates of {count} step sizes side by side"


def _more_readings(itinerary: Itinerary, replay: Replay) -> str:
    """On the readings that crowded epochs take, where all the others are read in order; or nothing."""
    too_many, more = _too_many(itinerary, replay), itinerary.more_readings
    if not too_many:
        return ""
    parts = max(leg.planned.length for leg in itinerary.crowded)
    times = "once" if more == 1 else f"{more} times"
    return f"{too_many}: the record is read {times} more for them, in up to {parts} parts side by side, each in order"


def _too_many(itinerary: Itinerary, replay: Replay) -> str:
    """On epochs of more chains than a pass in order has room for, where all the others are read so; or nothing."""
    crowded = itinerary.crowded
    if not crowded:
        return ""
    return (
        f"the chains of {len(crowded)} of the {len(itinerary.legs)} epochs of {replay!r} are too many for one pass in "
        f"order, because their iterates take up to {in_words(max(leg.room for leg in crowded))}"
    )
