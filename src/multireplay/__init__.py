"""Learn from one long, dependent record almost as well as from independent samples, without knowing the mixing time.

>>> import numpy as np, multireplay as mr
>>> A = np.random.default_rng(0).standard_normal((1000, 2))
>>> buffer = mr.Buffer(features=A, targets=A @ [1.0, 2.0])    # the ordered record, by column
>>> mr.solve(mr.GLM(), buffer).x.round(2)                      # what to solve, where the samples are
array([1., 2.])

Problems: `GLM`, `Multinomial`, `PolicyEvaluation`, `VariationalInequality`. Orders: `Multiscale` (the paper's),
`Dyadic`, `Interleaved` (one gap, at the speed of reading), `Serial`, `Skip`, `Uniform`, `Shuffle`, `Reverse`. Feasible
sets are in `sets`, step sizes in `steps`, the paper's theory in `theory`, worlds with known answers in `simulate`.
`Stream` learns from a stream of any length, `Online` is the paper's own algorithm for one, `diagnose` says how
dependent a record is. `MERRegressor`, `MERClassifier`, `MERPoissonRegressor` and `MERValueRegressor` are scikit-learn
estimators. `rl` evaluates policies in Gymnasium environments.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

TYPE_CHECKING = False  # as in typing, which takes a moment to come in
if TYPE_CHECKING:
    from typing import Any

    from multireplay import (
        estimators,
        inference,
        problems,
        replay,
        report,
        rl,
        sets,
        simulate,
        steps,
        theory,
    )
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
        WorkersError,
    )
    from multireplay.estimators import MERClassifier, MERPoissonRegressor, MERRegressor, MERValueRegressor
    from multireplay.online import Online
    from multireplay.problems import GLM, Multinomial, PolicyEvaluation, VariationalInequality
    from multireplay.replay import Dyadic, Interleaved, Multiscale, Reverse, Serial, Shuffle, Skip, Uniform
    from multireplay.result import Epoch, Result, Status
    from multireplay.solve import solve
    from multireplay.streaming import Stream, StreamResult
    from multireplay.tracking import Curve, Track
    from multireplay.updates import Exact, Newton, Plain, RichardsonRomberg, VarianceReduced

__version__ = "0.1.0"

_NAMES = {
    "buffer": "Buffer StoredBuffer",
    "diagnose": "Diagnosis diagnose",
    "errors": "AutocorrelationWarning ConvergenceWarning DivergenceWarning InputError MultireplayError OperatorError "
    "UncertaintyWarning WorkersError",
    "estimators": "MERClassifier MERPoissonRegressor MERRegressor MERValueRegressor",
    "online": "Online",
    "problems": "GLM Multinomial PolicyEvaluation VariationalInequality",
    "replay": "Dyadic Interleaved Multiscale Reverse Serial Shuffle Skip Uniform",
    "result": "Epoch Result Status",
    "solve": "solve",
    "streaming": "Stream StreamResult",
    "tracking": "Curve Track",
    "updates": "Exact Newton Plain RichardsonRomberg VarianceReduced",
}
_ROOM_OF = {name: room for room, names in _NAMES.items() for name in names.split()}
_ROOMS = (
    "estimators",
    "inference",
    "problems",
    "replay",
    "report",
    "rl",
    "sets",
    "simulate",
    "steps",
    "theory",
    "torchrl",
)


def __getattr__(name: str) -> Any:
    """What is asked for comes in when it is asked for: ``multireplay --help`` need not wait for all of it."""
    if name in _ROOM_OF:
        found = getattr(importlib.import_module(f"multireplay.{_ROOM_OF[name]}"), name)
        globals()[name] = found
        return found
    if name in _ROOMS:
        return importlib.import_module(f"multireplay.{name}")
    raise AttributeError(f"module 'multireplay' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """The package, in which a function keeps its name where the module that it is in has the same one."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _ROOM_OF and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        return importlib.import_module, (self.__name__,)  # as cloudpickle does it for modules of the usual class


sys.modules[__name__].__class__ = _Package

__all__ = [
    "GLM", "AutocorrelationWarning", "Buffer", "ConvergenceWarning", "Curve", "Diagnosis", "DivergenceWarning",
    "Dyadic", "Epoch", "Exact",
    "InputError", "Interleaved", "MERClassifier", "MERPoissonRegressor", "MERRegressor", "MERValueRegressor",
    "Multinomial", "MultireplayError", "Multiscale", "Newton", "Online", "OperatorError", "Plain", "PolicyEvaluation",
    "Result",
    "Reverse", "RichardsonRomberg", "Serial", "Shuffle", "Skip", "Status", "StoredBuffer", "Stream",
    "StreamResult", "Track",
    "UncertaintyWarning", "Uniform",
    "VarianceReduced", "VariationalInequality", "WorkersError", "diagnose", "estimators", "inference", "problems",
    "replay",
    "report", "rl", "sets", "simulate", "solve", "steps", "theory",
]  # fmt: skip
