"""The value function of a policy from its trajectory, as a scikit-learn estimator."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from multireplay._check import Vector
from multireplay.errors import InputError
from multireplay.estimators.base import LinearEstimator
from multireplay.estimators.stream import Columns, stacked
from multireplay.estimators.transitions import Episodes, as_trajectory, returns, transitions
from multireplay.problems import PolicyEvaluation
from multireplay.replay import Replay
from multireplay.solving.resolve import DEFAULT_TAIL
from multireplay.steps import Schedule


class MERValueRegressor(RegressorMixin, LinearEstimator):  # type: ignore[misc]
    """The value of a policy from its trajectory, v(x) = wᵀx + b, by temporal differences on replayed transitions.

    **Rows are in time order**: row t of X is what was seen at time t, y[t] is the *reward* given on leaving it, and row
    t + 1 is what was seen next. So y is not what `predict` predicts: that is the discounted sum of the rewards from a
    row on. The answer is LSTD's, E[x (v(x) − r − γv(x'))] + alpha·w = 0.

    What follows the last row is not known, so that it is left out, unless it is marked as terminated. The same holds
    for the last row of every episode.

    Parameters
    ----------
    gamma : float, default=0.99
        Discount factor in [0, 1).
    alpha, fit_intercept, standardize, passes, replay, step, average, capacity, warn_autocorrelation
        As in `MERRegressor`, and so are the attributes.

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

    coef_: Vector
    intercept_: float

    def __init__(
        self,
        gamma: float = 0.99,
        alpha: float = 1e-4,
        *,
        fit_intercept: bool = True,
        standardize: bool = True,
        passes: int | None = None,
        replay: Replay | None = None,
        step: float | Schedule | Literal["auto"] = "auto",
        average: float | Literal["none", "full", "weighted"] = DEFAULT_TAIL,
        capacity: int = 4096,
        warn_autocorrelation: bool = True,
    ) -> None:
        super().__init__(
            alpha,
            fit_intercept=fit_intercept,
            standardize=standardize,
            passes=passes,
            replay=replay,
            step=step,
            average=average,
            capacity=capacity,
            warn_autocorrelation=warn_autocorrelation,
        )
        self.gamma = gamma

    def fit(self, X: Any, y: Any, terminated: Any = None, episode: Any = None) -> MERValueRegressor:
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
        """
        trajectory = self._checked(X, y, terminated, episode, reset=True, fewest=1 if terminated is not None else 2)
        columns, rewards = transitions(trajectory)
        if not len(rewards):
            raise InputError(
                "no row of X has a known successor: give two rows of one episode at least, or mark ends as terminated"
            )
        self._waiting: dict[str, Any] | None = None
        self._fit(columns, rewards[:, None])
        return self

    def partial_fit(self, X: Any, y: Any, terminated: Any = None, episode: Any = None) -> MERValueRegressor:
        """Take in the next rows of a trajectory, by the online algorithm; see `MERRegressor.partial_fit`.

        A last row that is not terminated waits for the first row of the next block.

        Parameters
        ----------
        X, y, terminated, episode
            The next rows, as in `fit`. Without `episode` they go on with the episode of the block before.
        """
        trajectory = self._checked(X, y, terminated, episode, reset=not hasattr(self, "n_features_in_"))
        label = None if episode is None else np.asarray(episode)[0]
        before = getattr(self, "_waiting", None)
        self._waiting = _last_row(trajectory, None if episode is None else np.asarray(episode)[-1])
        if before is not None:
            broken = label is not None and before["label"] is not None and label != before["label"]
            trajectory = Episodes(
                stacked([before["row"], trajectory.rows]),
                np.append(before["reward"], trajectory.rewards),
                np.append(False, trajectory.terminated),
                np.append(broken, trajectory.ended),
            )
        columns, rewards = transitions(trajectory)
        if len(rewards):
            self._partial_fit(columns, rewards[:, None])
        return self

    def predict(self, X: Any) -> Vector:
        """The value of every row.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (rows, features)
        """
        return self._scores(X)

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

    def _checked(self, X: Any, y: Any, terminated: Any, episode: Any, *, reset: bool, fewest: int = 1) -> Episodes:
        rows, rewards = self._validated(X, y, y_numeric=True, reset=reset, ensure_min_samples=fewest)
        return as_trajectory(rows, np.asarray(rewards, dtype=np.float64), terminated, episode)

    def _problem(self) -> PolicyEvaluation:
        return PolicyEvaluation(self.gamma, **self._penalty())

    def _level(self, columns: Columns, targets: Vector) -> float:
        """The constant value whose mean TD error is 0."""
        going = 1.0 - float(np.mean(columns["terminated"]))
        return float(np.mean(targets)) / (1.0 - self.gamma * going)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # y holds rewards, and the values are no prediction of them
        return tags


def _last_row(trajectory: Episodes, label: Any) -> dict[str, Any] | None:
    """The last row of a block with its reward, unless nothing comes after it."""
    if trajectory.terminated[-1]:
        return None
    return {"row": trajectory.rows[-1:].copy(), "reward": trajectory.rewards[-1], "label": label}
