"""Engines: how a plan is executed, in plain Python for any callable or compiled for speed."""

from multireplay.engine.run import EpochRun, run
from multireplay.engine.steppers import Backend, Stepper, make_stepper

__all__ = ["Backend", "EpochRun", "Stepper", "make_stepper", "run"]
