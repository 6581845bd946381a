"""The problems over batches: which there are, and that of an operator of one's own."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import array_api_compat as compat
import numpy as np

from multireplay._check import Positions, Vector
from multireplay.buffer.columns import Columns
from multireplay.buffer.foreign import (
    Array,
    array_of,
    as_numpy,
    blocks,
    describe,
    like,
    namespace,
    row_bytes,
    rows_at_once,
    rows_of,
)
from multireplay.errors import OperatorError
from multireplay.problems.base import Problem
from multireplay.problems.batched_features import BatchedGLM, BatchedPolicyEvaluation
from multireplay.problems.glm import GLM
from multireplay.problems.over_batches import OverBatches
from multireplay.problems.policy_evaluation import PolicyEvaluation
from multireplay.problems.variational_inequality import UserSamples, VariationalInequality

CHANGED = "the operator changed {} in place; it must return a new array instead"


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
        xp, rows = self.xp, self.samples(columns).rows
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
