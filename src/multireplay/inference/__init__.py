"""How well the record knows what it says: standard errors, intervals and tests that hold under dependence.

Estimators of the variance of a mean under dependence are `BatchMeans`, the default, `NeweyWest`, `FixedB`,
`RandomScaling`, `MultiplierBootstrap` and, for memory that falls like a power, `LongMemory`:
``result.interval(by=mr.inference.LongMemory())``. One of one's own is a `LongRun`.
"""

from multireplay.inference.images import Images
from multireplay.inference.longrun import (
    BatchMeans,
    FixedB,
    LongMemory,
    LongRun,
    MultiplierBootstrap,
    NeweyWest,
    RandomScaling,
    Spread,
    WaldTest,
)
from multireplay.inference.summary import Summary
from multireplay.inference.uncertainty import Uncertainty

__all__ = [
    "BatchMeans",
    "FixedB",
    "Images",
    "LongMemory",
    "LongRun",
    "MultiplierBootstrap",
    "NeweyWest",
    "RandomScaling",
    "Spread",
    "Summary",
    "Uncertainty",
    "WaldTest",
]
