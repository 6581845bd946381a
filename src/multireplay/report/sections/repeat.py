"""How to repeat a run: the program in Python, the record's fingerprint, the command line, and versions."""

from __future__ import annotations

import inspect
import platform
import textwrap
from collections.abc import Callable, Mapping
from importlib import metadata
from typing import Any

import numpy as np

from multireplay.buffer.buffer import Buffer
from multireplay.buffer.columns import size_of
from multireplay.report.blocks import Block, Code, Section, TableBlock, Text
from multireplay.report.evidence import Evidence
from multireplay.result import Result
from multireplay.sets import Product, WholeSpace
from multireplay.solve import solve
from multireplay.solving.run import Lost, Run

WRITTEN = 20
"""Names of features that are written out in the program; more have to be brought."""


def section(evidence: Evidence, command: str | None = None) -> Section:
    """The tab on a run: its program, and what is random in it."""
    seed = getattr(evidence.run.replay, "seed", None)
    how = "The run uses no random numbers" if seed is None else f"The order comes from the seed {seed}"
    randomness = f"{how}: the same record gives the same answer, up to rounding, on any machine."
    program = Code(script(evidence.result, evidence.run), caption="In Python")
    units = [Text(f"The program repeats the run behind the model. {evidence.units}")] if evidence.units else []
    return repeated(command, *units, program, Text(randomness))


def repeated(command: str | None, *blocks: Block) -> Section:
    """The tab on how to repeat anything: the command line, if there is one, these blocks, and versions."""
    import multireplay

    found = {"Python": platform.python_version(), "multireplay": multireplay.__version__}
    found |= {name: metadata.version(name) for name in ("numpy", "scipy", "numba", "scikit-learn")}
    versions = TableBlock([{"package": name, "version": version} for name, version in found.items()], "Versions")
    lines = [Code(command, caption="On the command line")] if command else []
    return Section("Repeat", [*lines, *blocks, versions])


def fingerprint(buffer: Buffer) -> str:
    """Letters that tell one record from another: see `Buffer.fingerprint`.

    Examples
    --------
    >>> import multireplay as mr
    >>> one, other = mr.Buffer(targets=[1, 2, 3]), mr.Buffer(targets=[1, 3, 2])
    >>> mr.report.fingerprint(one) == mr.report.fingerprint(other)
    False
    """
    return buffer.fingerprint()


def script(result: Result, run: Run) -> str:
    """The program. What it cannot write out, such as the record itself, it asks for in a comment."""
    writer = Writer()
    problem = "problem" if run.problem is None else writer.text("problem", run.problem)
    call = ", ".join(["problem", "buffer", *writer.arguments(solve, run.arguments)])
    lines = ["import multireplay as mr", ""]
    if isinstance(run.buffer, Buffer):
        columns = run.buffer.columns
        lines.append("# Bring your record, in its order, as arrays:")
        lines += [f"#   {name}: shape {array.shape}, {array.dtype}" for name, array in columns.items()]
        given, names = [f"{name}={name}" for name in columns], run.buffer.feature_names
        if names is not None:
            given.append(f"names={list(names) if len(names) <= WRITTEN else 'names'}")
            lines += [f"#   names: those of the {len(names)} features"] * (len(names) > WRITTEN)
        lines.append(f"buffer = mr.Buffer({', '.join(given)})")
        if sum(map(size_of, columns.values())) <= 2**31:  # a larger record is not read once more unasked
            lines.append(f'assert mr.report.fingerprint(buffer) == "{fingerprint(run.buffer)}"  # the same record')
    else:
        opened = f"mr.Buffer(...) of {run.rows} rows" if run.buffer is None else f"mr.Buffer.open(...), {run.buffer!r}"
        lines += ["# Bring your record:", f"#   buffer = {opened}"]
    if writer.asked:
        lines += ["", "# Bring what could not be written here:"]
        lines += [f"#   {name}: {what}" for name, what in writer.asked.items()]
    lines += ["", f"problem = {problem}", f"result = mr.solve({call})", "print(result.status)"]
    lines.append(f"print(result.x)  # begins {', '.join(repr(float(value)) for value in result.x[:3])}")
    program = "\n".join(lines)
    return f"import numpy as np\n\n{program}" if "np." in program else program


class Writer:
    """Writes values as Python; what cannot be written is asked for by name."""

    def __init__(self) -> None:
        self.asked: dict[str, str] = {}

    def text(self, name: str, value: Any) -> str:
        """The expression that makes the value again."""
        if value is None or isinstance(value, str):
            return repr(value)
        if isinstance(value, int | float | np.generic):
            return _numbers(value)
        if isinstance(value, np.ndarray | list | tuple) and not isinstance(value, Lost):
            array = np.asarray(value)
            if array.size <= 64 and array.dtype.kind in "fiub":
                return f"np.array({_numbers(array)})"
            return self._ask(name, value, f"an array of shape {array.shape}")
        where = _public(type(value))
        if where is None:
            return self._ask(name, value, textwrap.shorten(repr(value), 80, placeholder="..."))
        if isinstance(value, Product):
            given = [f"({self.text('constraint', factor)}, {dim})" for factor, dim in value.factors]
        else:
            kept = {parameter: _kept(value, parameter) for parameter in inspect.signature(type(value)).parameters}
            given = self.arguments(type(value), kept)
        return f"{where}({', '.join(given)})"

    def arguments(self, function: Callable[..., Any], given: Mapping[str, Any]) -> list[str]:
        """The arguments of a call, but for those that are the defaults."""
        parameters = inspect.signature(function).parameters
        return [
            f"{name}={self.text(name, value)}"
            for name, value in given.items()
            if not _same(value, parameters[name].default)
        ]

    def _ask(self, name: str, value: Any, what: str) -> str:
        if callable(value):
            own = getattr(value, "__name__", "")
            name, what = own if own.isidentifier() else name, "your function"
        self.asked[name] = what
        return name


def _same(value: Any, default: Any) -> bool:
    comparable = isinstance(value, str | int | float) and type(value) is type(default)
    return value is default or (comparable and bool(value == default))


def _kept(value: Any, name: str) -> Any:
    """The value of a constructor's parameter, under the names by which problems and sets keep it."""
    kept = vars(value)
    if name in ("ridge", "unpenalized") and "penalty" in kept:
        return getattr(kept["penalty"], name)
    found = next((kept[key] for key in (f"_{name}_argument", f"_{name}", name) if key in kept), None)
    return None if name == "constraint" and isinstance(found, WholeSpace) else found


def _public(kind: type) -> str | None:
    """Where a class is found by those who import multireplay as mr."""
    import multireplay as mr

    rooms = {"mr": mr, "mr.sets": mr.sets, "mr.steps": mr.steps, "mr.theory": mr.theory}
    places = (f"{path}.{kind.__name__}" for path, room in rooms.items() if getattr(room, kind.__name__, None) is kind)
    return next(places, None)


def _numbers(values: Any) -> str:
    """Numbers and lists of them as Python writes them, with NumPy's names for those that are not finite."""
    return repr(np.asarray(values).tolist()).replace("inf", "np.inf").replace("nan", "np.nan")
