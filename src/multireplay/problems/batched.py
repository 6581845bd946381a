"""The problems over batches: F̃ on many rows at once, on arrays of any library."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, cast

import array_api_compat as compat
import numpy as np

from multireplay._check import Vector
from multireplay.buffer.buffer import Buffer
from multireplay.buffer.columns import Columns, row_count
from multireplay.buffer.foreign import (
    Array,
    ForeignColumn,
    Namespace,
    array_of,
    as_numpy,
    blocks,
    describe,
    like,
    namespace,
    near,
    row_bytes,
    row_dots,
    rows_at_once,
    rows_of,
)
from multireplay.errors import InputError, OperatorError
from multireplay.problems.base import Problem
from multireplay.problems.glm import GLM, RegressionSamples
from multireplay.problems.links import on_arrays
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
    def sums(self, residuals: Array, batch: Any) -> Array:
        """The sum of F̃ over the lanes, but for the penalty."""

    def pull(self, X: Array) -> Array | None:
        """The part of F̃ that is the same on every sample: λX of a ridge, None without one."""
        return None

    block_bytes = None
    is_slow = False

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
            name: as_numpy(given[name])
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
        there = {
            name: ForeignColumn(near(column, self.home)) if isinstance(column, np.ndarray) else column
            for name, column in columns.items()
        }
        samples = self.samples(cast(Columns, there))
        total = np.zeros(points.shape)
        with np.errstate(all="ignore"):
            for rows in blocks(samples[0].shape[0], rows_at_once(row_bytes(samples[0]), samples[0])):
                batch = part_of(samples, rows)
                for i, x in enumerate(points):
                    X = self.xp.broadcast_to(like(x, samples[0]), (rows.stop - rows.start, len(x)))
                    total[i] += as_numpy(self.sums(self.residuals(X, batch), batch))
        return total

    def mean_operator(self, x: Vector, columns: Columns) -> Vector:
        mean = self.operator_sums(x[None, :], columns)[0] / row_count(columns)
        return np.asarray(mean + self.penalty_diagonal(len(x)) * x)


class OfFeatures(OverBatches, ResidualProblem):
    """F̃ = r · features + λx, with one number r a lane: what is beside the plain `ResidualProblem` that it is."""

    def pull(self, X: Array) -> Array | None:
        return X * like(self.penalty.diagonal(X.shape[1]), X) if self.penalty.ridge else None

    def spread(self, residuals: Array, batch: Any) -> Array:
        return residuals[:, None] * batch.features

    def sums(self, residuals: Array, batch: Any) -> Array:
        return residuals @ batch.features

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
        if isinstance(columns["features"], np.ndarray):  # some rows of the record, brought to NumPy
            return super().samples(columns)
        features, *others = (array_of(columns[name]) for name in ("features", "targets", "weights") if name in columns)
        targets, *weights = (self.xp.astype(column, features.dtype, copy=False) for column in others)
        return RegressionSamples(features, targets, None, weights[0] if weights else None)

    def residuals(self, X: Array, batch: RegressionSamples) -> Array:
        errors = on_arrays(self.link, self.xp, row_dots(self.xp, X, batch.features)) - batch.targets
        return errors if batch.weights is None else batch.weights * errors


class BatchedPolicyEvaluation(OfFeatures, PolicyEvaluation):
    """`PolicyEvaluation` over batches."""

    def samples(self, columns: Columns) -> Any:
        if isinstance(columns["features"], np.ndarray):  # some rows of the record, brought to NumPy
            return super().samples(columns)
        arrays = {name: array_of(column) for name, column in columns.items()}
        features, dtype = arrays["features"], arrays["features"].dtype
        rewards = self.xp.astype(arrays["rewards"], dtype, copy=False)
        going = self.xp.ones_like(rewards)
        if "terminated" in arrays:
            going = going - self.xp.astype(arrays["terminated"], dtype)
        weights = self.xp.astype(arrays["weights"], dtype, copy=False) if "weights" in arrays else None
        return TransitionSamples(features, arrays["next_features"], rewards, self.gamma * going, weights)

    def residuals(self, X: Array, batch: TransitionSamples) -> Array:
        then = batch.discounts * row_dots(self.xp, X, batch.next_features)
        errors = row_dots(self.xp, X, batch.features) - then - batch.rewards
        return errors if batch.weights is None else batch.weights * errors


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

    def sums(self, residuals: Array, batch: UserSamples) -> Array:
        return self.xp.sum(residuals, axis=0)

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
    batched = object.__new__(_KINDS[type(plain)])
    vars(batched).update(vars(plain), xp=namespace(array), home=rows_of(array, slice(0, 1)), plain=plain)
    return batched
