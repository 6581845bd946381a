"""Features of observations, as small objects that can be put side by side."""

from multireplay.rl.features.base import BoundFeatures, Features, Joined
from multireplay.rl.features.bases import Fourier, Polynomial
from multireplay.rl.features.function import Function
from multireplay.rl.features.last_layer import LastLayer
from multireplay.rl.features.names import as_features, bound_to, features_from_name
from multireplay.rl.features.one_hot import OneHot
from multireplay.rl.features.radial import RBF
from multireplay.rl.features.tiles import TileCoding

__all__ = [
    "RBF",
    "BoundFeatures",
    "Features",
    "Fourier",
    "Function",
    "Joined",
    "LastLayer",
    "OneHot",
    "Polynomial",
    "TileCoding",
    "as_features",
    "bound_to",
    "features_from_name",
]
