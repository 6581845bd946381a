"""The chains of one epoch side by side where steps are compiled: as `Phases`, to the last bit, in one loop a block."""

from __future__ import annotations

from typing import Any

import numba

from multireplay._check import Positions, Vector
from multireplay.engine import kernels
from multireplay.engine.kernels import step_once, steps_ahead
from multireplay.engine.phases import Phases
from multireplay.engine.steppers import CompiledStepper, StepFailure, explain_failure, is_built_in, run_kernel


def _advance_phases(  # type: ignore[no-untyped-def]
    samples, spec, length, count, base, due, begin, steps, weights, limit, offsets, xs, totals, counts, out, reached
):
    """Steps of one chain after the other up to the `due` one of each; that of size steps[0] is the `begin`-th, from 0.

    ``reached[0]`` is the chain whose turn it is, so that it is right also when the user's operator raises; it ends as
    the one that diverged, or the number of all of them.
    """
    ahead = steps_ahead(samples)
    for chain in range(due.shape[0]):
        reached[0] = chain
        x, total, offset = xs[chain], totals[chain], offsets[chain] + base
        for t in range(counts[chain], due[chain]):
            row = ((t + 1) * length) // count - offset
            later = (min(t + 1 + ahead, due[chain]) * length) // count - offset
            step, weight = steps[t - begin], weights[t - begin]
            if not step_once(x, total, samples, row, step, weight, limit, spec, out, later):
                return
            counts[chain] += 1
    reached[0] = due.shape[0]


advance_phases = numba.njit(cache=True, _nrt=False, **kernels.OPTIONS)(_advance_phases)
advance_phases_users = numba.njit(**kernels.OPTIONS)(_advance_phases)


class CompiledPhases(Phases):
    """Several chains under way, of a user's compiled operator or link, of tables, or with error curves."""

    def _advance(self, samples: Any, base: int, due: Positions, begin: int, steps: Vector, weights: Vector) -> None:
        run = self.run
        assert isinstance(run.stepper, CompiledStepper)
        where = run.stepper.projection, self.length, self.planned.length, base, due, begin, steps, weights, run.limit
        chains = self.offsets, self._kept["x"], self._kept["total"], self._counts, run.stepper.out, run.stepper.taken
        kernel = advance_phases if is_built_in(samples) else advance_phases_users
        try:
            reached = run_kernel(kernel, samples, *where, *chains)
        except StepFailure as failure:
            self._turn_to(failure.taken)
            raise explain_failure(failure, run.where(0, self._positions(failure.taken, 1))) from failure.__cause__
        if reached < len(due):
            self._going = reached
            self._turn_to(reached)
            position = self._positions(reached, 1)
            if run.problem.users_code:
                run.blame_operator(samples, int(position[0]) - base + 1, run.where(0, position))
