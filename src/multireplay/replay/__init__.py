"""Replay schemes: which sample is next. A scheme turns a buffer length into a plan of epochs."""

from multireplay.replay.base import PlannedEpoch, Replay
from multireplay.replay.dyadic import Dyadic
from multireplay.replay.multiscale import Interleaved, Multiscale
from multireplay.replay.serial import Reverse, Serial, Skip
from multireplay.replay.shuffle import Shuffle, Uniform

__all__ = [
    "Dyadic", "Interleaved", "Multiscale", "PlannedEpoch", "Replay", "Reverse", "Serial", "Shuffle", "Skip", "Uniform",
]  # fmt: skip
