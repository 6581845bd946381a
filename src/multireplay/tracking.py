"""Error curves against a known solution, recorded while a run goes on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from multireplay._check import Vector, as_vector
from multireplay.errors import InputError


@dataclass(frozen=True)
class Curve:
    """Squared errors of one epoch, by iteration.

    Attributes
    ----------
    iterations : ndarray of int
        Steps taken.
    last, average : ndarray
        ‖x − x*‖² of the iterate and of the running average. Where a tail is averaged, the iterate itself stands in
        until the tail begins.
    initial, end_last, end_average : float
        ‖x − x*‖² at x0, by which the paper divides, and at the end of the epoch, whatever iterations were asked for.
    last_weighted, average_weighted, initial_weighted : or None
        These in the norm of the weight matrix W, (x − x*)ᵀW(x − x*), if one was given.
    """

    iterations: NDArray[np.int64]
    last: Vector
    average: Vector
    initial: float
    end_last: float
    end_average: float
    last_weighted: Vector | None = None
    average_weighted: Vector | None = None
    initial_weighted: float | None = None


@dataclass(frozen=True, eq=False)
class Track:
    """What to record: the squared distance to `solution` after the given numbers of steps of every epoch.

    Parameters
    ----------
    solution : array of shape (d,)
        The known solution x*.
    at : iterable of int or "end", optional
        Numbers of steps; "end" is the end of every epoch. By default the powers of two up to the length of the epoch,
        and that length.
    weight : array of shape (d, d), optional
        Also record the error in the norm of this matrix; the paper's Π-weighted one is Ψᵀ Π Ψ.

    Examples
    --------
    >>> import numpy as np
    >>> import multireplay as mr
    >>> A = np.tile(np.eye(2), (8, 1))
    >>> buffer = mr.Buffer(features=A, targets=A @ [1.0, 2.0])
    >>> result = mr.solve(mr.GLM(), buffer, replay=mr.Serial(), step=0.5, track=mr.Track([1, 2], at=[2, 16]))
    >>> curve = result.epochs[0].curve
    >>> curve.initial, curve.iterations, curve.last
    (5.0, array([ 2, 16]), array([1.25000000e+00, 7.62939453e-05]))
    """

    solution: Any
    at: Iterable[int] | Literal["end"] | None = None
    weight: Any = None

    def __post_init__(self) -> None:
        solution = as_vector("track", self.solution)
        if solution.ndim != 1 or not np.isfinite(solution).all():
            raise InputError("track needs one vector of finite numbers, the solution x*")
        object.__setattr__(self, "solution", solution)
        if self.at is not None and not isinstance(self.at, str):
            at = np.unique(np.asarray(list(self.at) if isinstance(self.at, Iterable) else [0]))
            if at.size == 0 or at.dtype.kind not in "iu" or at[0] < 1:
                raise InputError("track at needs whole numbers of steps, at least 1")
            object.__setattr__(self, "at", at)
        elif self.at not in (None, "end"):
            raise InputError(f"track at needs numbers of steps or 'end', not {self.at!r}")
        if self.weight is not None:
            weight = np.asarray(self.weight, dtype=np.float64)
            if weight.shape != (len(solution), len(solution)):
                raise InputError(f"track weight needs shape {(len(solution),) * 2}, not {weight.shape}")
            object.__setattr__(self, "weight", weight)

    def iterations(self, length: int) -> NDArray[np.int64]:
        """The steps of an epoch of that length at which to record."""
        if self.at is None:
            powers = 2 ** np.arange(length.bit_length(), dtype=np.int64)
            return np.unique(np.append(powers, length))
        if isinstance(self.at, str):
            return np.array([length], dtype=np.int64)
        at = np.asarray(self.at, dtype=np.int64)
        return at[at <= length]

    def errors(self, points: Vector) -> Vector:
        """Squared Euclidean distance of each row to the solution."""
        return np.asarray(((points - self.solution) ** 2).sum(axis=1))

    def weighted_errors(self, points: Vector) -> Vector | None:
        """Squared distance of each row to the solution in the norm of the weight, if there is one."""
        if self.weight is None:
            return None
        gaps = points - self.solution
        return np.asarray(((gaps @ self.weight) * gaps).sum(axis=1))


class Recorder:
    """Keeps the iterates of one epoch at the chosen steps; their errors are worked out together at the end."""

    def __init__(self, track: Track, length: int, x0: Vector) -> None:
        self.track = track
        self.at = track.iterations(length)
        self.wanted = frozenset(self.at.tolist())
        self.taken: list[int] = []
        self.start = x0.copy()
        self.last: list[Vector] = []
        self.average: list[Vector] = []

    def record(self, taken: int, last: Vector, average: Vector) -> None:
        self.taken.append(taken)
        self.last.append(last.copy())
        self.average.append(average.copy())

    def end(self, length: int, last: Vector, average: Vector) -> None:
        """Record the end of the epoch, if it was asked for and has not been recorded on the way."""
        if length in self.wanted and length not in self.taken:
            self.record(length, last, average)

    def curve(self, end_last: Vector, end_average: Vector) -> Curve:
        """The errors of what was recorded, and of the two points the epoch ended with."""
        start, last, average = (
            np.array(points).reshape(-1, len(self.start)) for points in ([self.start], self.last, self.average)
        )
        end = self.track.errors(np.array([end_last, end_average]))
        initial_weighted = self.track.weighted_errors(start)
        return Curve(
            iterations=np.array(self.taken, dtype=np.int64),
            last=self.track.errors(last),
            average=self.track.errors(average),
            initial=float(self.track.errors(start)[0]),
            end_last=float(end[0]),
            end_average=float(end[1]),
            last_weighted=self.track.weighted_errors(last),
            average_weighted=self.track.weighted_errors(average),
            initial_weighted=None if initial_weighted is None else float(initial_weighted[0]),
        )


def as_track(track: Track | Any | None, dim: int) -> Track | None:
    """A `Track`, or one made from the solution alone; its size is checked."""
    if track is None:
        return None
    found = track if isinstance(track, Track) else Track(track)
    if len(found.solution) != dim:
        raise InputError(f"track has {len(found.solution)} numbers, but x has {dim}")
    return found


def curve_at_the_end(track: Track, length: int, x: Vector) -> Curve:
    """The error of a point that was found in one go over `length` samples."""
    recorder = Recorder(track, length, np.zeros_like(x))
    recorder.end(length, x, x)
    return recorder.curve(x, x)
