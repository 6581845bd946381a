"""The one place where a trajectory and features become the columns of a buffer, and the problem that reads them."""

from __future__ import annotations

import numpy as np

from multireplay.buffer.buffer import Buffer
from multireplay.problems import PolicyEvaluation
from multireplay.rl.features.base import BoundFeatures
from multireplay.rl.features.one_hot import BoundOneHot
from multireplay.rl.trajectory import Trajectory


def buffer_of(record: Trajectory, features: BoundFeatures) -> Buffer:
    """The columns features and next_features, or states and next_states for `OneHot`, with rewards and terminated.

    An observation is the next one of the row before it, so its features are worked out once; only the last
    observations of episodes are extra.
    """
    outcome = {"rewards": record.rewards, "terminated": record.terminated}
    if isinstance(features, BoundOneHot):
        states, following = features.states(record.observations), features.states(record.next_observations)
        return Buffer(states=states, next_states=following, **outcome)
    now = features(record.observations)
    then = np.empty_like(now)
    then[:-1] = now[1:]
    then[record.ends] = features(record.next_observations[record.ends])
    return Buffer(features=now, next_features=then, **outcome)


def problem_of(gamma: float, features: BoundFeatures) -> PolicyEvaluation:
    """The problem that reads those columns."""
    return PolicyEvaluation(gamma, table=features.table if isinstance(features, BoundOneHot) else None)
