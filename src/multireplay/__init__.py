"""Learn from one long, dependent record almost as well as from independent samples, without knowing the mixing time.

>>> import numpy as np, multireplay as mr
>>> A = np.random.default_rng(0).standard_normal((1000, 2))
>>> buffer = mr.Buffer(features=A, targets=A @ [1.0, 2.0])    # the ordered record, by column
>>> mr.solve(mr.GLM(), buffer).x.round(2)                      # what to solve, where the samples are
array([1., 2.])

Problems: `GLM`, `PolicyEvaluation`, `VariationalInequality`. Orders: `Multiscale` (the paper's), `Dyadic`,
`Interleaved` (one gap, at the speed of reading), `Serial`, `Skip`, `Uniform`, `Shuffle`, `Reverse`. Feasible sets are
in `sets`, step sizes in `steps`, the paper's theory in `theory`, worlds with known answers in `simulate`. `Online`
learns from a stream, `diagnose` says how dependent a record is.
"""

from multireplay import problems, replay, report, sets, simulate, steps, theory
from multireplay.buffer import Buffer
from multireplay.diagnose import Diagnosis, diagnose
from multireplay.errors import DivergenceWarning, InputError, MultireplayError, OperatorError
from multireplay.online import Online
from multireplay.problems import GLM, PolicyEvaluation, VariationalInequality
from multireplay.replay import Dyadic, Interleaved, Multiscale, Reverse, Serial, Shuffle, Skip, Uniform
from multireplay.result import Epoch, Result, Status
from multireplay.solve import solve
from multireplay.tracking import Curve, Track
from multireplay.updates import Newton, Plain, RichardsonRomberg, VarianceReduced

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
    "Interleaved",
    "MultireplayError",
    "Multiscale",
    "Newton",
    "Online",
    "OperatorError",
    "Plain",
    "PolicyEvaluation",
    "Result",
    "Reverse",
    "RichardsonRomberg",
    "Serial",
    "Shuffle",
    "Skip",
    "Status",
    "Track",
    "Uniform",
    "VarianceReduced",
    "VariationalInequality",
    "diagnose",
    "problems",
    "replay",
    "report",
    "sets",
    "simulate",
    "solve",
    "steps",
    "theory",
]  # fmt: skip
