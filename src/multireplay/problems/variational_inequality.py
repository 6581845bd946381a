"""Any strongly monotone stochastic variational inequality, with the user's own operator."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numba.core.dispatcher import Dispatcher
from numba.extending import overload
from numpy.typing import NDArray
from scipy.sparse import issparse

from multireplay._check import Vector, whole_number
from multireplay._jit import users_kernel
from multireplay.buffer.columns import Columns, row_count
from multireplay.errors import InputError, OperatorError
from multireplay.problems.base import Problem, as_constraint
from multireplay.sets import Set, WholeSpace
from multireplay.vectors.coordinates import INLINE

DIFFERENCE = 1e-6
"""How far apart, relative to x, the points are from whose operators a Jacobian is made."""
WIDEST = 64
"""Up to so many coordinates a Jacobian by differences is worth its price."""
PROBED, PROBE_STEP = 8, 1e-3
"""Samples on which a jitted operator is tried before a run, and the steps taken on the way."""


class UserSamples(NamedTuple):
    """What the loops read: the rows, and the operator in its in-place form ``operator(x, sample, out)``."""

    rows: NDArray[Any]
    operator: Any


class VariationalInequality(Problem):
    """The user's own F̃(x, ξ) on the rows ξ_t of the column ``samples`` of shape (B, p).

    Parameters
    ----------
    operator : callable
        ``operator(x, sample, out)``, which writes F̃ into `out`, or ``operator(x, sample) -> array``. A Numba-jitted
        one runs in the compiled loop, a plain one in the Python loop. It may return the same array every time. It must
        not change the sample, nor x if it is jitted, which is an error; a plain one is given a copy of x.
        With ``batched=True`` it is ``operator(X, batch) -> array`` instead, and must change neither.
    dim : int
        Dimension of x.
    constraint : Set, optional
        Feasible set of x, the whole space by default.
    lipschitz : float, optional
        A bound on L̃_1 (Assumption lipscitz1); needed only for ``step="auto"``.
    batched : bool
        Whether the operator is written over a batch: it then takes X of shape (lanes, dim) and as many rows of the
        record, of shape (lanes, p), and returns F̃ of each row at its own x, of shape (lanes, dim). Replay with many
        chains side by side, ``mr.Multiscale(phases="all")``, then runs at the speed of arrays without Numba, on the
        library and device of the column ``samples``: NumPy, PyTorch, CuPy. A scheme with a single chain has one lane,
        and runs at the speed of Python.

    Examples
    --------
    The point of a simplex closest to the mean of the samples:

    >>> import numpy as np
    >>> import multireplay as mr
    >>> problem = mr.VariationalInequality(lambda x, sample: x - sample, dim=2, constraint=mr.sets.Simplex())
    >>> samples = np.array([[0.9, 0.0], [0.5, 0.2]] * 2000)
    >>> mr.solve(problem, mr.Buffer(samples=samples), step=0.01).x.round(2)
    array([0.8, 0.2])

    Written over a batch. With ``torch.as_tensor(samples, device="cuda")`` it runs on a GPU:

    >>> problem = mr.VariationalInequality(lambda X, batch: X - batch, 2, mr.sets.Simplex(), batched=True)
    >>> result = mr.solve(problem, mr.Buffer(samples=samples), replay=mr.Multiscale(phases="all"), step=0.01)
    >>> result.x.round(2)
    array([0.8, 0.2])
    """

    required: Mapping[str, int] = MappingProxyType({"samples": 2})

    def __init__(
        self,
        operator: Callable[..., Any],
        dim: int,
        constraint: Set | None = None,
        lipschitz: float | None = None,
        batched: bool = False,
    ) -> None:
        self.batch_operator: Any = operator if batched else None
        self._operator: Any = operator
        self._dim = whole_number("dim", dim, least=1)
        self._lipschitz = lipschitz
        self.constraint = as_constraint(constraint)
        self.in_place = _argument_count(operator) == 3
        if batched and self.in_place:
            raise InputError("an operator over a batch must take (X, batch) and return an array, without out")

    @property
    def compiled(self) -> bool:
        return isinstance(self._operator, Dispatcher) and self.batch_operator is None

    @property
    def users_code(self) -> bool:
        return True

    def check(self, columns: Columns) -> None:
        if issparse(columns["samples"]):
            raise InputError("column 'samples' is sparse; an operator of your own takes dense rows: samples.toarray()")

    def dim(self, columns: Columns) -> int:
        return self._dim

    def samples(self, columns: Columns) -> UserSamples:
        if not self.compiled:
            return UserSamples(columns["samples"], None)
        return UserSamples(columns["samples"], self._operator if self.in_place else _writing(self._operator))

    def operator(self, x: Vector, samples: UserSamples, row: int) -> Vector:
        sample = samples.rows[row]
        if self.compiled:
            return self._call(self._operator, x, sample)
        sample.flags.writeable = False  # the row is a view of the user's own array
        try:
            return self._call(self._operator, x, sample)
        except ValueError as error:
            if "read-only" not in str(error):  # as NumPy says it
                raise
            raise OperatorError("the operator changed the sample in place, which is read-only") from error

    def _call(self, operator: Callable[..., Any], x: Vector, sample: NDArray[Any]) -> Vector:
        if self.in_place:
            out = np.full(self._dim, np.nan)
            operator(x, sample, out)
            return out
        over_batch = self.batch_operator is not None
        returned = operator(x[None, :], sample[None, :]) if over_batch else operator(x, sample)
        if returned is None:
            raise OperatorError("the operator returned nothing: does it lack a return, or an out argument?")
        value = np.array(returned, dtype=np.float64)  # its own array may be one that it writes into at every call
        if value.shape != ((1, self._dim) if over_batch else (self._dim,)):
            wanted = f"(lanes, dim) = {(1, self._dim)}" if over_batch else f"({self._dim},)"
            raise OperatorError(f"the operator returned an array of shape {value.shape} instead of {wanted}")
        return value[0] if over_batch else value

    def probe(self, x0: Vector, samples: UserSamples) -> None:
        """Run a jitted operator in plain Python, because compiled it reads beyond an array or changes x unnoticed.

        It takes a few small steps, so that x is not 0 throughout: to halve that changes nothing.
        """
        if not self.compiled:
            return
        x, sizes = x0.copy(), f"x and out have {self._dim} entries, a sample has {samples.rows.shape[1]}"
        try:
            with np.errstate(all="ignore"):
                for row in np.linspace(0, len(samples.rows) - 1, PROBED).astype(int):
                    x -= PROBE_STEP * self._unchanged(x, samples.rows[row])
                    self.constraint.project(x)
        except OperatorError:
            raise
        except IndexError as error:
            raise OperatorError(f"the operator reads or writes beyond its arrays: {error}. {sizes}") from error
        except ValueError as error:
            if "broadcast" in str(error):
                raise OperatorError(f"the operator mixes arrays of different shapes: {error}. {sizes}") from error
        except Exception:  # the run itself shows whether this matters, and where
            return

    def _unchanged(self, x: Vector, sample: NDArray[Any]) -> Vector:
        """F̃ of a jitted operator, run in plain Python; an error if it changes what it is given."""
        given = x.copy(), sample.copy()
        value = self._call(self._operator.py_func, *given)
        for name, before, after in zip(("x", "the sample"), (x, sample), given, strict=True):
            if not np.array_equal(before, after, equal_nan=True):
                raise OperatorError(f"the operator changed {name} in place; it must write into out, or a new array")
        return value

    def mean_operator(self, x: Vector, columns: Columns) -> Vector:
        samples = self.samples(columns)
        total = np.zeros(self._dim)
        if self.compiled:
            _add_up(samples.operator, x, samples.rows, np.zeros(self._dim), total)
        else:
            for row in range(len(samples.rows)):
                total += self.operator(x.copy(), samples, row)
        return total / len(samples.rows)

    def jacobian_sum(self, x: Vector, columns: Columns) -> Vector:
        """By differences: the operator is evaluated at two points for every coordinate."""
        steps = DIFFERENCE * np.maximum(1.0, np.abs(x))
        points = np.concatenate([x + np.diag(steps), x - np.diag(steps)])
        ahead, behind = np.split(self.operator_sums(points, columns), 2)
        return np.asarray((ahead - behind).T / (2 * steps))

    def jacobian(self, x: Vector, columns: Columns) -> Vector | None:
        return self.jacobian_sum(x, columns) / row_count(columns) if self.has_jacobian else None

    @property
    def has_jacobian(self) -> bool:
        return self._dim <= WIDEST

    def lipschitz(self, samples: UserSamples) -> float | None:
        return self._lipschitz

    def __reduce__(self) -> tuple[Any, ...]:
        batched = self.batch_operator is not None
        return (VariationalInequality, (self._operator, self._dim, self.constraint, self._lipschitz, batched))

    def __repr__(self) -> str:
        name = getattr(self._operator, "__name__", type(self._operator).__name__)
        where = "" if isinstance(self.constraint, WholeSpace) else f", constraint={self.constraint!r}"
        return f"VariationalInequality({name}, dim={self._dim}{where})"


@lru_cache(maxsize=64)
def _writing(operator: Dispatcher) -> Dispatcher:
    """A jitted operator that returns its value, as one that writes it; the same again for each problem made of it.

    A loop is compiled for every such function, so that a new one would mean to compile everything anew.
    """

    def in_place(x: Any, sample: Any, out: Any) -> None:
        value = operator(x, sample)
        if value.shape != out.shape:
            raise ValueError("the operator returned an array of the wrong shape")
        for j in range(len(out)):  # out[:] = value takes three times as long to compile
            out[j] = value[j]

    writing: Dispatcher = users_kernel(in_place, error_model="python")
    return writing


def mark(x: Any) -> int:
    """A number that is another one if any bit of x changes, or coordinates change places."""
    raise NotImplementedError


@overload(mark, jit_options=INLINE)
def _mark(x):  # type: ignore[no-untyped-def]
    def found(x):  # type: ignore[no-untyped-def]
        total = np.uint64(0)
        for j in range(x.shape[0]):
            total += np.float64(x[j]).view(np.uint64) * np.uint64(2 * j + 1)
        return total

    return found


def evaluate(operator: Any, x: Any, sample: Any, out: Any) -> None:
    """Call a jitted operator, and raise where it changes x: `probe` sees its first few calls alone."""
    raise NotImplementedError


@overload(evaluate, jit_options=INLINE)
def _evaluate(operator, x, sample, out):  # type: ignore[no-untyped-def]
    def watched(operator, x, sample, out):  # type: ignore[no-untyped-def]
        before = mark(x)
        operator(x, sample, out)
        if mark(x) != before:
            raise OperatorError("the operator changed x in place; it must write into out, or a new array")

    return watched


@users_kernel(error_model="python")
def _add_up(operator, x, rows, out, total):  # type: ignore[no-untyped-def]
    for i in range(rows.shape[0]):
        evaluate(operator, x, rows[i], out)
        total += out


def _argument_count(operator: Any) -> int:
    function = operator.py_func if isinstance(operator, Dispatcher) else operator
    if not callable(function):
        raise InputError(f"operator must be a function of (x, sample) or (x, sample, out), not {operator!r}")
    needed = [
        p for p in inspect.signature(function).parameters.values()
        if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]  # fmt: skip
    if len(needed) not in (2, 3):
        raise InputError(f"operator must take (x, sample) or (x, sample, out); this one takes {len(needed)} arguments")
    return len(needed)
