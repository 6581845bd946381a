"""Policy evaluation from an environment: collect a trajectory, learn the value function, check it by Monte Carlo.

>>> import multireplay as mr
>>> estimate = mr.rl.evaluate("FrozenLake-v1", "random", mr.rl.OneHot(), gamma=0.95, steps=20_000, seed=0)
>>> round(estimate.value(14), 2)
0.38

`evaluate` does it all; `collect` or `from_minari` makes a `Trajectory` and `estimate` learns from one. Features:
`OneHot`, `RBF`, `TileCoding`, `Fourier`, `Polynomial`, `Function`, `LastLayer`; ``a + b`` puts them side by side.
Needs the extra: ``pip install 'multireplay[rl]'``.
"""

from multireplay.rl.check import Agreement, Check
from multireplay.rl.collect import CollectionError, CollectionInterrupted, collect
from multireplay.rl.evaluate import ValueEstimate, estimate, evaluate
from multireplay.rl.features.base import BoundFeatures, Features, Joined, OneHot
from multireplay.rl.features.given import Function, LastLayer, features_from_name
from multireplay.rl.features.scaled import RBF, Fourier, Polynomial
from multireplay.rl.features.tiles import TileCoding
from multireplay.rl.policies import Batched, policy_from_name
from multireplay.rl.trajectory import Trajectory, from_minari
from multireplay.rl.uncertain import StartValue

__all__ = [
    "RBF", "Agreement", "Batched", "BoundFeatures", "Check", "CollectionError", "CollectionInterrupted", "Features",
    "Fourier", "Function", "Joined", "LastLayer", "OneHot", "Polynomial", "StartValue", "TileCoding", "Trajectory",
    "ValueEstimate", "collect", "estimate", "evaluate", "features_from_name", "from_minari", "policy_from_name",
]  # fmt: skip
