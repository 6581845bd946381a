"""The variance of the mean of dependent numbers, apart from any model: one file for each way to estimate it."""

from multireplay.inference.longrun.base import LongRun, Spread, WaldTest
from multireplay.inference.longrun.batch_means import BatchMeans
from multireplay.inference.longrun.bootstrap import MultiplierBootstrap
from multireplay.inference.longrun.fixed_b import FixedB
from multireplay.inference.longrun.long_memory import LongMemory
from multireplay.inference.longrun.newey_west import NeweyWest
from multireplay.inference.longrun.random_scaling import RandomScaling

__all__ = [
    "BatchMeans",
    "FixedB",
    "LongMemory",
    "LongRun",
    "MultiplierBootstrap",
    "NeweyWest",
    "RandomScaling",
    "Spread",
    "WaldTest",
]
