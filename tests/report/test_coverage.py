"""Which samples the picture shows, against the plan read position by position."""

from __future__ import annotations

import numpy as np
import pytest

import multireplay as mr
from multireplay.buffer.record import spread_rows
from multireplay.report.coverage import MOST_DOTS, THINNED, corrections_plan, coverage

SCHEMES = [
    mr.Serial(), mr.Skip(7), mr.Multiscale(), mr.Multiscale(phases=3), mr.Dyadic(), mr.Uniform(1), mr.Shuffle(1),
    mr.Reverse(10, 3),
]  # fmt: skip


@pytest.mark.parametrize("replay", SCHEMES, ids=repr)
@pytest.mark.parametrize("length", [7, 1000, 70_001])
def test_every_scale_counts_the_positions_of_the_plan(replay, length):
    plan = replay.plan(length)
    covered = coverage(plan, length)
    orders = [epoch.positions for epoch in plan]
    if len(plan) == 1:
        powers = [2**k for k in range(1, 40) if 2**k < len(orders[0])]
        orders = [orders[0][:steps] for steps in [*powers, len(orders[0])]]
    assert covered.doubling == (len(plan) == 1)
    assert [scale.steps for scale in covered.scales] == [len(order) for order in orders]
    for scale, order in zip(covered.scales, orders, strict=True):
        for i in (0, len(scale.share) // 2, len(scale.share) - 1):
            low, high = covered.edges[i], covered.edges[i + 1]  # positions low + 1, …, high
            reads = sum(1 for position in order.tolist() if low < position <= high)
            assert scale.share[i] == reads / (high - low)
        assert (scale.share * np.diff(covered.edges)).sum() == pytest.approx(len(order))
        assert (scale.dots is None) == (len(order) > MOST_DOTS)
        if scale.dots is not None:
            assert np.array_equal(scale.dots, order)
        steps, positions = scale.thinned
        assert np.array_equal(order[steps - 1], positions)
        if not covered.doubling:
            assert steps[0] == 1
            assert steps[-1] == len(order)
            assert len(steps) == min(THINNED, len(order))


def test_the_distance_is_that_of_consecutive_steps():
    covered = coverage(mr.Multiscale().plan(2**10), 2**10)
    assert [scale.distance for scale in covered.scales] == [2.0 ** (10 - k) for k in range(1, 11)]
    assert coverage(mr.Serial().plan(5000), 5000).scales[-1].distance == 1
    assert coverage(mr.Dyadic().plan(2**12), 2**12).scales[-1].distance >= 2**11
    assert coverage(mr.Skip(1000).plan(1000), 1000).scales[-1].distance == 0  # one step


def test_what_corrections_read():
    coarse, *passes = corrections_plan(length=5000, taken=64, corrections=2)
    assert np.array_equal(coarse.positions, spread_rows(5000, 64) + 1)
    assert [epoch.positions.tolist() for epoch in passes] == [list(range(1, 5001))] * 2
    assert [epoch.k for epoch in (coarse, *passes)] == [6, 7, 8]
