"""The compiled engine, and the epochs that it has loops of its own for: all scales at once, and chains side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from multireplay._check import Positions, Vector
from multireplay.buffer.record import Window
from multireplay.engine.chains import Chains, Member, Team, WholeChains
from multireplay.engine.epoch import EpochRun
from multireplay.engine.kernels import loops
from multireplay.engine.kernels.loops import STOPPED, TAKEN
from multireplay.engine.kernels.reduced import advance_reduced, advance_reduced_users
from multireplay.engine.stepper import Preconditioner, ReducedStepper, Stepper, Way, is_built_in, run_kernel
from multireplay.problems.glm import RegressionSamples
from multireplay.problems.policy_evaluation import TransitionSamples
from multireplay.replay import PlannedEpoch
from multireplay.result import Epoch
from multireplay.sets import Set, WholeSpace
from multireplay.steps import Constant, PerEpoch, Theorem1

if TYPE_CHECKING:
    from multireplay.engine.epoch import Job

GROUP = 2**12
"""Bytes of iterates of a group of lanes, which share a sum, at least. Fixed, and a thread gets whole groups, so that
the number of threads does not change a bit of the answer."""
MOST_GROUPS = 8
LINE, PAGE = 64, 4096
"""Bytes of a cache line and of a page."""


class CompiledStepper(Stepper):
    """Runs the compiled loops, with the iterates in float64 or float32."""

    name = "compiled"

    def __init__(self, constraint: Set, dim: int, dtype: Any = np.float64) -> None:
        self.constraint = constraint
        self.projection = None if isinstance(constraint, WholeSpace) else cast(Vector, constraint.spec(dim))
        """The feasible set as the loops take it: None for the whole space, where nothing is projected."""
        self.x = zeros(dim, dtype)
        self.total = zeros(dim)
        self.out = np.zeros(dim)
        self.taken = np.zeros(1, dtype=np.int64)

    def fresh(self) -> Stepper:
        return CompiledStepper(self.constraint, len(self.x), self.x.dtype)

    def reduced(self, preconditioner: Preconditioner) -> ReducedStepper:
        return ReducedCompiledStepper(preconditioner, self.constraint, len(self.x))

    def advance(self, samples: Any, positions: Positions, steps: Vector, weights: Vector, limit: float) -> int:
        kernel = loops.advance if is_built_in(samples) else loops.advance_users
        where = self.projection, positions, steps, weights, limit, self.x, self.total, self.out
        return run_kernel(kernel, samples, *where, self.taken)

    def way(self, planned: PlannedEpoch, job: Job) -> Way:
        at_the_end = job.track is None or isinstance(job.track.at, str)
        one_step = isinstance(job.schedule, Constant | PerEpoch | Theorem1) and not job.averaging.rising
        if planned.scale_of is not None and is_built_in(job.record.example) and one_step and at_the_end:
            return "scales"
        if self._can_be_lanes(planned, job) and self.are_few(planned, self.room(planned, job)):
            return "lanes"
        return super().way(planned, job)

    def _can_be_lanes(self, planned: PlannedEpoch, job: Job) -> bool:
        """Whether the chains of an epoch can be run side by side, if there is room for their iterates."""
        samples = job.record.example
        dense = isinstance(samples, RegressionSamples | TransitionSamples) and is_built_in(samples)
        return planned.side_by_side is not None and dense and job.track is None

    def room(self, planned: PlannedEpoch, job: Job) -> int:
        if self._can_be_lanes(planned, job):
            return planned.chains * row_bytes(len(self.x), self.x.itemsize)
        return super().room(planned, job)

    def member(self, way: Way, runs: Sequence[EpochRun]) -> Member:
        return Scales(self, runs) if way == "scales" else Lanes(self, runs[0])

    def whole_chains(self, run: EpochRun) -> Chains | None:
        return CompiledChains(self, run)


class ReducedCompiledStepper(ReducedStepper, CompiledStepper):
    """Variance reduction, compiled."""

    def advance(self, samples: Any, positions: Positions, steps: Vector, weights: Vector, limit: float) -> int:
        if not len(self.anchor) and not self.preconditioner.rank:
            return super().advance(samples, positions, steps, weights, limit)
        kernel = advance_reduced if is_built_in(samples) else advance_reduced_users
        where = samples, self.projection, positions, steps, weights, limit, self.x, self.total
        around = self.anchor, self.mean, self.preconditioner.axes, self.preconditioner.stretch
        return run_kernel(kernel, *where, *around, self.out, self.taken)


class CompiledChains(WholeChains):
    """Whole chains of one epoch in the compiled loop."""

    def __init__(self, stepper: CompiledStepper, run: EpochRun) -> None:
        super().__init__(run)
        self.projection, self._x, self._total = stepper.projection, zeros(run.dim, stepper.x.dtype), zeros(run.dim)
        self._scratch = np.zeros(run.dim), np.zeros(1, dtype=np.int64)

    def compiled(self, samples: Any, positions: Positions) -> int:
        kernel = loops.advance_chains if is_built_in(samples) else loops.advance_chains_users
        where = samples, self.projection, positions, self.steps, self.weights, self.run.limit, self.run.x0
        return run_kernel(kernel, *where, self._x, self._total, self.lasts, self.totals, *self._scratch)


class Scales(Member):
    """K epochs of static multiscale replay with one phase under way: fewer than 2B steps, K iterates in memory."""

    def __init__(self, stepper: CompiledStepper, runs: Sequence[EpochRun]) -> None:
        self.projection, self.runs = stepper.projection, tuple(runs)
        self.length = cast(int, runs[0].planned.scale_of)
        self._scales = np.array([run.planned.k for run in runs], dtype=np.int64)
        self._steps = np.array([run.first_step for run in runs])
        self._skips = np.array([run.skipped for run in runs], dtype=np.int64)
        self._xs = np.tile(runs[0].x0.astype(stepper.x.dtype), (len(runs), 1))
        self._totals = np.zeros((len(runs), runs[0].dim))
        self._counts = np.zeros(len(runs), dtype=np.int64)
        self._following = self.length >> self._scales
        self._scratch = np.zeros(runs[0].dim), np.zeros(1, dtype=np.int64)

    @property
    def taken(self) -> int:
        return int(self._counts.sum())

    def advance(self, window: Window, first: int, team: Team) -> None:
        epochs = self.projection, self.length, self._scales, self._steps, self._skips, self.runs[0].limit
        kept = self._xs, self._totals, self._counts, self._following, *self._scratch
        run_kernel(loops.stream_epochs, window.samples, *epochs, window.base, first, window.last, *kept)

    def arrays(self) -> dict[str, Any]:
        return {"xs": self._xs, "totals": self._totals, "counts": self._counts, "following": self._following}

    def epochs(self) -> list[Epoch]:
        return [self._epoch(index, run) for index, run in enumerate(self.runs)]

    def _epoch(self, index: int, run: EpochRun) -> Epoch:
        taken = int(self._counts[index])
        averaged = taken - run.skipped
        last = self._xs[index].astype(np.float64)
        average = self._totals[index] / averaged if averaged > 0 else last.copy()
        return run.ended(last, average, taken, taken < run.planned.length)


class Lanes(Member):
    """The chains of one epoch under way side by side: the phases of a gap read memory once, in order, on all cores.

    Chain j reads row p_t − o_j in its step t. In a window of one gap the rows of all chains lie side by side, so that
    going through the record in order serves every chain in turn. Neighbouring steps belong to different chains, and so
    the processor works on several of them at once.
    """

    def __init__(self, stepper: CompiledStepper, run: EpochRun) -> None:
        self.projection, self.run = stepper.projection, run
        self.length, self.chains = cast(int, run.planned.side_by_side), run.planned.chains
        self.offsets = np.arange(self.chains, dtype=np.int64) * (self.length // run.planned.length) // self.chains
        start = run.x0.astype(stepper.x.dtype)
        groups = max(1, min(MOST_GROUPS, self.chains, self.chains * run.dim * 8 // GROUP))
        groups = 2 ** (groups.bit_length() - 1)
        self.bounds = np.array([self.chains * group // groups for group in range(groups + 1)])
        self._xs = apart(groups, -(-self.chains // groups), run.dim, start.dtype)
        self._xs[:, :, : run.dim] = start
        self._totals = apart(groups, 1, run.dim, np.dtype(np.float64))
        self._marks = apart(groups, 1, 3, np.dtype(np.int64))

    @property
    def taken(self) -> int:
        return int(self._marks[:, 0, TAKEN].sum())

    def advance(self, window: Window, first: int, team: Team) -> None:
        count, last = self.run.planned.length, window.last
        begin = max(1, first * count // self.length)
        end = min(count, (last + self.length // count) * count // self.length + 1)
        sizes = self.run.sizes_from(begin - 1, end - begin + 1)
        where = self.length, count, window.base, first, last, begin, *sizes, self.run.limit, self.offsets

        def advance_groups(low: int, high: int) -> None:
            lanes = self.bounds[low : high + 1], self._xs[low:high], self._totals[low:high], self._marks[low:high]
            loops.advance_lanes(window.samples, self.projection, *where, *lanes, np.zeros(self.run.dim))

        team.share(advance_groups, team.cuts(len(self._marks)))

    def arrays(self) -> dict[str, Any]:
        return {"xs": self._xs, "totals": self._totals, "marks": self._marks}

    def epochs(self) -> list[Epoch]:
        diverged = bool(self._marks[:, 0, STOPPED].any())
        return [self.run.ended(*self._means(), self.taken, diverged)]

    def _means(self) -> tuple[Vector, Vector]:
        """Of the last iterates and of the averages of the chains."""
        dim, length = self.run.dim, self.run.planned.length
        groups = zip(self._xs, np.diff(self.bounds), strict=True)
        last = np.sum([xs[:size, :dim].sum(axis=0, dtype=np.float64) for xs, size in groups], axis=0) / self.chains
        whole = self.run.averaging.weight(length, length) * self.chains
        total = self._totals[:, 0, :dim].sum(axis=0)
        return last, np.asarray(total / whole) if whole > 0 else last.copy()


def row_bytes(dim: int, itemsize: int) -> int:
    """Bytes of a row that begins with a cache line, unless it is shorter than one."""
    wanted = dim * itemsize
    return wanted if wanted < LINE else -(-wanted // LINE) * LINE


def apart(groups: int, count: int, dim: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Zeros for `count` rows of `dim` numbers in each of several groups, and some room after the rows and each group.

    A row begins with a cache line, so that no pack of float64 lies on two of them, unless it is shorter than one.
    Groups are a page apart: the processor fetches lines before they are asked for, and two threads would take them
    from each other.
    """
    width = row_bytes(dim, dtype.itemsize)
    count += -(-PAGE // width)
    room = np.zeros(groups * count * width + LINE, dtype=np.uint8)
    first = -room.ctypes.data % LINE
    return room[first : first + groups * count * width].view(dtype).reshape(groups, count, -1)


def zeros(dim: int, dtype: Any = np.float64) -> NDArray[Any]:
    """That many zeros from the beginning of a cache line on, so that no pack of float64 lies on two of them."""
    return apart(1, 1, dim, np.dtype(dtype))[0, 0, :dim]
