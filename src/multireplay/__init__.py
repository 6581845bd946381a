"""Learn from one long, dependent record almost as well as from independent samples, without knowing the mixing time.

>>> import numpy as np, multireplay as mr
>>> A = np.random.default_rng(0).standard_normal((1000, 2))
>>> buffer = mr.Buffer(features=A, targets=A @ [1.0, 2.0])    # the ordered record, by column
>>> mr.solve(mr.GLM(), buffer).x.round(2)                      # what to solve, where the samples are
array([1., 2.])

Problems: `GLM`, `Multinomial`, `PolicyEvaluation`, `VariationalInequality`. Orders: `Multiscale` (the paper's),
`Dyadic`, `Interleaved` (one gap, at the speed of reading), `Serial`, `Skip`, `Uniform`, `Shuffle`, `Reverse`. Feasible
sets are in `sets`, step sizes in `steps`, the paper's theory in `theory`, worlds with known answers in `simulate`. `Online`
learns from a stream, `diagnose` says how dependent a record is. `MERRegressor`, `MERClassifier`,
`MERPoissonRegressor` and `MERValueRegressor` are scikit-learn estimators. `rl` evaluates policies in Gymnasium
environments.
"""

import importlib
from typing import TYPE_CHECKING, Any

from multireplay import inference, problems, replay, report, sets, simulate, steps, theory
from multireplay.buffer import Buffer, StoredBuffer
from multireplay.diagnose import Diagnosis, diagnose
from multireplay.errors import (
    AutocorrelationWarning,
    ConvergenceWarning,
    DivergenceWarning,
    InputError,
    MultireplayError,
    OperatorError,
    UncertaintyWarning,
)
from multireplay.online import Online
from multireplay.problems import GLM, Multinomial, PolicyEvaluation, VariationalInequality
from multireplay.replay import Dyadic, Interleaved, Multiscale, Reverse, Serial, Shuffle, Skip, Uniform
from multireplay.result import Epoch, Result, Status
from multireplay.solve import solve
from multireplay.tracking import Curve, Track
from multireplay.updates import Exact, Newton, Plain, RichardsonRomberg, VarianceReduced

if TYPE_CHECKING:
    from multireplay import estimators, rl
    from multireplay.estimators import MERClassifier, MERPoissonRegressor, MERRegressor, MERValueRegressor

__version__ = "0.1.0"

_LAZY = ("estimators", "rl", "torchrl")  # what they need is optional, or takes long to import: only when asked for
_ESTIMATORS = ("MERClassifier", "MERPoissonRegressor", "MERRegressor", "MERValueRegressor")


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return importlib.import_module(f"multireplay.{name}")
    if name in _ESTIMATORS:
        return getattr(importlib.import_module("multireplay.estimators"), name)
    raise AttributeError(f"module 'multireplay' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = [
    "GLM", "AutocorrelationWarning", "Buffer", "ConvergenceWarning", "Curve", "Diagnosis", "DivergenceWarning",
    "Dyadic", "Epoch", "Exact",
    "InputError", "Interleaved", "MERClassifier", "MERPoissonRegressor", "MERRegressor", "MERValueRegressor",
    "Multinomial",
    "MultireplayError", "Multiscale", "Newton", "Online", "OperatorError", "Plain", "PolicyEvaluation", "Result",
    "Reverse", "RichardsonRomberg", "Serial", "Shuffle", "Skip", "Status", "StoredBuffer", "Track",
    "UncertaintyWarning", "Uniform",
    "VarianceReduced", "VariationalInequality", "diagnose", "estimators", "inference", "problems", "replay",
    "report", "rl", "sets", "simulate", "solve", "steps", "theory",
]  # fmt: skip
