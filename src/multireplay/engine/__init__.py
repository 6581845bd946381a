"""Engines: how a plan is executed, in plain Python for any callable or compiled for speed."""

from multireplay.engine.chains import run_chains
from multireplay.engine.choice import Backend, as_backend, make_stepper
from multireplay.engine.epoch import EpochRun, Job, Stepping
from multireplay.engine.readings import Itinerary, arrange
from multireplay.engine.stepper import ReducedStepper, Stepper

__all__ = [
    "Backend", "EpochRun", "Itinerary", "Job", "ReducedStepper", "Stepper", "Stepping", "arrange", "as_backend",
    "make_stepper", "run_chains",
]  # fmt: skip
