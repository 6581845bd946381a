"""Engines: how a plan is executed, in plain Python for any callable or compiled for speed."""

from multireplay.engine.choice import make_stepper
from multireplay.engine.kinds import is_too_large, size_of_iterates
from multireplay.engine.passes import (
    can_be_resumed,
    crowded,
    fit_together,
    in_one_pass,
    in_order_alone,
    passes_in_parts,
    readings_in_order,
    runs_in_order,
)
from multireplay.engine.plans import Job, run
from multireplay.engine.run import EpochRun
from multireplay.engine.steppers import Backend, Stepper, as_backend

__all__ = [
    "Backend",
    "EpochRun",
    "Job",
    "Stepper",
    "as_backend",
    "can_be_resumed",
    "crowded",
    "fit_together",
    "in_one_pass",
    "in_order_alone",
    "is_too_large",
    "make_stepper",
    "passes_in_parts",
    "readings_in_order",
    "run",
    "runs_in_order",
    "size_of_iterates",
]
