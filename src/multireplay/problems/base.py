"""What a problem is: an operator F̃(x, ξ) on the rows of a buffer, a feasible set, and what is known of them."""

from __future__ import annotations

import difflib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from multireplay._check import Positions, Vector
from multireplay.buffer.buffer import Buffer
from multireplay.buffer.columns import Columns, row_count, with_own_places
from multireplay.buffer.foreign import as_numpy, first_true, is_foreign
from multireplay.errors import InputError
from multireplay.sets import Set, WholeSpace

if TYPE_CHECKING:
    from multireplay.buffer.disk import StoredBuffer

UNBOUNDED = 1e100
"""The size of an operator value beyond which any run counts as diverged: squares of it are still finite."""
GROWTH = 1e8
"""How far beyond the size of its data a residual may grow before the run counts as diverged."""
_OTHER_NAMES = {"terminated": {"done", "dones", "terminal", "terminals", "termination", "terminations"}}
"""What people call an optional column elsewhere."""


class Problem(ABC):
    """A stochastic variational inequality: find x* in X with ⟨F(x*), x − x*⟩ ≥ 0 for all x in X (Eq. GMVI).

    F(x) is the mean of F̃(x, ξ) over the samples. A problem knows nothing of replay: it names the columns it reads,
    packs them for the loops (`samples`), and evaluates F̃ on one of them (`operator`).
    """

    required: Mapping[str, int]
    """Names of the columns it reads, each with its number of dimensions: 2 for a row a sample, 1 for a number."""
    optional: Mapping[str, int] = MappingProxyType({})
    elsewhere: Mapping[str, str] = MappingProxyType({})  # columns that others read, and what to give instead
    constraint: Set = WholeSpace()
    block_bytes: int = 3 * 2**20
    """Bytes of rows that sums are worked out on at a time, on one thread."""
    on_host: bool = True
    """Whether the columns are read here, in blocks and on threads; otherwise where another library has put them."""

    by_feature: bool = True
    """Whether x has one coordinate for each feature of the column ``features``, where there is one."""

    def check(self, columns: Columns) -> None:
        """Raise `InputError` if the values or widths of the columns do not suit this problem."""
        return

    def check_whole(self, parts: Iterable[Columns]) -> None:
        """Raise `InputError` if the record as a whole has no solution.

        `parts` are its columns, part after part, and read only as far as they are looked at: `check` sees a block of a
        record on disk at a time, and cannot know.
        """
        return

    @abstractmethod
    def dim(self, columns: Columns) -> int:
        """The dimension of x."""

    @abstractmethod
    def samples(self, columns: Columns) -> Any:
        """The columns packed as the named tuple that both loops read."""

    @abstractmethod
    def operator(self, x: Vector, samples: Any, row: int) -> Vector:
        """F̃(x, ξ) on one row, in plain NumPy."""

    @abstractmethod
    def mean_operator(self, x: Vector, columns: Columns) -> Vector:
        """F̂(x): the mean of F̃(x, ξ_t) over the buffer."""

    def operator_sums(self, points: Vector, columns: Columns) -> Vector:
        """Σ_t F̃(x, ξ_t) over these rows at each row of `points`, without the penalty.

        The built-in problems read the columns once for all of them.
        """
        return row_count(columns) * np.array([self.mean_operator(x, columns) for x in points])

    def stretch_sums(self, points: Vector, columns: Columns, bounds: Positions) -> Vector:
        """`operator_sums` from bounds[i] to before bounds[i + 1], for each i, at once; asked for on a device only."""
        raise NotImplementedError

    def operator_along(self, x: Vector, directions: Vector, columns: Columns) -> Vector:
        """⟨F̃(x, ξ_t), v⟩ of every row for each column v; what is the same on every row may be left out."""
        samples = self.samples(columns)
        return np.array([self.operator(x.copy(), samples, row) @ directions for row in range(row_count(columns))])

    def evaluable(self, x: Vector) -> Vector:
        """The point closest to x at which the operator can be evaluated: x rounded as the columns are."""
        return x

    @property
    def compiled(self) -> bool:
        """Whether the compiled loop can run this problem."""
        return True

    @property
    def users_code(self) -> bool:
        """Whether the operator calls a function of the user's."""
        return False

    @property
    def is_slow(self) -> bool:
        """Whether every sample is a call of a plain Python function."""
        return self.users_code and not self.compiled

    def lipschitz(self, samples: Any) -> float | None:
        """An upper bound on L̃_1 over these samples (Assumption lipscitz1), from which ``step="auto"`` is made."""
        return None

    def limit(self, samples: Any, x0: Vector) -> float:
        """The size of the residual r, with F̃ = r · features, beyond which a run from x0 counts as diverged."""
        return UNBOUNDED

    def extreme_rows(self, samples: Any, x0: Vector) -> NDArray[np.intp]:
        """Rows among which are those that `lipschitz` and `limit` depend on, so that a record can be read in parts."""
        return np.zeros(1, dtype=np.intp)

    def probe(self, x0: Vector, samples: Any) -> None:
        """Try the user's code once before a run, and raise `OperatorError` if it cannot be used."""
        return

    def curvature(self, x: Vector, columns: Columns) -> Vector | None:
        """A symmetric matrix that the symmetric part of F̂'s Jacobian at x is at least, where one is known."""
        return None

    def jacobian(self, x: Vector, columns: Columns) -> Vector | None:
        """The derivative of F̂ at x, where one is known: what `Newton` divides by. Any penalty is in it."""
        return None

    @property
    def has_jacobian(self) -> bool:
        """Whether `jacobian` and `jacobian_sum` are known."""
        return False

    @property
    def is_gradient(self) -> bool:
        """Whether the operator is known to be the gradient of a loss, so that `descent` gives it and J is symmetric."""
        return False

    @property
    def is_linear(self) -> bool:
        """Whether the operator is known to be linear in x, so that there are `moments`."""
        return False

    def jacobian_sum(self, x: Vector, columns: Columns) -> Any:
        """Σ_t ∂F̃(x, ξ_t)/∂x over the rows, without the penalty, where `jacobian` is known."""
        raise NotImplementedError

    quick_products = False  # whether `rough_jacobian_sum` is many times faster

    def rough_jacobian_sum(self, x: Vector, columns: Columns) -> Any:
        """`jacobian_sum`, or to some digits where that is faster."""
        return self.jacobian_sum(x, columns)

    def jacobian_diagonal(self, x: Vector, columns: Columns) -> Vector:
        """The diagonal of `jacobian_sum`."""
        return np.asarray(np.diag(self.jacobian_sum(x, columns)))

    def slopes(self, x: Vector, columns: Columns) -> Vector | None:
        """The derivative of every row's residual by its score at x, with its weight; None where it never changes."""
        return None

    def second_moments(self, columns: Columns) -> Any:
        """Σ_t ψ_t ψ_tᵀ over the rows, where there are features ψ_t."""
        raise NotImplementedError

    def descent(self, x: Vector, columns: Columns) -> tuple[float, Vector] | None:
        """The sum of the loss over the rows and its gradient, Σ_t F̃(x, ξ_t), where there is a loss."""
        return None

    def recession(self, samples: Any, v: Vector) -> float | None:
        """The most by which some row keeps the loss from never rising along v; None where that is not known."""
        return None

    def moments(self, columns: Columns) -> tuple[Any, Vector] | None:
        """The sums (A, b) that a linear operator is made of, over the rows of these columns; None if it is not linear.

        With B the number of rows and λ the `penalty_diagonal`::

            F̂(x) = (A/B + diag(λ)) x − b/B

        So moments of blocks of rows add up to those of the record, and the penalty is added once, at the end. A is
        sparse for more than 2000 sparse features.
        """
        return None

    def in_basis(self, columns: Columns, basis: Vector | None) -> tuple[Problem, Columns]:
        """The problem of z with x = Bz, but for the penalty, and its rows; as they are without a basis B.

        Only a problem that has `moments` or `jacobian_sum` is asked for this.
        """
        assert basis is None, f"{self!r} has no features to change the basis of"
        return self, columns

    def energies(
        self, x: Vector, columns: Columns, starts: Positions, which: Positions | None = None
    ) -> tuple[Vector, Vector]:
        """Σ_t F̃(x, ξ_t)² over the rows, and Σ_t w_t ψ_t² from each of `starts` to the next, a row each.

        By coordinate, or of `which` of them, and without the penalty. Without features ψ_t every row counts as one.
        """
        samples, count = self.samples(columns), row_count(columns)
        squares = np.zeros(len(x))
        for row in range(count):
            squares += self.operator(x.copy(), samples, row) ** 2
        sizes = np.diff(starts, append=count).astype(np.float64)
        return picked(squares, which), picked(np.tile(sizes[:, None], len(x)), which)

    def response(self, scores: Vector) -> Vector:
        """What is predicted where ⟨ψ, x⟩ is that: the mean response of a regression, a value in policy evaluation."""
        raise InputError(f"{self!r} has no features to predict from: use result.interval(of=...)")

    def penalty_diagonal(self, dim: int) -> Vector:
        """λ by coordinate, where λx is the part of F̃ that is the same on every sample; 0 without a penalty."""
        return np.zeros(dim)

    def loss(self, x: Vector, columns: Columns) -> float | None:
        """The mean loss over the rows whose gradient F̂ is, where there is one: what a held-out block is scored by."""
        return None

    def fit_exactly(self, buffer: Buffer, ridge: float = 0.0) -> Vector:
        """The x in X that solves the problem of the buffer's own mean operator F̂, with no stochastic step.

        An `InputError` if there is no solution, or no such solver; `GLM` and `PolicyEvaluation` have one.
        """
        raise InputError(f"{type(self).__name__} has no exact solution in closed form")

    def names(self, buffer: Buffer | StoredBuffer, dim: int) -> tuple[str, ...] | None:
        """The names of the coordinates of x, if there are any: those of the buffer, if they are as many.

        Features that an operator of one's own reads need not be what x has a coordinate for.
        """
        given = buffer.feature_names
        if given is None or len(given) == dim:
            return given
        if "features" in buffer:
            return None
        raise InputError(f"the buffer has {len(given)} names, but x has {dim} coordinates")

    def columns(self, buffer: Buffer) -> Columns:
        """The columns this problem reads, checked."""
        missing = [name for name in self.required if name not in buffer]
        if missing:
            wants = ", ".join(self.required) + "".join(f"[, {name}]" for name in self.optional)
            raise InputError(
                f"{type(self).__name__} needs the column{'s' * (len(missing) > 1)} {', '.join(missing)}; "
                f"it reads {wants}, and the buffer has {', '.join(buffer)}"
            )
        self._refuse_misspelt(buffer)
        wanted = {**self.required, **{name: ndim for name, ndim in self.optional.items() if name in buffer}}
        found = {name: self.column(buffer, name) for name in wanted}
        for name, ndim in wanted.items():
            _require_shape(name, found[name], ndim)
            if issparse(found[name]):  # somebody may have written into it, and may do so during the run
                found[name] = with_own_places(name, found[name])
        self.check(found)
        return found

    def column(self, buffer: Buffer, name: str) -> NDArray[Any]:
        """One column as this problem reads it: in NumPy, also where it lies on a device."""
        column = buffer[name]
        return as_numpy(column) if type(column) is not np.ndarray and is_foreign(column) else column

    def _refuse_misspelt(self, names: Iterable[str]) -> None:
        """Raise if a column that is not read was probably meant as an optional one; other columns may stay."""
        given = tuple(iter(names))  # a buffer's length is that of its columns, and room would be made for as many
        absent = [name for name in self.optional if name not in given]
        for name in (name for name in given if name not in self.required and name not in self.optional):
            if instead := self.elsewhere.get(name.lower()):
                raise InputError(f"{type(self).__name__} does not read the column {name!r}: {instead}")
            meant = difflib.get_close_matches(name.lower(), absent, n=1, cutoff=0.8) or [
                other for other in absent if name.lower() in _OTHER_NAMES.get(other, ())
            ]
            if meant:
                raise InputError(
                    f"{type(self).__name__} does not read the column {name!r}; if it is meant as {meant[0]!r}, "
                    "give it that name, and otherwise leave it out"
                )


def as_constraint(constraint: Set | None) -> Set:
    """The feasible set asked for, the whole space for None; an error if it is not a set."""
    if constraint is None:
        return WholeSpace()
    if isinstance(constraint, Set):
        return constraint
    what, hint = repr(constraint), ""
    if isinstance(constraint, type):
        what, hint = f"the class {constraint.__name__}", "; did you forget the parentheses?"
    raise InputError(f"constraint must be a set such as mr.sets.Ball(1.0), not {what}{hint}")


def _require_shape(name: str, array: NDArray[Any], ndim: int) -> None:
    if array.ndim != ndim:
        kind = "a row of numbers a sample (2 dimensions)" if ndim == 2 else "one number a sample (1 dimension)"
        hint = ""
        if ndim == 2:
            hint = f"; for one feature a sample use {name}[:, None]"
        elif array.shape[1] == 1:
            hint = f"; use {name}.ravel()"
        raise InputError(f"column {name!r} needs {kind}, but its shape is {array.shape}{hint}")
    if ndim == 2 and array.shape[1] == 0:
        raise InputError(f"column {name!r} has no features: its shape is {array.shape}")
    if ndim == 2 and array.dtype == np.bool_:
        raise InputError(f"column {name!r} holds booleans, and rows of real numbers are needed")


def refuse_outside(name: str, values: Any, most: float, needs: str) -> None:
    """Raise if any value of a column, of any library, is outside [0, most], naming the first of them."""
    if not isinstance(values, np.ndarray) or values.min() < 0 or values.max() > most:
        refuse((values < 0) | (values > most), name, values, needs)


def refuse(bad: Any, name: str, values: Any, needs: str) -> None:
    """Raise if any value of a column, of any library, is bad, naming the first of them, and what is needed."""
    if isinstance(bad, np.ndarray) and not bad.any():
        return
    place = first_true(bad)
    if place is not None:
        row = place[0]
        raise InputError(f"column {name!r} holds {float(values[row]):g} at row {row} (counting from 0); {needs}")


def row_blocks(rows: Any, count: int = 2**13) -> list[Any]:
    """The rows in blocks of so many, as views, so that temporaries stay small."""
    return [rows[start : start + count] for start in range(0, rows.shape[0], count)]


def as_double(block: Columns) -> Columns:
    """The columns with numbers in float64, so that what is added up of them is."""
    return {
        name: column.astype(np.float64) if column.dtype == np.float32 and not issparse(column) else column
        for name, column in block.items()
    }


def picked(values: Vector, which: Positions | None) -> Vector:
    """Some of the last axis, or all of it."""
    return values if which is None else values[..., which]
