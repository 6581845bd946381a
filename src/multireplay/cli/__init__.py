"""The command line: a small file a command, and one for the three of the bench."""

from multireplay.cli import bench, diagnose, evaluate, fit, inspect, predict, watch
from multireplay.cli.app import app

__all__ = ["app", "bench", "diagnose", "evaluate", "fit", "inspect", "predict", "watch"]
