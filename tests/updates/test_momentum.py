"""What a new update costs: one class and one loop. Momentum, which the library does not have, as the example."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numba
import numpy as np
import pytest

import multireplay as mr
from multireplay.engine.compiled import CompiledStepper
from multireplay.updates import Needs, Update
from multireplay.updates.plain import StepRun


@numba.njit
def advance_with_momentum(features, targets, positions, steps, weights, limit, momentum, x, velocity, total):
    """v ← βv − ηF̃(x, ξ), x ← x + v for least squares; the number of steps taken."""
    for t in range(len(positions)):
        row = features[positions[t] - 1]
        residual = row @ x - targets[positions[t] - 1]
        if not abs(residual) <= limit:
            return t
        for j in range(len(x)):
            velocity[j] = momentum * velocity[j] - steps[t] * residual * row[j]
            x[j] += velocity[j]
            total[j] += weights[t] * x[j]
    return len(positions)


class HeavyBallStepper(CompiledStepper):
    """Runs that loop."""

    def __init__(self, constraint, dim, momentum):
        super().__init__(constraint, dim)
        self.momentum, self.velocity = momentum, np.zeros(dim)

    def fresh(self):
        return HeavyBallStepper(self.constraint, len(self.x), self.momentum)

    def way(self, planned, job):
        return "alone"  # the loops over many chains take plain steps

    def advance(self, samples, positions, steps, weights, limit):
        where = samples.features, samples.targets, positions, steps, weights, limit, self.momentum
        return advance_with_momentum(*where, self.x, self.velocity, self.total)


@dataclass(frozen=True)
class Momentum(Update):
    """Steps with momentum (Polyak 1964)."""

    needs: ClassVar[Needs] = Needs(
        whole_space="momentum leaves {feasible}; it needs the whole space",
        one_step="mr.Plain() alone takes several step sizes",
    )
    momentum: float = 0.9

    def run(self, run):
        make = lambda: HeavyBallStepper(run.feasible, run.record.dim, self.momentum)  # noqa: E731
        with StepRun(run, make) as walk:
            return walk.found(*walk.through_the_plan(), how=f" with momentum {self.momentum:g}")


@pytest.fixture(scope="module")
def buffer():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((5000, 3)) * [1.0, 0.7, 0.5]
    return mr.Buffer(features=A, targets=A @ [1.0, -1.0, 2.0] + 0.1 * rng.standard_normal(5000))


def test_it_runs_in_any_order_and_says_what_it_did(buffer):
    exact = mr.GLM().fit_exactly(buffer)
    for order in (None, mr.Dyadic(), mr.Shuffle(0), mr.Multiscale()):
        result = mr.solve(mr.GLM(), buffer, update=Momentum(0.9), replay=order, step=0.01)
        assert np.abs(result.x - exact).max() < 0.1
        assert "with momentum 0.9" in str(result.status)
        assert (result.run.update, result.run.route) == (Momentum(0.9), "steps")


def test_against_a_literal_version(buffer):
    x, velocity = np.zeros(3), np.zeros(3)
    for row, target in zip(buffer["features"], buffer["targets"], strict=True):
        velocity = 0.5 * velocity - 0.02 * (row @ x - target) * row
        x = x + velocity
    result = mr.solve(mr.GLM(), buffer, update=Momentum(0.5), replay=mr.Serial(), step=0.02, average="none")
    assert np.allclose(result.x, x, rtol=1e-12)


def test_without_momentum_it_is_the_plain_step(buffer):
    options = {"replay": mr.Dyadic(), "step": 0.05}
    one, other = (mr.solve(mr.GLM(), buffer, update=update, **options) for update in (Momentum(0.0), mr.Plain()))
    assert np.allclose(one.x, other.x, rtol=1e-10)


def test_what_it_needs_is_checked_in_one_place(buffer):
    with pytest.raises(mr.InputError, match=r"momentum leaves Ball\(.*\); it needs the whole space"):
        mr.solve(mr.GLM(), buffer, update=Momentum(), constraint=mr.sets.Ball(1.0), step=0.01)
    with pytest.raises(mr.InputError, match="alone takes several step sizes"):
        mr.solve(mr.GLM(), buffer, update=Momentum(), step=(0.1, 0.01))
