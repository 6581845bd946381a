"""The value function of a policy from its trajectory, as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import _num_samples

from multireplay._check import Vector, one_a_row
from multireplay.errors import InputError
from multireplay.estimators.base import MEREstimator, stacked
from multireplay.estimators.usable import kept_rows, taken
from multireplay.problems import PolicyEvaluation

Flags = NDArray[np.bool_]


class Episodes(NamedTuple):
    """Rows of one record or several episodes in time order."""

    rows: Any
    rewards: Vector
    """What was given on leaving the row."""
    terminated: Flags
    """Where nothing comes after the row, for good."""
    ended: Flags
    """Where the next row belongs to another episode, or the row is the last one."""

    @property
    def usable(self) -> Flags:
        """Rows whose successor is known: the next row, or none at all where the episode terminated."""
        return self.terminated | ~self.ended


@dataclass(eq=False, repr=False)
class Discounted:
    """What the value estimator is asked for besides, and before, what every estimator is: the last base comes first."""

    gamma: float = 0.99


@dataclass(eq=False, repr=False)
class MERValueRegressor(RegressorMixin, MEREstimator, Discounted):  # type: ignore[misc]
    """The value of a policy from its trajectory, v(x) = wᵀx + b, by temporal differences on replayed transitions.

    **Rows are in time order**: row t of X is what was seen at time t, y[t] is the *reward* given on leaving it, and row
    t + 1 is what was seen next. So y is not what `predict` predicts: that is the discounted sum of the rewards from a
    row on. The answer is LSTD's, E[x (v(x) − r − γv(x'))] + alpha·w = 0.

    What follows the last row is not known, so that it is left out, unless it is marked as terminated. The same holds
    for the last row of every episode.

    Parameters
    ----------
    gamma : float, default=0.99
        Discount factor in [0, 1]; 1 needs rows that are terminated.
    alpha, fit_intercept, standardize, passes, replay, step, average, capacity, warn_autocorrelation, missing
        As in `MERRegressor`, and so are the attributes. No transition goes over a row that is left out.

    Examples
    --------
    A coin is tossed for ever, and heads pays 1: with γ = 1/2 heads is worth 1 + 1/2, tails 1/2.

    >>> import numpy as np
    >>> import multireplay as mr
    >>> heads = np.random.default_rng(0).integers(2, size=5000)
    >>> model = mr.MERValueRegressor(gamma=0.5).fit(heads[:, None], heads)
    >>> model.predict([[1], [0]]).round(1)
    array([1.5, 0.5])
    """

    rival: ClassVar[str] = "TD without replay"
    target: ClassVar[str] = "rewards"

    def fit(self, X: Any, y: Any, terminated: Any = None, episode: Any = None, groups: Any = None) -> MERValueRegressor:
        """Fit to a trajectory, or to several episodes one after the other.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (rows, features)
            What was seen, in time order.
        y : array of shape (rows,)
            The rewards, each given on leaving its row.
        terminated : array of bool of shape (rows,), optional
            Where the episode ended with that reward: nothing comes after it. A time limit is not such an ending.
        episode : array of shape (rows,), optional
            Which episode a row belongs to, as any labels. Where the label changes and the row is not terminated, the
            episode broke off, and that row is left out.
        groups : array of shape (rows,), optional
            Instead of `episode`: which of several series a row belongs to. The rows of a series may take turns with
            those of others, and are brought together.
        """
        if episode is not None and groups is not None:
            raise InputError("episode and groups both say which rows belong together: give one of them")
        kept = kept_rows(self, X, y, self._apart(episode) if groups is None else groups)
        if kept is not None:  # a row that is left out ends what was before it, as an episode that broke off
            X, y, terminated = taken(X, kept), taken(y, kept), taken(terminated, kept)
            episode = np.cumsum(kept.starts)
        trajectory = self._checked(X, y, terminated, episode, reset=True, fewest=1 if terminated is not None else 2)
        columns, rewards = transitions(trajectory)
        if not len(rewards):
            raise InputError(
                "no row of X has a known successor: give two rows of one episode at least, or mark ends as terminated"
            )
        self._waiting: tuple[Episodes, Any] | None = None  # the last row of a block and its label, till the next block
        if trajectory.ended[:-1].any():
            columns["groups"] = np.cumsum(np.append(False, trajectory.ended[:-1]))[trajectory.usable]
        self._fit(columns, rewards)
        return self

    def partial_fit(self, X: Any, y: Any, terminated: Any = None, episode: Any = None) -> MERValueRegressor:
        """Take in the next rows of a trajectory, by `multireplay.Stream`; see `MERRegressor.partial_fit`.

        A last row that is not terminated waits for the first row of the next block.

        Parameters
        ----------
        X, y, terminated, episode
            The next rows, as in `fit`. Without `episode` they go on with the episode of the block before.
        """
        before, self._waiting = getattr(self, "_waiting", None), None
        first, last = (None, None) if episode is None else np.asarray(episode)[[0, -1]]
        kept, count = kept_rows(self, X, y, self._apart(episode), more=True), _num_samples(X)
        if kept is not None:  # nothing follows on a row that is left out, or goes before it
            if not len(kept.rows):
                return self
            X, y, terminated, episode = taken(X, kept), taken(y, kept), taken(terminated, kept), np.cumsum(kept.starts)
            before = before if kept.rows[0] == 0 else None
        trajectory = self._checked(X, y, terminated, episode, reset=not hasattr(self, "n_features_in_"))
        if not trajectory.terminated[-1] and (kept is None or kept.rows[-1] == count - 1):
            self._waiting = Episodes._make(part[-1:].copy() for part in trajectory), last
        if before is not None:
            trajectory = Episodes(*map(stacked, zip(before[0], trajectory, strict=True)))
            trajectory.ended[0] = first is not None and before[1] is not None and first != before[1]
        columns, rewards = transitions(trajectory)
        if len(rewards):
            self._partial_fit(columns, rewards)
        return self

    def score(self, X: Any, y: Any, terminated: Any = None, episode: Any = None) -> float:
        """R² of the predicted values against the discounted returns that followed.

        Where a trajectory breaks off, its return goes on with the predicted value of its last row, which is itself not
        scored. Returns are noisy: the best value function is well below 1.

        Parameters
        ----------
        X, y, terminated, episode
            A trajectory, as in `fit`.
        """
        values = self.predict(X)
        trajectory = as_trajectory(values[:, None], np.asarray(y, dtype=np.float64), terminated, episode)
        scored = trajectory.usable
        return float(r2_score(returns(trajectory, self.gamma, values)[scored], values[scored]))

    def _apart(self, episode: Any) -> NDArray[np.int64] | None:
        """Numbers that change where episodes do (a label that comes back is another one), if rows may be left out."""
        if episode is None or self.missing == "error":
            return None
        labels = np.asarray(episode)
        return np.cumsum(np.append(False, labels[1:] != labels[:-1]))

    def _checked(self, X: Any, y: Any, terminated: Any, episode: Any, *, reset: bool, fewest: int = 1) -> Episodes:
        rows, rewards = self._validated(X, y, y_numeric=True, reset=reset, ensure_min_samples=fewest)
        return as_trajectory(rows, np.asarray(rewards, dtype=np.float64), terminated, episode)

    def _problem(self) -> PolicyEvaluation:
        return PolicyEvaluation(self.gamma, **self._penalty())

    def _level(self, columns: Mapping[str, Any], targets: Vector) -> float:
        """The constant value whose mean TD error is 0."""
        self._problem().check_whole([columns])  # without an end there is none at gamma = 1
        going = 1.0 - float(np.mean(columns["terminated"]))
        return float(np.mean(targets)) / (1.0 - self.gamma * going)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # y holds rewards, and the values are no prediction of them
        return tags


def as_trajectory(rows: Any, rewards: Vector, terminated: Any, episode: Any) -> Episodes:
    """The trajectory, checked."""
    count = rows.shape[0]
    over = _one_a_row("terminated", terminated, count)
    strange = np.flatnonzero(~np.isin(over, (0, 1)))
    if strange.size:
        bad = strange[0]
        raise InputError(
            f"terminated is {over[bad]} at row {bad} (counting from 0); it needs booleans, or zeros and ones"
        )
    names = _one_a_row("episode", episode, count)
    return Episodes(rows, rewards, over.astype(np.bool_), np.append(names[1:] != names[:-1], True))


def transitions(trajectory: Episodes) -> tuple[dict[str, Any], Vector]:
    """The columns of `PolicyEvaluation` without the rewards, and the rewards."""
    now = np.flatnonzero(trajectory.usable)
    rows, last = trajectory.rows, trajectory.rows.shape[0] - 1
    columns = {
        "features": rows[now],
        "next_features": rows[np.minimum(now + 1, last)],  # not read where the episode terminated
        "terminated": trajectory.terminated[now],
    }
    return columns, trajectory.rewards[now]


def returns(trajectory: Episodes, gamma: float, values: Vector) -> Vector:
    """Discounted sums of the rewards from every row on, with the value of the last row where an episode breaks off."""
    found = np.where(trajectory.usable, trajectory.rewards, values)
    for row in np.flatnonzero(~(trajectory.terminated | trajectory.ended))[::-1]:
        found[row] += gamma * found[row + 1]
    return found


def _one_a_row(name: str, values: Any, count: int) -> NDArray[Any]:
    array = np.zeros(count) if values is None else np.asarray(values)
    one_a_row(name, array.shape, count)
    return array
