"""A value function from a trajectory, or from an environment and a policy, and a Monte Carlo check beside it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from multireplay._check import Vector, whole_number
from multireplay.errors import InputError
from multireplay.problems import PolicyEvaluation
from multireplay.result import Result
from multireplay.rl.check import Check, impossible, monte_carlo
from multireplay.rl.coding import Coding
from multireplay.rl.collect import CollectionError, CollectionInterrupted, collect
from multireplay.rl.features.base import BoundFeatures
from multireplay.rl.features.given import as_features, bound_to
from multireplay.rl.sampling import reference
from multireplay.rl.seen import Subject
from multireplay.rl.spaces import Array, opened, single, spaces_of
from multireplay.rl.trajectory import Trajectory, summary
from multireplay.rl.uncertain import StartValue, intervals_at, start_sentence, start_value
from multireplay.solve import solve
from multireplay.solving.uncertain import made_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from multireplay.inference import LongRun, Summary


NO_PLACE = (
    "No Monte Carlo check: it needs one environment, and this vector environment does not say how to make one. Give "
    "check_env=..., or check=0."
)


@dataclass(frozen=True, eq=False, repr=False)
class ValueEstimate:
    """The value function of a policy, v(s) = ⟨ψ(s), x⟩; ``print`` it.

    Attributes
    ----------
    features, x : BoundFeatures, ndarray
        ψ, with its bounds and centres, and its coefficients.
    gamma : float
        The discount factor.
    trajectory, result : Trajectory, Result
        The record it was learnt from, and what `solve` gave.
    check, note : Check or None, str
        Returns of fresh rollouts beside it, if they were asked for; or why there are none though they were, and
        whether values are impossible.

    Examples
    --------
    >>> import multireplay as mr
    >>> estimate = mr.rl.evaluate("FrozenLake-v1", "random", "one-hot", gamma=0.99, steps=20_000, seed=0)
    >>> estimate.value([0, 14]).round(2)  # 14 is beside the goal
    array([0.01, 0.4 ])
    """

    features: BoundFeatures
    gamma: float
    trajectory: Trajectory
    result: Result
    check: Check | None = None
    note: str = ""

    @property
    def x(self) -> Vector:
        return self.result.x

    @property
    def problem(self) -> PolicyEvaluation:
        """The problem that was solved; ``problem.fit_exactly(trajectory.buffer(features))`` is LSTD."""
        return self.features.problem_of(self.gamma)

    def value(self, observations: Any) -> Any:
        """The value of one observation, as a float, or of many, as an array.

        Parameters
        ----------
        observations : array_like, dict or tuple
            One observation as the environment gives it, or a list of them, or an array with one a row. Rows of a
            `Dict` or `Tuple` space are as `Trajectory` stores them.
        """
        array, one = Coding(self.trajectory.environment_space).encode(observations)
        return float(self.values(array[None])[0]) if one else self.values(array)

    def values(self, observations: Array) -> Vector:
        """The values of many observations, one a row, as they are stored."""
        return np.asarray(self.features.values(observations, self.x), dtype=np.float64)

    def interval(self, observations: Any, level: float = 0.95) -> Any:
        """The interval of the value of one observation, as (low, high), or of many, as an array of shape (k, 2).

        It counts the dependence of the record. Infinite where the record says nothing of an observation; an
        `UncertaintyWarning` says which intervals are not to be relied on.

        Parameters
        ----------
        observations : array_like, dict or tuple
            As in `value`.
        level : float
            The probability that an interval contains the value.

        Examples
        --------
        >>> import multireplay as mr
        >>> estimate = mr.rl.evaluate("FrozenLake-v1", "random", "one-hot", gamma=0.99, steps=50_000, seed=0, check=0)
        >>> low, high = estimate.interval(14)  # beside the goal
        >>> low < estimate.value(14) < high
        True
        """
        array, one = Coding(self.trajectory.environment_space).encode(observations)
        if one:
            low, high = intervals_at(self, array[None], level)[0].tolist()
            return low, high
        return intervals_at(self, array, level)

    @cached_property
    def start_value(self) -> StartValue:
        """The value where episodes start: the mean over the first observations of the record, with its interval.

        The interval counts the error of x and that of the starts, of which the record has a sample.
        """
        return start_value(self)

    def summary(self, level: float = 0.95, by: LongRun | None = None) -> Summary:
        """A table of the coefficients of the features with standard errors, tests against 0 and intervals.

        With `OneHot` these are the values of states. Below it stand the value at the start and how the fit was made.

        Parameters
        ----------
        level : float
            Of the intervals.
        by : multireplay.inference.LongRun, optional
            How standard errors of coefficients are made; `BatchMeans` by default.

        Examples
        --------
        >>> import multireplay as mr
        >>> estimate = mr.rl.evaluate("FrozenLake-v1", "random", "one-hot", gamma=0.99, steps=50_000, seed=0, check=0)
        >>> rows = estimate.summary().rows
        >>> rows[14]["name"], rows[14]["low"] < estimate.value(14) < rows[14]["high"]
        ('state 14', True)
        """
        head = f"Value on {self.trajectory.name} at gamma {self.gamma:g}, {self.features}"
        made = [start_sentence(self, level), *made_of(self.result, head)]
        return self.result.uncertainty.summary(level, by, made)

    def plot(self, ax: Axes | None = None, *, dims: Any = None, names: Any = None) -> Axes:
        """Draw the value function: a line over one number, a heat map over two, bars for discrete observations.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        dims : int or pair of int, optional
            Which numbers of the observation to draw over, where it has more than two; the others are held at their
            median in the record.
        names : sequence of str, optional
            What the numbers of the observation are called.
        """
        from multireplay.rl.draw import plot_value

        return plot_value(self, ax, dims, names)

    def told(self, level: float = 0.95) -> str:
        """What is printed of it, with an interval of that level at the start."""
        record = self.trajectory
        head = f"Value on {record.name} at gamma {self.gamma:g}, from {summary(record)}; {self.features}."
        check = str(self.check) if self.check is not None else self.note
        start = start_sentence(self, level)
        return "\n".join(part for part in (head, start, check, f"Solver: {self.result.status}") if part)

    def __str__(self) -> str:
        return self.told()

    def __repr__(self) -> str:
        return f"ValueEstimate({self.trajectory.name}, gamma={self.gamma:g}, {self.features}, {self.check!r})"


def estimate(trajectory: Trajectory, features: Any, gamma: float, **options: Any) -> ValueEstimate:
    """The value function of the policy that made a record, without a Monte Carlo check: see `evaluate` for one.

    Parameters
    ----------
    trajectory : Trajectory
        From `collect` or `from_minari`.
    features : Features, str or callable
        ψ: an object such as `RBF`, a name such as "rbf", or a function of an observation.
    gamma : float
        Discount factor in [0, 1]; 1 is for tasks whose episodes end.
    **options
        Passed on to `multireplay.solve`, for example ``replay=mr.Multiscale()``. Without any it is the exact fit
        (LSTD) wherever that can be had. The coefficient of a feature that is never active is 0: with `OneHot` this is
        the value of a state that no step was taken from, such as a terminal one.

    Examples
    --------
    >>> import multireplay as mr
    >>> record = mr.rl.collect("FrozenLake-v1", "random", steps=20_000, seed=0)
    >>> estimate = mr.rl.estimate(record, "one-hot", gamma=0.9)
    >>> exact = estimate.problem.fit_exactly(record.buffer(estimate.features))
    >>> bool(abs(estimate.x - exact).max() < 0.001)
    True
    """
    PolicyEvaluation(gamma)  # raises at once where gamma is no discount factor
    bound = bound_to(features, trajectory.environment_space, trajectory.observations)
    problem, buffer = bound.problem_of(gamma), bound.buffer_of(trajectory)
    with warnings.catch_warnings():
        # a feature is small here because it is seldom active; standardizing it would be no help
        warnings.filterwarnings("ignore", message="features differ in size")
        result = solve(problem, buffer, **options)
    found = ValueEstimate(bound, float(gamma), trajectory, result)
    return replace(found, note=impossible(found.values(trajectory.observations), trajectory.rewards, found.gamma))


def evaluate(
    env: Any,
    policy: Any,
    features: Any = "auto",
    gamma: float = 0.99,
    steps: int = 100_000,
    seed: int = 0,
    *,
    check: int = 100,
    check_env: Any = None,
    progress: bool = False,
    **options: Any,
) -> ValueEstimate:
    """The value function of a policy in an environment, and a Monte Carlo check beside it.

    The policy acts for `steps` steps (`collect`), the value function is learnt from that record (`estimate`), and
    fresh rollouts are compared with it. Where an episode is cut off by a time limit, the value is that without the
    limit: the estimate goes on from the last observation, and the rollouts run without it. Print what comes back.

    Parameters
    ----------
    env, policy, steps, seed, progress
        As in `collect`.
    features, gamma, **options
        As in `estimate`. "auto" features are `OneHot` for discrete observations and `RBF` for others.
    check : int
        Number of rollouts of the Monte Carlo check, 0 for none.
    check_env : str or gymnasium.Env, optional
        Where to run them; needed only where `env` is a vector environment inside a wrapper.

    Examples
    --------
    >>> import multireplay as mr
    >>> def with_momentum(state, rng):
    ...     return int(rng.integers(3)) if rng.random() < 0.2 else 2 if state[1] >= 0 else 0
    >>> estimate = mr.rl.evaluate("MountainCar-v0", with_momentum, "rbf", gamma=0.99, steps=20_000, check=50)
    >>> print(estimate.check.table())
     states            number        estimate     Monte Carlo   difference   in s.e.
     ───────────────────────────────────────────────────────────────────────────────
     at the start          50 ...
    """
    PolicyEvaluation(gamma)  # raises at once where gamma is no discount factor
    whole_number("check", check, least=0)
    with opened(env) as world:
        if not isinstance(features, BoundFeatures):
            as_features(features).require(Coding(spaces_of(world)[0]).space)  # before anything is collected
        record = collect(world, policy, steps, seed, progress=progress)
        try:
            found = estimate(record, features, gamma, **options)
            if not check:
                return found
            with single(world) if check_env is None else opened(check_env) as place:
                if place is None:
                    return replace(found, note=" ".join(filter(None, (NO_PLACE, found.note))))
                # a seed that has nothing to do with this one and the next ones, which a vector environment's parts have
                another = int(np.random.SeedSequence([seed, 2]).generate_state(1)[0]) // 2
                subject = Subject(found.values, found.gamma, record, reference(found.features, record, found.gamma))
                rollouts = monte_carlo(place, policy, subject, max(check, 2), another)
        except KeyboardInterrupt:
            raise CollectionInterrupted(
                "interrupted; the steps collected are in the error's trajectory", record
            ) from None
        except CollectionError as error:
            message = f"in the Monte Carlo check {error.__cause__}; the steps collected are in the error's trajectory"
            raise CollectionError(message, record) from error
        except InputError as error:
            raise CollectionError(f"{error} (the steps collected are in the error's trajectory)", record) from error
    return replace(found, check=replace(rollouts, notes=tuple(filter(None, (found.note, *rollouts.notes)))))
