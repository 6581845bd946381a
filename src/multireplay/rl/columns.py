"""The one place where a trajectory and features become the columns of a buffer, and the problem that reads them."""

from __future__ import annotations

import numpy as np

from multireplay.buffer import Buffer
from multireplay.problems import PolicyEvaluation
from multireplay.rl.features.base import BoundFeatures
from multireplay.rl.trajectory import Trajectory


def buffer_of(record: Trajectory, features: BoundFeatures) -> Buffer:
    """The columns features, next_features, rewards and terminated.

    An observation is the next one of the row before it, so its features are worked out once; only the last
    observations of episodes are extra.

    TABLE FORM: for `BoundOneHot` this is where ``states=features.states(record.observations)`` and
    ``next_states=features.states(record.next_observations)`` would be the columns in place of features and
    next_features, with the identity of ``features.dim`` rows as the table of `problem_of`. Nothing else has to change.
    """
    now = features(record.observations)
    then = np.empty_like(now)
    then[:-1] = now[1:]
    then[record.ends] = features(record.next_observations[record.ends])
    return Buffer(features=now, next_features=then, rewards=record.rewards, terminated=record.terminated)


def problem_of(gamma: float, features: BoundFeatures) -> PolicyEvaluation:
    """The problem that reads those columns."""
    return PolicyEvaluation(gamma)
