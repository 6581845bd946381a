"""Policy evaluation from an environment: collect, learn, and check by Monte Carlo."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from multireplay._check import whole_number
from multireplay.problems import PolicyEvaluation
from multireplay.rl.check import monte_carlo
from multireplay.rl.collect import collect
from multireplay.rl.environments import is_vector, opened, single
from multireplay.rl.estimate import ValueEstimate, estimate, require
from multireplay.rl.recorder import CollectionError, CollectionInterrupted
from multireplay.rl.spaces import Coding


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
    limit: the estimate goes on from the last observation, and the rollouts run without it.

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

    Returns
    -------
    ValueEstimate
        ``estimate.value(observation)``, ``estimate.check``, ``estimate.plot()``; print it for all in words.

    Examples
    --------
    >>> import multireplay as mr
    >>> def with_momentum(state, rng):
    ...     return int(rng.integers(3)) if rng.random() < 0.2 else 2 if state[1] >= 0 else 0
    >>> estimate = mr.rl.evaluate("MountainCar-v0", with_momentum, "rbf", gamma=0.99, steps=20_000, check=50)
    >>> print(estimate.check.table())
     states            number   estimate   Monte Carlo     difference   in s.e.
     ──────────────────────────────────────────────────────────────────────────
     at the start ...
    """
    PolicyEvaluation(gamma)  # raises at once where gamma is no discount factor
    whole_number("check", check, least=0)
    with opened(env) as world:
        space = world.single_observation_space if is_vector(world) else world.observation_space
        require(features, Coding(space).space)
        record = collect(world, policy, steps, seed, progress=progress)
        try:
            found = estimate(record, features, gamma, **options)
            if not check:
                return found
            with single(world) if check_env is None else opened(check_env) as place:
                if place is None:
                    return replace(found, note=NO_PLACE)
                rollouts = monte_carlo(place, policy, found.values, found.gamma, max(check, 2), _another(seed))
        except KeyboardInterrupt:
            raise CollectionInterrupted(
                "interrupted; the steps collected are in the error's trajectory", record
            ) from None
        except CollectionError as error:
            message = f"in the Monte Carlo check {error.__cause__}; the steps collected are in the error's trajectory"
            raise CollectionError(message, record) from error
    return replace(found, check=rollouts)


def _another(seed: int) -> int:
    """A seed that has nothing to do with this one and those beside it, which a vector environment's parts have."""
    return int(np.random.SeedSequence([seed, 2]).generate_state(1)[0]) // 2


NO_PLACE = (
    "No Monte Carlo check: it needs one environment, and this vector environment does not say how to make one. Give "
    "check_env=..., or check=0."
)
