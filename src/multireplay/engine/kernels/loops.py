"""The compiled loops over steps: of one chain, of whole chains, of all epochs at once, and of chains side by side.

Two of them were once written as one, which cost 15 to 40 % of their speed: each is kept as it is. One for a user's own
operator or link may allocate, and is compiled anew in every process; those for the built-in problems allocate nothing,
and without reference counting a step takes half the time.
"""

from __future__ import annotations

import numpy as np

from multireplay._jit import kernel, users_kernel
from multireplay.engine.kernels.step import step_once
from multireplay.problems import compiled_sparse  # noqa: F401  # steps on tables and sparse rows, for these loops
from multireplay.problems.compiled import steps_ahead

TAKEN, STOPPED, REACHED = 0, 1, 2  # marks of a group of lanes


def _advance(samples, spec, positions, steps, weights, limit, x, total, out, taken):  # type: ignore[no-untyped-def]
    """One step for each 1-based position; the iterates are added to `total` with their weights.

    ``taken[0]`` counts the steps as they are taken, so that it is right also when the user's operator raises.
    """
    last = positions.shape[0] - 1
    ahead = steps_ahead(samples)
    for t in range(last + 1):
        taken[0] = t
        later = positions[min(t + ahead, last)] - 1
        if not step_once(x, total, samples, positions[t] - 1, steps[t], weights[t], limit, spec, out, later):
            return
    taken[0] = last + 1


# The sums over the chains are kept here, since to come back to Python after each short chain would cost more than its
# steps.
def _advance_chains(  # type: ignore[no-untyped-def]
    samples, spec, positions, steps, weights, limit, start, x, total, lasts, totals, out, taken
):
    """Whole chains of len(steps) steps, each from `start`; their last iterates and weighted sums are added up."""
    length = steps.shape[0]
    ahead = steps_ahead(samples)
    for t in range(positions.shape[0]):
        taken[0] = t
        within = t % length
        if within == 0:
            for j in range(x.shape[0]):
                x[j] = start[j]
                total[j] = 0.0
        i, later = positions[t] - 1, positions[min(t + ahead, positions.shape[0] - 1)] - 1
        if not step_once(x, total, samples, i, steps[within], weights[within], limit, spec, out, later):
            return
        if within == length - 1:
            for j in range(x.shape[0]):
                lasts[j] += x[j]
                totals[j] += total[j]
    taken[0] = positions.shape[0]


# All epochs look at a row while it is in the cache, so that the record is read once for all of them.
def _stream(  # type: ignore[no-untyped-def]
    samples, spec, length, scales, steps, skips, limit, base, first, last, xs, totals, counts, following, out, taken
):
    """Epochs of static multiscale replay in one pass over positions first, …, last (1-based), in order.

    Position p is a step of epoch k where p = ⌊t·B/2^k⌋ for the t whose turn it is: ``following``. Every epoch keeps its
    own iterate and sum, so that each takes the very steps it would take alone. ``base`` is the position of the first
    of these samples.
    """
    epochs = xs.shape[0]
    ahead = steps_ahead(samples)
    for p in range(first, last + 1):
        later = min(p + ahead, last) - base
        for k in range(epochs):
            if following[k] != p:
                continue
            taken[0] = k
            weight = 1.0 if counts[k] >= skips[k] else 0.0
            if not step_once(xs[k], totals[k], samples, p - base, steps[k], weight, limit, spec, out, later):
                following[k] = -1
                continue
            counts[k] += 1
            following[k] = ((counts[k] + 1) * length) >> scales[k]


# Offsets are subtracted, so that lanes are visited from the last to the first: this is the order of rows in memory.
def _advance_lanes(  # type: ignore[no-untyped-def]
    samples, spec, length, count, base, first, last, begin, steps, weights, limit, offsets, bounds, xs, totals, marks,
    out,
):  # fmt: skip
    """Steps of the lanes bounds[0], …, bounds[-1] − 1 on the rows `first` to `last` that they have not read, in order.

    They begin with step `begin`, counted from 1, whose size and weight are steps[0] and weights[0].
    Group g of them ends at bounds[g + 1]: its iterates xs[g] are added to totals[g, 0], and marks[g, 0] holds the
    number of its steps, whether one of its chains diverged, and the row that it has reached. Unsigned indices are not
    tested for being negative.
    """
    dim, low, top = out.shape[0], bounds[0], bounds[-1] - 1
    lanes, gap, chains = top - low + 1, length // count, offsets.shape[0]
    ahead = min(steps_ahead(samples), lanes)
    for t in range(begin, begin + steps.shape[0]):
        end, following = (t * length) // count, ((t + 1) * length) // count
        if end - offsets[top] > last:
            break
        step, weight = steps[t - begin], weights[t - begin]
        for group in range(totals.shape[0] - 1, -1, -1):
            lowest, total, mark = bounds[group], totals[group, 0], marks[group, 0]
            unread = max(first, mark[REACHED] + 1)
            if mark[STOPPED] or end < unread:
                continue
            latest = min(bounds[group + 1] - 1, ((end - unread + 1) * chains - 1) // gap)  # the lane of the first row
            done = 0
            for j in range(latest, lowest - 1, -1):
                row = end - offsets[j]
                if row > last:
                    break
                other = j - ahead
                later = min(last, end - offsets[other] if other >= low else following - offsets[other + lanes]) - base
                x = xs[np.uintp(group), np.uintp(j - lowest), :dim]
                if not step_once(x, total, samples, np.uintp(row - base), step, weight, limit, spec, out, later):
                    mark[STOPPED] = 1
                    break
                done += 1
            mark[TAKEN] += done
    for group in range(totals.shape[0]):
        marks[group, 0, REACHED] = max(marks[group, 0, REACHED], last)  # after an interruption it may be ahead


advance, advance_users = kernel(_advance), users_kernel(_advance)
advance_chains, advance_chains_users = kernel(_advance_chains), users_kernel(_advance_chains)
stream_epochs = kernel(_stream)
advance_lanes = kernel(_advance_lanes)
