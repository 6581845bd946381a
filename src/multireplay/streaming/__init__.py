"""Streams of any length: sums of blocks in bounded memory, answers at every moment, forgetting and drift."""

from multireplay.streaming.answer import Drift, StreamResult
from multireplay.streaming.stream import Stream

__all__ = ["Drift", "Stream", "StreamResult"]
