"""Learn from one long, dependent record almost as well as from independent samples, without knowing the mixing time."""

from multireplay import problems, replay, sets, simulate, steps, theory
from multireplay.buffer import Buffer
from multireplay.diagnose import Diagnosis, diagnose
from multireplay.errors import DivergenceWarning, InputError, MultireplayError, OperatorError
from multireplay.online import Online
from multireplay.problems import GLM, PolicyEvaluation, VariationalInequality
from multireplay.replay import Dyadic, Multiscale, Reverse, Serial, Shuffle, Skip, Uniform
from multireplay.result import Epoch, Result, Status
from multireplay.solve import solve
from multireplay.tracking import Curve, Track

__version__ = "0.1.0"

__all__ = [
    "GLM",
    "Buffer",
    "Curve",
    "Diagnosis",
    "DivergenceWarning",
    "Dyadic",
    "Epoch",
    "InputError",
    "MultireplayError",
    "Multiscale",
    "Online",
    "OperatorError",
    "PolicyEvaluation",
    "Result",
    "Reverse",
    "Serial",
    "Shuffle",
    "Skip",
    "Status",
    "Track",
    "Uniform",
    "VariationalInequality",
    "diagnose",
    "problems",
    "replay",
    "sets",
    "simulate",
    "solve",
    "steps",
    "theory",
]  # fmt: skip
