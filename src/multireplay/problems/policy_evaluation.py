"""Policy evaluation with linear features: the projected Bellman equation as a variational inequality."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from multireplay._check import Vector, number_in
from multireplay.buffer.buffer import STATES, Buffer
from multireplay.buffer.columns import Columns, SparseColumn
from multireplay.buffer.foreign import as_numpy
from multireplay.buffer.names import names_in
from multireplay.errors import InputError
from multireplay.problems.base import Problem, as_constraint, refuse, row_blocks
from multireplay.problems.directions import is_nearly_singular
from multireplay.problems.exact import solve_known, solve_linear
from multireplay.problems.packed import (
    DenseTable,
    IndexedRows,
    IndexedTransitionSamples,
    Rows,
    SparseTransitionSamples,
    nonzeros,
)
from multireplay.problems.residual import (
    Penalty,
    ResidualProblem,
    dense_products,
    joint_moments,
    packed_weights,
    plus_diagonal,
    products,
    refuse_overflow,
    scores_of,
    times,
    weighted,
)
from multireplay.sets import Set, WholeSpace

if TYPE_CHECKING:
    from multireplay.buffer.disk import StoredBuffer


class TransitionSamples(NamedTuple):
    """What the loops read: one transition a row, ψ(s_i) to ψ(s_{i+1}). The discount is γ, or 0 on a terminal row.

    Without weights or without a ridge these are None, so that the loop is compiled without them.
    """

    features: NDArray[Any]
    next_features: NDArray[Any]
    rewards: NDArray[Any]
    discounts: Vector
    weights: Vector | None = None
    ridge: float | None = None
    unpenalized: int = 0

    def row(self, i: int) -> NDArray[Any]:
        return np.asarray(self.features[i])

    def next_row(self, i: int) -> NDArray[Any]:
        return np.asarray(self.next_features[i])


class PolicyEvaluation(ResidualProblem):
    """Value of a policy from a trajectory, with v(s) = ⟨ψ(s), θ⟩.

    The operator is TD's (paper, Eq. RL_operator)::

        F̃(θ, ξ_t) = w_t (⟨ψ(s_t), θ⟩ − r_t − γ⟨ψ(s_{t+1}), θ⟩) ψ(s_t)

    Columns: ``features`` ψ(s_t) and ``next_features`` ψ(s_{t+1}) of shape (B, d), ``rewards`` of shape (B,), and
    optionally ``terminated`` of shape (B,): where it is true the episode ended at s_{t+1}, and nothing is
    bootstrapped from it; and, for dense features, ``weights`` w_t ≥ 0 of shape (B,), otherwise 1: the importance
    ratios π(a_t|s_t)/μ(a_t|s_t) of a record that another policy μ made. Features may be scipy sparse matrices: a step
    on the whole space then costs O(nonzeros of its two rows), and on a feasible set O(d).

    Parameters
    ----------
    gamma : float
        Discount factor in [0, 1]. 1, the plain sum of the rewards of an episode, needs episodes that end: a column
        ``terminated`` that is true somewhere.
    constraint : Set, optional
        Feasible set of θ, the whole space by default.
    table : array, scipy sparse matrix or data frame of shape (states, d), optional
        The features of every state. Columns are then ``states`` s_t and ``next_states`` s_{t+1}, rows of the table
        counted from 0, in place of ``features`` and ``next_features``. With a sparse table a step costs as much as its
        rows have nonzeros: ``scipy.sparse.eye_array(n, format="csr")`` gives every state a value of its own. A data
        frame's columns are the names of the coordinates.
    ridge : float
        L2 penalty λ: adds λθ to the operator. 0 by default.
    unpenalized : int
        How many of the last coordinates, such as that of a column of ones, the penalty leaves out. 0 by default.

    Examples
    --------
    Two states that alternate, reward 1 in the first: v = (1, γ)/(1 − γ²).

    >>> import numpy as np
    >>> import multireplay as mr
    >>> F = np.eye(2)[np.arange(101) % 2]
    >>> buffer = mr.Buffer(features=F[:-1], next_features=F[1:], rewards=F[:-1, 0])
    >>> mr.PolicyEvaluation(gamma=0.5).fit_exactly(buffer)
    array([1.33333333, 0.66666667])
    >>> s = np.arange(101) % 2
    >>> buffer = mr.Buffer(states=s[:-1], next_states=s[1:], rewards=1 - s[:-1])
    >>> mr.PolicyEvaluation(gamma=0.5, table=np.eye(2)).fit_exactly(buffer)
    array([1.33333333, 0.66666667])
    """

    required: Mapping[str, int] = MappingProxyType({"features": 2, "next_features": 2, "rewards": 1})
    optional: Mapping[str, int] = MappingProxyType({"terminated": 1, "weights": 1})
    outcome: ClassVar[str] = "rewards"

    def __init__(
        self,
        gamma: float,
        constraint: Set | None = None,
        table: Any = None,
        ridge: float = 0.0,
        unpenalized: int = 0,
    ) -> None:
        self.gamma = number_in("gamma", gamma, 0, 1, high_open=False)
        self.constraint = as_constraint(constraint)
        self.table = None if table is None else _as_table(table)
        if self.table is not None:
            self.required = {"states": 1, "next_states": 1, "rewards": 1}
        self.table_names = names_in(table)
        self.penalty = Penalty(ridge, unpenalized)

    def names(self, buffer: Buffer | StoredBuffer, dim: int) -> tuple[str, ...] | None:
        return self.table_names or super().names(buffer, dim)

    def columns(self, buffer: Buffer) -> Columns:
        if self.table is None and "states" in buffer and "features" not in buffer:
            raise InputError(
                "PolicyEvaluation needs the features of the states: PolicyEvaluation(gamma, table=Psi) with a row a "
                "state, or the columns features and next_features"
            )
        return super().columns(buffer)

    def check(self, columns: Columns) -> None:
        if self.table is None:
            now, then = self._pairs(columns)
            if now.shape[1] != then.shape[1]:
                widths = f"features has {now.shape[1]} features a row and next_features {then.shape[1]}"
                raise InputError(f"{widths}; they need the same")
            if now.dtype != then.dtype:
                raise InputError("features and next_features need the same dtype")
            if issparse(now) != issparse(then):
                raise InputError("features and next_features must both be dense or both be sparse")
        else:
            _check_states(columns, self.table.shape[0])
        self.penalty.check(self.dim(columns))
        if not isinstance(self.rows(columns), np.ndarray):
            if self.penalty.ridge:
                raise InputError(f"ridge={self.penalty.ridge:g} needs dense features, not a table or a sparse matrix")
            if "weights" in columns:
                raise InputError(
                    "the column 'weights' needs dense features, not a table or a sparse matrix; leave it out if it is "
                    "not meant as importance ratios"
                )
        if "weights" in columns:
            refuse(columns["weights"] < 0, "weights", columns["weights"], "a weight is at least 0")
        if "terminated" in columns:
            ended = columns["terminated"]
            refuse((ended != 0) & (ended != 1), "terminated", ended, "it needs booleans, or zeros and ones")

    def check_whole(self, parts: Iterable[Columns]) -> None:
        """Raise where nothing is discounted and no episode ends: sums of rewards have no limit then."""
        if self.gamma == 1 and not any("terminated" in part and as_numpy(part["terminated"]).any() for part in parts):
            raise InputError(
                "gamma=1 needs episodes that end, and no row of the record is terminated: sums of rewards have no "
                "limit then. Mark true endings in the column terminated, or use gamma below 1, for example 0.999"
            )

    def samples(self, columns: Columns) -> TransitionSamples | SparseTransitionSamples | IndexedTransitionSamples:
        rewards = np.ascontiguousarray(columns["rewards"], dtype=np.float64)  # else loops are compiled for strides too
        outcome = rewards, self._discounts(columns)
        if self.table is not None:
            states, next_states = (columns[name].astype(np.int64, copy=False) for name in STATES)
            table = nonzeros(self.table) if isinstance(self.table, SparseColumn) else DenseTable(self.table)
            return IndexedTransitionSamples(table, states, next_states, *outcome, self.table.shape[0])
        now, then = self._pairs(columns)
        if issparse(now):
            return SparseTransitionSamples(nonzeros(now), nonzeros(then), *outcome)
        return TransitionSamples(now, then, *outcome, packed_weights(columns), *self.penalty.fields)

    def rows(self, columns: Columns) -> Rows:
        return self._pairs(columns)[0]

    def in_basis(self, columns: Columns, basis: Vector | None) -> tuple[Problem, Columns]:
        if self.table is None or basis is None:
            return super().in_basis(columns, basis)
        other = copy.copy(self)
        other.table = self.table @ basis
        return other, columns

    def _pairs(self, columns: Columns) -> tuple[Rows, Rows]:
        """ψ(s_t) and ψ(s_{t+1}) as matrices."""
        if self.table is None:
            return columns["features"], columns["next_features"]
        return IndexedRows(self.table, columns["states"]), IndexedRows(self.table, columns["next_states"])

    def _discounts(self, columns: Columns) -> Vector:
        """γ, or 0 on a terminal row: read-only and with strides in both cases, or loops are compiled for both."""
        if "terminated" not in columns:
            return np.broadcast_to(self.gamma, columns["rewards"].shape)  # one number, however many rows
        backwards = np.where(np.asarray(columns["terminated"])[::-1], 0.0, self.gamma)
        backwards.flags.writeable = False
        return backwards[::-1]

    def operator(self, x: Vector, samples: TransitionSamples, row: int) -> Vector:
        now, then = samples.row(row), samples.next_row(row)
        error = now @ x - samples.rewards[row] - samples.discounts[row] * (then @ x)
        weights = getattr(samples, "weights", None)
        if weights is not None:
            error = weights[row] * error
        return self.penalty.added(np.asarray(error * now, dtype=np.float64), x)

    def residuals_at(self, points: Vector, columns: Columns) -> Vector:
        now, then = self._pairs(columns)
        following = times(then, points.T).T  # in the precision of the rows and the points
        following = self._discounts(columns).astype(following.dtype, copy=False) * following
        return np.asarray(weighted(times(now, points.T).T - columns["rewards"] - following, columns))

    def scores(self, samples: TransitionSamples, x: Vector) -> Vector:
        return scores_of(samples.features, x) - as_numpy(samples.discounts) * scores_of(samples.next_features, x)

    def slope(self, samples: TransitionSamples) -> float:
        """1, to which TD's operator is Lipschitz up to the factor 1 + γ of the paper."""
        return 1.0

    def curvature(self, x: Vector, columns: Columns) -> Vector:
        """(1 − γ) times the second moments of the features plus λ, which Â's symmetric part is at least on policy."""
        rows = self.rows(columns)
        moments = np.asarray(dense_products(rows, rows, columns.get("weights")) / rows.shape[0])
        return (1 - self.gamma) * moments + np.diag(self.penalty_diagonal(len(x)))

    def response(self, scores: Vector) -> Vector:
        return scores

    @property
    def has_jacobian(self) -> bool:
        return True

    @property
    def is_linear(self) -> bool:
        return True

    def jacobian_sum(self, x: Vector, columns: Columns) -> Any:
        now, then = self._pairs(columns)
        if not isinstance(now, np.ndarray):
            return self.moments(columns)[0]
        onward = now - self._discounts(columns)[:, None].astype(now.dtype, copy=False) * then
        along = now if "weights" not in columns else columns["weights"][:, None].astype(now.dtype, copy=False) * now
        return along.T @ onward

    def jacobian_diagonal(self, x: Vector, columns: Columns) -> Vector:
        now, then = self._pairs(columns)
        if not isinstance(now, np.ndarray):
            return super().jacobian_diagonal(x, columns)
        onward = now - self._discounts(columns)[:, None].astype(now.dtype, copy=False) * then
        along = now if "weights" not in columns else columns["weights"][:, None] * now
        return np.asarray(np.einsum("ij,ij->j", along, onward))

    def moments(self, columns: Columns) -> tuple[Any, Vector]:
        """Σ w_t ψ(s_t)(ψ(s_t) − γψ(s_{t+1}))ᵀ and Σ w_t r_t ψ(s_t), with 0 for γ where the episode ended."""
        now, then = self._pairs(columns)
        rewards, discounts = columns["rewards"].astype(np.float64, copy=False), self._discounts(columns)
        if not isinstance(now, np.ndarray):
            return products(now, now) - products(now, then, discounts), now.T @ rewards
        matrix, vector = np.zeros((now.shape[1],) * 2), np.zeros(now.shape[1])
        weights = columns.get("weights", np.broadcast_to(1.0, rewards.shape))
        blocks = zip(*map(row_blocks, (now, then, rewards, discounts, weights)), strict=True)
        for here, there, reward, discount, weight in blocks:
            onward = there * (-self.gamma if "terminated" not in columns else -discount[:, None])
            onward += here
            along = weight[:, None] * here if "weights" in columns else here.astype(np.float64, copy=False)
            parts = joint_moments(along, onward, reward)
            matrix += parts[0]
            vector += parts[1]
        return matrix, vector

    def fit_exactly(self, buffer: Buffer, ridge: float = 0.0) -> Vector:
        """LSTD: the θ with F̂(θ) + ridge·θ = 0, or the solution of that VI on the feasible set.

        Costs O(B d²) time and O(d²) memory; with a dense table O(B + states · d²) time. Features that are
        combinations of others, or not seen but as the next ones, leave directions open in which θ has no part: it is
        the shortest solution. With more than 2000 sparse features the sparse system is solved by iteration.

        Parameters
        ----------
        buffer : Buffer
            The record.
        ridge : float
            Added to the diagonal of Â, beside the problem's own. 0 by default.
        """
        columns = self.columns(buffer)
        self.check_whole([columns])
        matrix, vector = self.moments(columns)
        if not np.isfinite(matrix.data if issparse(matrix) else matrix).all():
            refuse_overflow(self.rows(columns), self.names(buffer, len(vector)))
        count, penalty = len(columns["rewards"]), number_in("ridge", ridge) + self.penalty_diagonal(len(vector))
        whole = plus_diagonal(matrix / count, penalty)
        if isinstance(self.constraint, WholeSpace) and not issparse(whole) and is_nearly_singular(whole):
            return solve_known(self, columns, penalty)
        return solve_linear(whole, vector / count, self.constraint)

    def __repr__(self) -> str:
        table = "" if self.table is None else f", table of shape {self.table.shape}"
        return f"PolicyEvaluation(gamma={self.gamma:g}{table}{self.penalty.text})"


def _as_table(table: Any) -> NDArray[Any] | SparseColumn:
    """A table of features, a row a state, dense or sparse; checked like a column."""
    rows = Buffer(table=table)["table"]
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise InputError(f"table needs a row of features a state (2 dimensions), but its shape is {rows.shape}")
    if issparse(rows):
        return rows
    return np.ascontiguousarray(rows, dtype=np.float64 if rows.dtype == np.bool_ else rows.dtype)


def _check_states(columns: Columns, count: int) -> None:
    """Raise unless both columns of states are row numbers of a table with that many rows, naming the first bad row."""
    for name in STATES:
        states = columns[name]
        if states.dtype.kind not in "iu":
            raise InputError(
                f"column {name!r} holds {states.dtype} values; with a table it needs whole numbers, rows of the table "
                f"counted from 0: {name}.astype(int)"
            )
        if int(states.min()) < 0 or int(states.max()) >= count:
            bad = int(np.flatnonzero((states < 0) | (states >= count))[0])
            raise InputError(
                f"column {name!r} holds {states[bad]} at row {bad} (counting from 0), but the table has {count} rows: "
                f"states go from 0 to {count - 1}"
            )
