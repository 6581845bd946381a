"""Policy evaluation with linear features: the projected Bellman equation as a variational inequality."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from multireplay.buffer import Buffer
from multireplay.errors import InputError
from multireplay.problems.base import (
    GROWTH,
    UNBOUNDED,
    Columns,
    Problem,
    Vector,
    as_constraint,
    largest,
    largest_square,
    row_blocks,
)
from multireplay.problems.exact import as_ridge, extragradient
from multireplay.problems.penalty import Penalty
from multireplay.sets import Set, WholeSpace


class TransitionSamples(NamedTuple):
    """What the loops read: one transition a row. The discount is γ, or 0 on a terminal row."""

    features: NDArray[Any]
    next_features: NDArray[Any]
    rewards: NDArray[Any]
    discounts: Vector
    ridge: float | None = None
    unpenalized: int = 0


class PolicyEvaluation(Problem):
    """Value of a policy from a trajectory, with v(s) = ⟨ψ(s), θ⟩.

    The operator is TD's (paper, Eq. RL_operator)::

        F̃(θ, ξ_t) = (⟨ψ(s_t), θ⟩ − r_t − γ⟨ψ(s_{t+1}), θ⟩) ψ(s_t)

    Columns: ``features`` ψ(s_t) and ``next_features`` ψ(s_{t+1}) of shape (B, d), ``rewards`` of shape (B,), and
    optionally ``terminated`` of shape (B,): where it is true the episode ended at s_{t+1}, and nothing is
    bootstrapped from it.

    Parameters
    ----------
    gamma : float
        Discount factor in [0, 1).
    constraint : Set, optional
        Feasible set of θ, the whole space by default.
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
    """

    required: ClassVar[Mapping[str, int]] = {"features": 2, "next_features": 2, "rewards": 1}
    optional: ClassVar[Mapping[str, int]] = {"terminated": 1}

    def __init__(self, gamma: float, constraint: Set | None = None, ridge: float = 0.0, unpenalized: int = 0) -> None:
        if not isinstance(gamma, int | float | np.floating) or not 0 <= gamma < 1:
            hint = ""
            if isinstance(gamma, int | float | np.floating) and gamma == 1:
                hint = "; it must be below 1 for the problem to be strongly monotone: use, for example, 0.999"
            raise InputError(f"gamma must be a number in [0, 1), not {gamma!r}{hint}")
        self.gamma = float(gamma)
        self.constraint = as_constraint(constraint)
        self.penalty = Penalty(ridge, unpenalized)

    def check(self, columns: Columns) -> None:
        width, next_width = columns["features"].shape[1], columns["next_features"].shape[1]
        if width != next_width:
            raise InputError(f"features has {width} features a row and next_features {next_width}; they need the same")
        if columns["features"].dtype != columns["next_features"].dtype:
            raise InputError("features and next_features need the same dtype")
        self.penalty.check(width)
        if "terminated" in columns:
            bad = np.flatnonzero(~np.isin(columns["terminated"], (0, 1)))
            if bad.size:
                raise InputError(
                    f"column 'terminated' holds {columns['terminated'][bad[0]]:g} at row {bad[0]} (counting from 0); "
                    "it needs booleans, or zeros and ones"
                )

    def dim(self, columns: Columns) -> int:
        return int(columns["features"].shape[1])

    def samples(self, columns: Columns) -> TransitionSamples:
        return TransitionSamples(
            columns["features"], columns["next_features"], columns["rewards"].astype(np.float64, copy=False),
            self._discounts(columns), *self.penalty.fields,
        )  # fmt: skip

    def _discounts(self, columns: Columns) -> Vector:
        if "terminated" not in columns:
            return np.full(len(columns["rewards"]), self.gamma)
        return np.where(columns["terminated"], 0.0, self.gamma)

    def operator(self, x: Vector, samples: TransitionSamples, row: int) -> Vector:
        now, then = samples.features[row], samples.next_features[row]
        error = now @ x - samples.rewards[row] - samples.discounts[row] * (then @ x)
        return self.penalty.added(np.asarray(error * now, dtype=np.float64), x)

    def mean_operator(self, x: Vector, columns: Columns) -> Vector:
        features = columns["features"]
        errors = features @ x - columns["rewards"] - self._discounts(columns) * (columns["next_features"] @ x)
        return self.penalty.added(np.asarray(features.T @ errors / len(features), dtype=np.float64), x)

    def lipschitz(self, samples: TransitionSamples) -> float:
        """max ‖ψ(s_t)‖² + λ, to which TD's operator is Lipschitz up to the factor 1 + γ of the paper."""
        return largest_square(samples.features) + self.penalty.ridge

    def limit(self, samples: TransitionSamples, x0: Vector) -> float:
        """10⁸ times the size of the TD error at x0: the largest reward plus the largest ⟨ψ − γψ', x0⟩."""
        size = largest(samples.rewards)
        if x0.any():
            read = (samples.features, samples.next_features, samples.discounts)
            size += max(
                largest(now @ x0 - discount * (then @ x0))
                for now, then, discount in zip(*map(row_blocks, read), strict=True)
            )
        return GROWTH * size or UNBOUNDED

    def curvature(self, x: Vector, columns: Columns) -> Vector:
        """(1 − γ) times the second moments of the features plus λ, which Â's symmetric part is at least on policy."""
        rows = columns["features"].astype(np.float64, copy=False)
        return np.asarray((1 - self.gamma) * rows.T @ rows / len(rows)) + np.diag(self.penalty.diagonal(len(x)))

    def moments(self, columns: Columns) -> tuple[Vector, Vector]:
        """Â and b̂ with F̂(θ) = Âθ − b̂, in one pass over the rows; the ridge is in Â."""
        dim = self.dim(columns)
        matrix, vector = np.zeros((dim, dim)), np.zeros(dim)
        samples = self.samples(columns)
        for now, then, rewards, discount in zip(*map(row_blocks, samples[:4]), strict=True):
            matrix += now.T @ (now - discount[:, None] * then)
            vector += now.T @ rewards
        matrix = matrix / len(samples.rewards) + np.diag(self.penalty.diagonal(dim))
        return matrix, vector / len(samples.rewards)

    def fit_exactly(self, buffer: Buffer, ridge: float = 0.0) -> Vector:
        """LSTD: the θ with F̂(θ) + ridge·θ = 0, or the solution of that VI on the feasible set.

        Costs O(B d²) time and O(d²) memory. A singular system gives its least-norm solution.

        Parameters
        ----------
        buffer : Buffer
            The record.
        ridge : float
            Added to the diagonal of Â, beside the problem's own. 0 by default.
        """
        columns = self.columns(buffer)
        matrix, vector = self.moments(columns)
        matrix[np.diag_indices_from(matrix)] += as_ridge(ridge)
        if isinstance(self.constraint, WholeSpace):
            return np.asarray(np.linalg.lstsq(matrix, vector, rcond=None)[0])
        bound = float(np.linalg.norm(matrix, 2))
        return extragradient(lambda x: matrix @ x - vector, self.constraint, np.zeros_like(vector), bound)

    def __repr__(self) -> str:
        return f"PolicyEvaluation(gamma={self.gamma:g}{self.penalty.text})"
