"""The problems over batches: F̃ on many rows at once, on arrays of any library."""

from __future__ import annotations

from abc import abstractmethod
from itertools import pairwise
from typing import Any

import array_api_compat as compat
import numpy as np

from multireplay._check import Positions, Vector
from multireplay.buffer.buffer import Buffer
from multireplay.buffer.columns import Columns, row_count
from multireplay.buffer.foreign import (
    Array,
    ForeignColumn,
    Namespace,
    array_of,
    as_numpy,
    block_bytes,
    blocks,
    describe,
    like,
    namespace,
    numpy_type,
    row_bytes,
    row_dots,
    rows_at_once,
    rows_between,
    rows_of,
    stretch_sums,
)
from multireplay.errors import InputError, OperatorError
from multireplay.problems.base import Problem
from multireplay.problems.glm import GLM, RegressionSamples
from multireplay.problems.links import OVER, on_arrays
from multireplay.problems.policy_evaluation import PolicyEvaluation, TransitionSamples
from multireplay.problems.residual import ResidualProblem
from multireplay.problems.variational_inequality import UserSamples, VariationalInequality

CHANGED = "the operator changed {} in place; it must return a new array instead"


class OverBatches(Problem):
    """A problem whose operator takes a row of X and a row of the record for every lane.

    It is F̃ = spread(residuals), in two parts because the residuals of a regression are one number a lane: they are
    what a step is multiplied with, and what is watched for divergence. The columns stay where they lie.
    """

    xp: Namespace
    home: Array
    """Some row of the record, which tells where the columns lie."""
    plain: Problem
    """The problem it was made of, on NumPy arrays, for what is not worked out in batches."""

    @abstractmethod
    def residuals(self, X: Array, batch: Any) -> Array:
        """What F̃ is made of: an array of shape (lanes,) or (lanes, dim)."""

    @abstractmethod
    def spread(self, residuals: Array, batch: Any) -> Array:
        """F̃, or a multiple of it, from residuals or a multiple of them: an array of shape (lanes, dim)."""

    @abstractmethod
    def stretch_sums(self, points: Vector, columns: Columns, bounds: Positions) -> Vector: ...

    def pull(self, X: Array) -> Array | None:
        """The part of F̃ that is the same on every sample: λX of a ridge, None without one."""
        return None

    on_host = False
    is_slow = False

    @property
    def block_bytes(self) -> int:  # type: ignore[override]
        return block_bytes(self.home)

    def evaluable(self, x: Vector) -> Vector:
        return x.astype(numpy_type(self.home)).astype(np.float64)

    def column(self, buffer: Buffer, name: str) -> Any:
        return ForeignColumn(buffer[name])

    def check(self, columns: Columns) -> None:
        given = {name: array_of(column) for name, column in columns.items()}
        first, array = next(iter(given.items()))
        for name, other in given.items():
            if describe(other) != describe(array):
                raise InputError(
                    f"column {first!r} is an array of {describe(array)} and {name!r} of {describe(other)}; "
                    "all columns of a problem need one library and one device"
                )
        narrow = {
            name: (self.xp.astype(given[name], self.xp.float32) if column.dtype == np.bool_ else given[name])
            if column.ndim == 1
            else np.broadcast_to(np.zeros((), column.dtype), column.shape)
            for name, column in columns.items()
        }
        super().check(narrow)  # what it has to say on columns of rows is about their shapes and types

    def fit_exactly(self, buffer: Buffer, ridge: float = 0.0) -> Vector:
        return self.plain.fit_exactly(buffer, ridge)

    def operator(self, x: Vector, samples: Any, row: int) -> Vector:
        batch = part_of(samples, slice(row, row + 1))
        X = like(x[None, :], batch[0])
        value, pull = self.spread(self.residuals(X, batch), batch), self.pull(X)
        return np.asarray(as_numpy(value if pull is None else value + pull)[0], dtype=np.float64)

    def operator_sums(self, points: Vector, columns: Columns) -> Vector:
        return self.stretch_sums(points, columns, np.array([0, row_count(columns)]))[0]

    def mean_operator(self, x: Vector, columns: Columns) -> Vector:
        mean = self.operator_sums(x[None, :], columns)[0] / row_count(columns)
        return np.asarray(mean + self.penalty_diagonal(len(x)) * x)


class OfFeatures(OverBatches, ResidualProblem):
    """F̃ = r · features + λx, with one number r a lane: what is beside the plain `ResidualProblem` that it is.

    What is summed over rows is worked out where they lie, in their own precision, and all but matrices comes back as
    float64: `residuals` takes one point for all rows too.
    """

    @abstractmethod
    def factors(self, x: Array, batch: Any) -> tuple[Array, Array]:
        """Two arrays of rows, L and R, with LᵀR the sum of ∂F̃/∂x at x."""

    def stretch_sums(self, points: Vector, columns: Columns, bounds: Positions) -> Vector:
        batch = self.samples(columns)
        with np.errstate(all="ignore"):
            found = [stretch_sums(self.residuals(like(x, batch[0]), batch), batch[0], bounds) for x in points]
        return np.asarray(as_numpy(self.xp.stack(found, axis=1)), dtype=np.float64)

    def jacobian_sum(self, x: Vector, columns: Columns) -> Any:
        batch = self.samples(columns)
        left, right = self.factors(like(x, batch[0]), batch)
        return left.T @ right

    def second_moments(self, columns: Columns) -> Any:
        rows = array_of(columns["features"])
        return rows.T @ rows

    def moments(self, columns: Columns) -> tuple[Any, Vector] | None:
        if not self.is_linear:
            return None
        zero = np.zeros(self.dim(columns))
        return self.jacobian_sum(zero, columns), -self.operator_sums(zero[None, :], columns)[0]

    def in_basis(self, columns: Columns, basis: Vector | None) -> tuple[Problem, Columns]:
        if basis is None:
            return self, columns
        moved = {name: column.times(basis) if column.ndim == 2 else column for name, column in columns.items()}  # type: ignore[attr-defined]
        return self, moved

    def jacobian(self, x: Vector, columns: Columns) -> Vector | None:
        return self.plain.jacobian(x, _brought(columns))

    def curvature(self, x: Vector, columns: Columns) -> Vector | None:  # type: ignore[override]
        return self.plain.curvature(x, _brought(columns))

    def pull(self, X: Array) -> Array | None:
        return X * like(self.penalty.diagonal(X.shape[1]), X) if self.penalty.ridge else None

    def spread(self, residuals: Array, batch: Any) -> Array:
        return residuals[:, None] * batch.features

    def largest_square(self, samples: Any) -> float:
        xp, features, weights = self.xp, samples.features, getattr(samples, "weights", None)
        largest = []
        for rows in blocks(features.shape[0], rows_at_once(row_bytes(features), features)):
            block = xp.astype(rows_of(features, rows), xp.float64, copy=False)
            squares = row_dots(xp, block, block)
            largest.append(xp.max(squares if weights is None else weights[rows] * squares))
        return float(xp.max(xp.stack(largest)))


class BatchedGLM(OfFeatures, GLM):
    """`GLM` over batches."""

    def samples(self, columns: Columns) -> Any:
        features, *others = (array_of(columns[name]) for name in ("features", "targets", "weights") if name in columns)
        targets, *weights = (self.xp.astype(column, features.dtype, copy=False) for column in others)
        return RegressionSamples(features, targets, None, weights[0] if weights else None)

    def residuals(self, X: Array, batch: RegressionSamples) -> Array:
        return _weighted(on_arrays(self.link, self.xp, row_dots(self.xp, X, batch.features)) - batch.targets, batch)

    def factors(self, x: Array, batch: RegressionSamples) -> tuple[Array, Array]:
        if self.is_linear and batch.weights is None:
            return batch.features, batch.features
        slopes = OVER[self.link.name].derivative(self.xp, batch.features @ x)
        half = batch.features * self.xp.sqrt(_weighted(slopes, batch))[:, None]
        return half, half

    def descent(self, x: Vector, columns: Columns) -> tuple[float, Vector] | None:
        xp, batch, integral = self.xp, self.samples(columns), OVER[self.link.name].integral
        if integral is None:
            return None
        scores = batch.features @ like(x, batch.features)
        losses = _weighted(integral(xp, scores) - batch.targets * scores, batch)
        errors = _weighted(on_arrays(self.link, xp, scores) - batch.targets, batch)
        loss, total = xp.sum(losses, dtype=xp.float64), xp.astype(errors @ batch.features, xp.float64)
        found = as_numpy(xp.concat([xp.reshape(loss, (1,)), total]))  # brought home at once
        return float(found[0]), found[1:]


class BatchedPolicyEvaluation(OfFeatures, PolicyEvaluation):
    """`PolicyEvaluation` over batches."""

    def samples(self, columns: Columns) -> Any:
        arrays = {name: array_of(column) for name, column in columns.items()}
        features, dtype = arrays["features"], arrays["features"].dtype
        rewards = self.xp.astype(arrays["rewards"], dtype, copy=False)
        discounts = self.xp.broadcast_to(like(np.array(self.gamma), features), rewards.shape)
        if "terminated" in arrays:
            discounts = discounts * (1 - self.xp.astype(arrays["terminated"], dtype))
        weights = self.xp.astype(arrays["weights"], dtype, copy=False) if "weights" in arrays else None
        return TransitionSamples(features, arrays["next_features"], rewards, discounts, weights)

    def residuals(self, X: Array, batch: TransitionSamples) -> Array:
        now = row_dots(self.xp, X, batch.features)
        return _weighted(now - batch.discounts * self._following(X, now, batch) - batch.rewards, batch)

    def _following(self, X: Array, now: Array, batch: TransitionSamples) -> Array:
        """⟨ψ(s_{t+1}), x⟩, most of which is known where both columns are views of one trajectory."""
        moved = rows_between(batch.features, batch.next_features) if X.ndim == 1 else None
        if moved is None:
            return row_dots(self.xp, X, batch.next_features)
        last = rows_of(batch.next_features, slice(now.shape[0] - moved, now.shape[0]))
        return self.xp.concat([now[moved:], last @ X])

    def factors(self, x: Array, batch: TransitionSamples) -> tuple[Array, Array]:
        left = batch.features if batch.weights is None else batch.weights[:, None] * batch.features
        return left, batch.features - batch.discounts[:, None] * batch.next_features


class BatchedInequality(OverBatches, VariationalInequality):
    """`VariationalInequality` with an operator over batches."""

    def samples(self, columns: Columns) -> UserSamples:
        return UserSamples(_read_only(array_of(columns["samples"])), None)

    def residuals(self, X: Array, batch: UserSamples) -> Array:
        version = getattr(X, "_version", None)  # PyTorch counts the changes to an array
        try:
            value = self.batch_operator(_read_only(X), batch.rows)
        except ValueError as error:
            if "read-only" in str(error):  # as NumPy says it
                raise OperatorError(CHANGED.format("X or batch")) from error
            raise
        if getattr(X, "_version", None) != version:
            raise OperatorError(CHANGED.format("X"))
        if getattr(value, "shape", None) == X.shape and value.dtype == X.dtype and not _is_differentiated(value):
            return value
        return self._checked(value, X)

    def _checked(self, value: Any, X: Array) -> Array:
        """The value in the type of X, or an error that says what is wrong with it."""
        if value is None:
            raise OperatorError("the operator returned nothing: does it lack a return?")
        if not compat.is_array_api_obj(value) or describe(value) != describe(X):
            what = describe(value) if compat.is_array_api_obj(value) else f"type {type(value).__name__}"
            raise OperatorError(f"the operator returned a value of {what}, where X and batch are {describe(X)}")
        if value.shape != X.shape:
            raise OperatorError(
                f"the operator returned an array of shape {tuple(value.shape)} instead of (lanes, dim) = "
                f"{tuple(X.shape)}: one row for every row of X and of batch"
            )
        if not self.xp.isdtype(value.dtype, ("real floating", "integral", "bool")):
            raise OperatorError(f"the operator returned values of type {value.dtype}; it needs real numbers")
        return self.xp.astype(value.detach() if _is_differentiated(value) else value, X.dtype)

    def spread(self, residuals: Array, batch: UserSamples) -> Array:
        return residuals

    def stretch_sums(self, points: Vector, columns: Columns, bounds: Positions) -> Vector:
        xp, rows = self.xp, array_of(columns["samples"])
        total = np.zeros((len(bounds) - 1, *points.shape))
        with np.errstate(all="ignore"):
            for stretch, (first, last) in enumerate(pairwise(bounds.tolist())):
                for part in blocks(last - first, rows_at_once(row_bytes(rows), rows)):
                    batch = UserSamples(rows_of(rows, slice(first + part.start, first + part.stop)), None)
                    every = [xp.broadcast_to(like(x, rows), (part.stop - part.start, len(x))) for x in points]
                    sums = [xp.sum(self.residuals(X, batch), axis=0, dtype=xp.float64) for X in every]
                    total[stretch] += as_numpy(xp.stack(sums))
        return total

    def probe(self, x0: Vector, samples: UserSamples) -> None:
        """Try the operator on the first rows, so that what is wrong with it, in any library, is said at once."""
        xp = self.xp
        lanes = next(n for n in (3, 4, 5) if n not in (len(x0), samples.rows.shape[1]))  # to notice mixed-up axes
        rows = rows_of(samples.rows, slice(0, lanes))
        X = xp.broadcast_to(like(x0, rows), (rows.shape[0], len(x0)))
        given = xp.asarray(X, copy=True), xp.asarray(rows, copy=True)
        try:
            with np.errstate(all="ignore"):
                self._checked(self.batch_operator(*given), given[0])
        except OperatorError:
            raise
        except Exception as error:
            raise OperatorError(
                f"the operator failed on X of shape {tuple(X.shape)} and a batch of shape {tuple(rows.shape)}, arrays "
                f"of {describe(X)}: {type(error).__name__}: {error}"
            ) from error
        for name, before, after in (("X", X, given[0]), ("batch", rows, given[1])):
            if not bool(xp.all(before == after)):
                raise OperatorError(CHANGED.format(name))


def _read_only(array: Array) -> Array:
    """A view of a NumPy array that cannot be written into; an array of another library as it is."""
    if isinstance(array, np.ndarray):
        array = array.view()
        array.flags.writeable = False
    return array


def _is_differentiated(value: Any) -> bool:
    """Whether PyTorch would remember how the value was made, and with it every step of the run."""
    return bool(getattr(value, "requires_grad", False))


def _weighted(values: Array, batch: Any) -> Array:
    """The values times the weights of their rows, where there are any."""
    return values if batch.weights is None else batch.weights * values


def _brought(columns: Columns) -> Columns:
    """The columns in NumPy."""
    return {name: np.asarray(column) for name, column in columns.items()}


def part_of(samples: Any, rows: slice) -> Any:
    """Consecutive rows of packed samples."""
    return type(samples)(*(rows_of(field, rows) if hasattr(field, "shape") else field for field in samples))


_KINDS: dict[type[Problem], type[OverBatches]] = {
    GLM: BatchedGLM,
    PolicyEvaluation: BatchedPolicyEvaluation,
    VariationalInequality: BatchedInequality,
}


def can_be_batched(problem: Problem) -> bool:
    """Whether the problem can be evaluated on many rows at once."""
    if type(problem) is VariationalInequality:
        return problem.batch_operator is not None
    return isinstance(problem, OverBatches) or (type(problem) in _KINDS and getattr(problem, "table", None) is None)


def as_batched(problem: Problem, array: Array) -> OverBatches:
    """A problem made to run over batches of arrays such as this one; `can_be_batched` says whether it can be."""
    plain = problem.plain if isinstance(problem, OverBatches) else problem
    batched: OverBatches = object.__new__(_KINDS[type(plain)])
    vars(batched).update(vars(plain), xp=namespace(array), home=rows_of(array, slice(0, 1)), plain=plain)
    return batched
