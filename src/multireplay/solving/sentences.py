"""How a run went, as a sentence for people."""

from __future__ import annotations

from multireplay.result import Status
from multireplay.solving.run import Run
from multireplay.updates.base import Found
from multireplay.updates.plain import AUTO_SHARE


def status_of(run: Run, found: Found) -> Status:
    """How the run ended."""
    if any(epoch.diverged for epoch in found.epochs):
        return _diverged(found)
    notes = "".join(f" Note: {note}." for note in found.notes)
    return Status("finished", f"Finished: {found.what}.{notes}")


def _diverged(found: Found) -> Status:
    lost = [epoch for epoch in found.epochs if epoch.diverged]
    first, kept, bound = lost[0], found.epochs[found.chosen], found.lipschitz
    if kept.diverged:
        answer = "the answer is the last finite iterate and of no use"
    else:
        answer = f"the answer is that of epoch {kept.k}, which may only have been too short to diverge"
    remedy = f"step='auto' (here {AUTO_SHARE / bound:.3g})" if bound else f"a smaller step (step={first.step / 4:.2g})"
    return Status(
        "diverged",
        f"Diverged in {len(lost)} of {len(found.epochs)} epochs, first at step {first.taken + 1} of epoch {first.k} "
        f"with step size {first.step:.3g}; {answer}. Try {remedy}, features of smaller norm, or a bounded constraint.",
    )
