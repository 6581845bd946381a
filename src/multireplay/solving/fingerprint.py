"""What a run was asked to do, and on which data, as one short text: two runs that differ anywhere differ in it.

Nothing is taken from a `repr`, which may leave out what matters. Arrays count with all their bytes, functions with
their code, constants, defaults and what they close over, other objects with their class and all that they hold.
"""

from __future__ import annotations

import dataclasses
import hashlib
import sys
import types
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import issparse

from multireplay.buffer.fingerprint import Fingerprint
from multireplay.buffer.foreign import is_foreign
from multireplay.errors import InputError

if TYPE_CHECKING:
    from multireplay.solving.run import Run

STABLE = {"multireplay", "numpy", "scipy", "numba", "torch", "cupy", "jax", "sklearn", *sys.stdlib_module_names}
"""Packages whose functions and classes are known by their names; those of everybody else count with their code."""


MADE = ("__dict__", "__weakref__", "__doc__", "__module__", "__abstractmethods__", "_abc_impl", "__annotations__")
"""What Python itself puts into a class, or does not run."""
REDUCED = ("__reduce__", "__reduce_ex__", "__getstate__")
"""How an object says itself what it is made of."""


def fingerprint(**parts: Any) -> str:
    """One text that stands for all of these values.

    Examples
    --------
    >>> import numpy as np
    >>> from multireplay.solving.fingerprint import fingerprint
    >>> one, other = np.zeros(2000), np.zeros(2000)
    >>> fingerprint(x0=one) == fingerprint(x0=other)
    True
    >>> other[1000] = 1e-300
    >>> fingerprint(x0=one) == fingerprint(x0=other)
    False
    >>> fingerprint(link=lambda z: z + 1) == fingerprint(link=lambda z: z + 2)
    False
    """
    reader = _Reader()
    reader.take(parts)
    return reader.read.text()


def fingerprint_of(run: Run) -> str:
    """What stands for a run and its data: all but threads, progress and memory, which change no bit of the answer."""
    what = {"problem": run.problem, "update": run.update, "replay": run.replay, "averaging": run.averaging}
    how = {"step": run.step, "passes": run.passes, "precision": run.precision, "engine": run.engine}
    where = {"start": run.start, "feasible": run.feasible, "track": run.track, "data": run.buffer.fingerprint()}
    return fingerprint(**what, **how, **where, version=version("multireplay"))


class _Reader:
    """Goes through a value and all that it holds; what it has met before is named by the order in which it was met."""

    def __init__(self) -> None:
        self.read = Fingerprint()
        self.met: dict[int, tuple[int, Any]] = {}

    def write(self, kind: str, text: str) -> None:
        self.read.add_facts([kind, text])

    def take(self, value: Any) -> None:
        """Add one value."""
        if value is None or isinstance(value, bool | int | float | complex | str | bytes | np.generic):
            self.write(type(value).__name__, _exactly(value))
            return
        if id(value) in self.met:
            self.write("again", str(self.met[id(value)][0]))
            return
        self.met[id(value)] = len(self.met), value  # kept, so that no other object gets its identity
        self._take_new(value)

    def _take_new(self, value: Any) -> None:
        if isinstance(value, type):
            self._class(value)
        elif isinstance(value, np.ndarray) and value.dtype.hasobject:
            self._several("objects", value.shape, value.ravel().tolist())
        elif isinstance(value, np.ndarray) or issparse(value) or is_foreign(value):
            self.read.add_array(f"{value.ndim} axes", value if value.ndim else value.reshape(1))
        elif isinstance(value, Mapping):
            self._several("mapping", *(part for key in sorted(value, key=str) for part in (key, value[key])))
        elif isinstance(value, list | tuple):
            self._several(type(value).__name__, *value)
        elif isinstance(value, set | frozenset):
            self._several("set", *sorted(value, key=str))
        elif isinstance(value, types.ModuleType):
            self.write("module", value.__name__)
            file = getattr(value, "__file__", None)
            if file and value.__name__.partition(".")[0] not in STABLE:
                self.write("source", hashlib.sha256(Path(file).read_bytes()).hexdigest())
        elif isinstance(value, types.FunctionType):
            self._function(value)
        elif isinstance(value, types.CodeType):
            self._several("code", value.co_code, value.co_names, value.co_varnames, list(value.co_consts))
        elif isinstance(value, types.MethodType):
            self._several("method", value.__func__, value.__self__)
        elif isinstance(value, types.BuiltinFunctionType | np.ufunc):
            self.write("built-in", f"{getattr(value, '__module__', '')}.{value.__name__}")
        elif hasattr(value, "py_func"):  # compiled by Numba
            self._several("compiled", value.py_func)
        else:
            self._object(value)

    def _several(self, kind: str, *parts: Any) -> None:
        self.write(kind, str(len(parts)))
        for part in parts:
            self.take(part)

    def _function(self, function: types.FunctionType) -> None:
        self.write("function", f"{function.__module__}.{function.__qualname__}")
        named = "<" not in function.__qualname__  # no lambda, and not made by another function
        if named and (function.__module__ or "").partition(".")[0] in STABLE:
            return
        held = [_contents(cell) for cell in function.__closure__ or ()]
        names = [name for name in _names_in(function.__code__) if name in function.__globals__]
        used = {name: function.__globals__[name] for name in names}
        self._several("inside", function.__code__, function.__defaults__, function.__kwdefaults__, held, used)

    def _class(self, kind: type) -> None:
        self.write("class", f"{kind.__module__}.{kind.__qualname__}")
        if kind.__module__.partition(".")[0] in STABLE:
            return
        own = {name: item for name, item in vars(kind).items() if name not in MADE}
        plain = {name: getattr(item, "fget", getattr(item, "__func__", item)) for name, item in own.items()}
        self._several("inside", plain, list(kind.__bases__))

    def _object(self, value: Any) -> None:
        self.take(type(value))
        if dataclasses.is_dataclass(value):
            self._several("fields", {field.name: getattr(value, field.name) for field in dataclasses.fields(value)})
            return
        if not any(method in vars(kind) for kind in type(value).__mro__[:-1] for method in REDUCED):
            self._several("state", getattr(value, "__dict__", {}), _slots(value))
            return
        try:
            reduced = value.__reduce_ex__(2)
        except Exception:  # an object's own code may raise anything
            raise InputError(
                f"checkpoint=... cannot tell whether {type(value).__name__} objects are the same: leave it out"
            ) from None
        self._several("reduced", *(reduced if isinstance(reduced, tuple) else (reduced,)))


def _exactly(value: Any) -> str:
    """A value as text; a number without rounding."""
    return value.hex() if isinstance(value, float | bytes) else str(value)


def _slots(value: Any) -> dict[str, Any]:
    slots = [getattr(kind, "__slots__", ()) for kind in type(value).__mro__]
    names = [name for some in slots for name in ((some,) if isinstance(some, str) else some)]
    return {name: getattr(value, name) for name in names if hasattr(value, name) and name != "__weakref__"}


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing is in it yet
        return None


def _names_in(code: types.CodeType) -> set[str]:
    """All names that a function and the functions inside it look up."""
    inside = (_names_in(constant) for constant in code.co_consts if isinstance(constant, types.CodeType))
    return set(code.co_names).union(*inside)
