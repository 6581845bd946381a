"""Features from a function of the user's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from multireplay.errors import InputError
from multireplay.rl.actions import short
from multireplay.rl.features.base import BoundFeatures, Features, Matrix
from multireplay.rl.policies import Batched
from multireplay.rl.spaces import Array


@dataclass(frozen=True)
class Function(Features):
    """Features from a function of one observation that returns a number or a row of numbers.

    No constant is added. Where a plain function may be given as features it stands for this.

    Parameters
    ----------
    function : callable or Batched
        ``function(observation) -> row``; wrapped in `Batched`, ``function(observations) -> rows``, which is faster.

    Examples
    --------
    >>> import numpy as np
    >>> import multireplay as mr
    >>> record = mr.rl.collect("MountainCar-v0", "random", steps=500, seed=0)
    >>> own = mr.rl.Function(lambda state: [1.0, state[0], state[1] ** 2])
    >>> own.bind(record.observation_space, record.observations).dim
    3
    >>> fast = mr.rl.Function(mr.rl.Batched(lambda states: np.hstack([states, states**2])))
    >>> record.buffer(fast + mr.rl.Polynomial(0))["features"].shape
    (500, 5)
    """

    function: Callable[..., Any]

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InputError(f"Function needs a function of an observation, not {self.function!r}")

    def bind(self, space: Any, observations: Array) -> BoundFunction:
        if not len(observations):
            raise InputError("the number of features is found by trying an observation, and there are none")
        return BoundFunction(space, self.function, observations[:1])


class BoundFunction(BoundFeatures):
    """The user's function, with its answers checked."""

    kind = "given"

    def __init__(self, space: Any, function: Callable[..., Any], example: Array) -> None:
        self.space, self.function = space, function
        self.dim = 0
        self.dim = self.rows(example).shape[1]

    def rows(self, observations: Array) -> Matrix:
        if isinstance(self.function, Batched):
            values = self._numbers(self._call(observations))
            values = values[:, None] if values.ndim == 1 else values
        else:
            values = self._numbers([np.ravel(self._call(observation)) for observation in observations])
        if values.ndim != 2 or len(values) != len(observations) or (self.dim and values.shape[1] != self.dim):
            expected = f"({len(observations)}, {self.dim or 'd'})"
            raise InputError(f"the feature function gave an array of shape {values.shape}, not {expected}")
        bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
        if bad.size:
            raise InputError(
                f"the feature function gave {short(values[bad[0]])} for the observation {short(observations[bad[0]])}; "
                "all features must be finite"
            )
        return values

    def _call(self, argument: Any) -> Any:
        try:
            return self.function(argument)
        except Exception as error:
            raise InputError(
                f"the feature function raised {type(error).__name__}: {error}, for an array of shape "
                f"{np.shape(argument)}"
            ) from error

    def _numbers(self, values: Any) -> Matrix:
        try:
            return np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError("the feature function must give as many numbers for every observation") from None
