"""The command line: one small file a command."""

from multireplay.cli import compare, demo, diagnose, evaluate, fit, predict, reproduce
from multireplay.cli.app import app

__all__ = ["app", "compare", "demo", "diagnose", "evaluate", "fit", "predict", "reproduce"]
