"""Answers to predict with where there are too many coordinates for the rows: dyadic passes beside the exact fit."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multireplay._check import Vector
from multireplay.buffer.buffer import Buffer
from multireplay.buffer.columns import Columns, row_count
from multireplay.errors import InputError
from multireplay.problems import Problem
from multireplay.replay import Dyadic
from multireplay.result import Epoch
from multireplay.solve import solve
from multireplay.streaming.fresh import Beginning
from multireplay.updates import Plain

HALF = 0.5
"""Of the automatic step: averages at the whole of it are up to 13 % further from the truth, at a quarter twice as many
passes are needed."""
PASSES = (1, 2, 4, 8, 16)
"""Dyadic passes at that step, each beginning where the last one ended, after which there is an answer: the average over
the last. With 1 to 12 rows a coordinate the best of them is within 4 % of the best ridge."""
SMALL = (1 / 16,)
"""And one pass at so much of the automatic step, where there is more noise."""
CHAINS = (1.0, 0.25, 1 / 16)
"""Steps with every row of the stream, once, as it comes, of so much of the automatic one: all that there is room for
where the window holds fewer rows than coordinates."""
MOVES = (1.0, 0.25)
"""Steps with the rows of the open block, from the best answer: where rows are like the ones before them, the last knows
most of the next."""
EXACT = len(PASSES) + len(SMALL)
COUNT = EXACT + 1 + len(CHAINS)
RECENT = 4
"""What each has gained is forgotten by half in a fourth of the rows that count."""
ARRAYS = ("points", "gains", "made", "moved")


class Early:
    """Dyadic passes over the window, few or many, the exact fit, and steps in order: judged by how they predict.

    The exact fit of about as many rows as coordinates predicts nothing. Few passes are held back by the steps they have
    not taken, much as by a ridge. How many are right is seen: every block judges all answers before it is in any of
    them. An answer x gains, over another y, (y − x)ᵀ(F̂(x) + F̂(y))/2: for a gradient that is the loss it spares, to
    second order; for any monotone operator it is positive where x is nearer to the solution, but for what of the
    operator is not symmetric.

    The best of them takes a step with every row of the open block where such steps have paid, judged row by row. (Not
    in policy evaluation, where following the states of the moment lowers the Bellman error and makes values worse.)
    """

    def __init__(self, dim: int) -> None:
        self.points = np.zeros((COUNT, dim))
        """Of the dyadic passes, the exact fit, and the steps in order."""
        self.gains = np.zeros(COUNT)
        self.made: NDArray[np.bool_] = np.zeros(COUNT, dtype=bool)
        """Which of them there are now."""
        self.step = 0.0
        """The automatic one, of the last passes."""
        self.moved = np.zeros(len(MOVES))
        """What moving the best answer with every row has gained."""

    @property
    def best(self) -> int:
        """Which answer has gained most; the first of those that have gained the same."""
        return int(np.where(self.made, self.gains, -np.inf).argmax())

    def start(self) -> Beginning:
        """What to predict with, and the step to take with every row of the open block; 0 at first."""
        move = int(self.moved.argmax())
        return Beginning(self.points[self.best], None, MOVES[move] * self.step if self.moved[move] > 0 else 0.0)

    def judge(self, problem: Problem, block: Columns, counted: float) -> None:
        """Judge all answers by a block that is in none of them; `counted` is how many rows count in them."""
        count = row_count(block)
        if not self.made.any():
            return
        penalty = count * problem.penalty_diagonal(self.points.shape[1])
        points = np.array([problem.evaluable(point) for point in self.points])
        with np.errstate(over="ignore", invalid="ignore"):
            scores = problem.operator_sums(points, block) + penalty * points
            gained = -0.5 * np.einsum("ij,ij->i", points - points[self.best], scores + scores[self.best])
            moved = self._moved(problem, block, points[self.best])
        kept = 0.5 ** (RECENT * count / max(counted, 1.0))
        self.moved = kept * self.moved + np.nan_to_num(moved, nan=-np.inf)
        self.gains = kept * self.gains + np.nan_to_num(np.where(self.made, gained, 0.0), nan=-np.inf)

    def _moved(self, problem: Problem, block: Columns, best: Vector) -> Vector:
        """Take steps with the rows of a block; what they gained from the best answer on, each before its row."""
        samples, gained = problem.samples(block), np.zeros(len(MOVES))
        moving, chains = np.tile(best, (len(MOVES), 1)), self.points[EXACT + 1 :][self.made[EXACT + 1 :]]
        for row in range(row_count(block)):
            for x, share in zip(chains, CHAINS, strict=False):
                x[:] = problem.constraint.projected(x - share * self.step * problem.operator(x, samples, row))
            if not problem.is_gradient:
                continue
            there = problem.operator(best, samples, row)
            for number, share in enumerate(MOVES):
                x, score = moving[number], problem.operator(moving[number], samples, row)
                gained[number] -= 0.5 * (x - best) @ (score + there)
                moving[number] = problem.constraint.projected(x - share * self.step * score)
        lost = np.asarray(~np.isfinite(chains).all(axis=1))
        self.points[EXACT + 1 :][self.made[EXACT + 1 :]] = np.where(lost[:, None], best, chains)
        return gained

    def renew(self, problem: Problem, record: Buffer | None, exact: Vector | None) -> None:
        """Work out all answers anew: the exact fit where there is one, and all others where there is a record."""
        before, best = self.made.copy(), self.gains[self.best]
        first = None if record is None else _pass(problem, record, "auto", np.zeros(self.points.shape[1]))
        self.made = np.full(COUNT, first is not None)
        self.made[EXACT] = exact is not None
        if record is not None and first is not None:
            x, self.step = np.zeros(self.points.shape[1]), first.step
            for number, share in enumerate(SMALL):
                self._put(len(PASSES) + number, _pass(problem, record, share * self.step, x))
            for done in range(1, PASSES[-1] + 1):
                epoch = _pass(problem, record, HALF * self.step, x)
                x = x if epoch is None else epoch.last
                if done in PASSES:
                    self._put(PASSES.index(done), epoch)
        if exact is not None:
            self.points[EXACT] = exact
        self.points[EXACT + 1 :][~before[EXACT + 1 :]] = self.points[self.best]
        self.gains[self.made & ~before] = np.nextafter(best, -np.inf) if before.any() else 0.0

    def _put(self, number: int, epoch: Epoch | None) -> None:
        self.made[number] = epoch is not None and np.isfinite(epoch.average).all()
        if epoch is not None and self.made[number]:
            self.points[number] = epoch.average

    def state(self) -> dict[str, Any]:
        """All of it as arrays."""
        return {name: getattr(self, name).copy() for name in ARRAYS} | {"step": self.step}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state`."""
        for name in ARRAYS:
            getattr(self, name)[:] = state[name]
        self.step = float(state["step"])


def _pass(problem: Problem, record: Buffer, step: Any, x: Vector) -> Epoch | None:
    """One pass from x; None where there is nothing to go by: every feature has been 0 so far."""
    with warnings.catch_warnings(), np.errstate(over="ignore", invalid="ignore"):
        warnings.simplefilter("ignore")  # what diverges is no answer
        try:
            found = solve(problem, record, replay=Dyadic(), update=Plain(), step=step, x0=x, holdout=None)
        except InputError:
            return None
    return found.epochs[found.chosen]
