"""Replay schemes: which sample is next. A scheme turns a buffer length into a plan of epochs."""

from multireplay.replay.base import PlannedEpoch, Replay
from multireplay.replay.dyadic import Dyadic
from multireplay.replay.interleaved import Interleaved
from multireplay.replay.multiscale import Multiscale
from multireplay.replay.reverse import Reverse
from multireplay.replay.serial import Serial
from multireplay.replay.shuffle import Shuffle
from multireplay.replay.skip import Skip
from multireplay.replay.uniform import Uniform

__all__ = [
    "Dyadic",
    "Interleaved",
    "Multiscale",
    "PlannedEpoch",
    "Replay",
    "Reverse",
    "Serial",
    "Shuffle",
    "Skip",
    "Uniform",
]
