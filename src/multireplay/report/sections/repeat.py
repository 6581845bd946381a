"""How to repeat a run: the program in Python, the record's fingerprint, the command line, and versions."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import math
import platform
from importlib import metadata
from typing import Any

import numpy as np
from scipy.sparse import issparse

from multireplay.buffer.buffer import Buffer
from multireplay.problems import Problem
from multireplay.report.blocks import Block, Code, Section, TableBlock, Text
from multireplay.report.evidence import Evidence
from multireplay.result import Result
from multireplay.sets import Set, WholeSpace
from multireplay.sets.product import Product
from multireplay.solving.run import Lost, Run

MOST_NUMBERS = 64
"""Longer arrays are not written out: the program asks for them by name."""
MOST_BYTES = 2**31
"""A larger record is not fingerprinted unasked."""
_BLOCK_BYTES = 2**24
PACKAGES = ("numpy", "scipy", "numba", "scikit-learn")


def section(evidence: Evidence, command: str | None = None) -> Section:
    """The tab on a run: its program, and what is random in it."""
    seed = getattr(evidence.run.replay, "seed", None)
    how = "The run uses no random numbers" if seed is None else f"The order comes from the seed {seed}"
    randomness = f"{how}: the same record gives the same answer, up to rounding, on any machine."
    return repeated(command, Code(script(evidence.result, evidence.run), caption="In Python"), Text(randomness))


def repeated(command: str | None, *blocks: Block) -> Section:
    """The tab on how to repeat anything: the command line, if there is one, these blocks, and versions."""
    import multireplay

    found = {"Python": platform.python_version(), "multireplay": multireplay.__version__}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    versions = TableBlock([{"package": name, "version": version} for name, version in found.items()], "Versions")
    lines = [Code(command, caption="On the command line")] if command else []
    return Section("Repeat", [*lines, *blocks, versions])


def fingerprint(buffer: Buffer) -> str:
    """Sixteen letters that tell one record from another: a hash of its columns' names, shapes and values.

    Examples
    --------
    >>> import numpy as np
    >>> import multireplay as mr
    >>> fingerprint(mr.Buffer(features=np.eye(3), targets=[1, 2, 3]))
    '1f9e49f217214a1d'
    """
    digest = hashlib.sha256()
    for name, column in buffer.columns.items():
        for part in _arrays(column):
            kind = part.dtype.newbyteorder("<")
            digest.update(f"{name} {column.shape} {kind.str}".encode())
            rows = max(1, _BLOCK_BYTES // max(1, part[:1].nbytes))
            for start in range(0, len(part), rows):
                digest.update(np.ascontiguousarray(part[start : start + rows], dtype=kind).tobytes())
    return digest.hexdigest()[:16]


def _arrays(column: Any) -> tuple[Any, ...]:
    """What a column is made of: itself, or the three arrays of a sparse one."""
    return (column.data, column.indices, column.indptr) if issparse(column) else (column,)


def script(result: Result, run: Run) -> str:
    """The program. What it cannot write out, such as the record itself, it asks for in a comment."""
    writer = Writer()
    problem = "problem" if run.problem is None else writer.text("problem", run.problem)
    arguments = _arguments(run, writer)
    lines = ["import numpy as np", "", "import multireplay as mr", ""]
    in_memory = isinstance(run.buffer, Buffer)
    lines += ["# Bring your record, in its order, as arrays:" if in_memory else "# Bring your record:"]
    if isinstance(run.buffer, Buffer):
        lines += [f"#   {name}: shape {array.shape}, {array.dtype}" for name, array in run.buffer.columns.items()]
        lines.append(f"buffer = mr.Buffer({', '.join(f'{name}={name}' for name in run.buffer.columns)})")
        if sum(part.nbytes for column in run.buffer.columns.values() for part in _arrays(column)) <= MOST_BYTES:
            lines.append(f'assert mr.report.fingerprint(buffer) == "{fingerprint(run.buffer)}"  # the same record')
    elif run.buffer is not None:
        lines.append(f"#   buffer = mr.Buffer.open(...), {run.buffer!r}")
    else:
        lines.append(f"#   buffer = mr.Buffer(...) of {run.rows} rows")
    if writer.asked:
        lines += ["", "# Bring what could not be written here:"]
        lines += [f"#   {name}: {what}" for name, what in writer.asked.items()]
    lines += ["", f"problem = {problem}", f"result = mr.solve({', '.join(['problem', 'buffer', *arguments])})"]
    shown = ", ".join(repr(float(value)) for value in result.x[:3])
    lines += ["print(result.status)", f"print(result.x)  # begins {shown}"]
    if "np." not in "\n".join(lines[1:]):
        lines = lines[2:]
    return "\n".join(lines)


def _arguments(run: Run, writer: Writer) -> list[str]:
    from multireplay.solve import solve

    defaults = {name: parameter.default for name, parameter in inspect.signature(solve).parameters.items()}
    return [
        f"{name}={writer.text(name, value)}"
        for name, value in run.arguments.items()
        if not _same(value, defaults.get(name, inspect.Parameter.empty))
    ]


def _same(value: Any, default: Any) -> bool:
    comparable = isinstance(value, str | int | float) and type(value) is type(default)
    return value is default or (comparable and bool(value == default))


class Writer:
    """Writes values as Python; what cannot be written is asked for by name."""

    def __init__(self) -> None:
        self.asked: dict[str, str] = {}

    def text(self, name: str, value: Any) -> str:
        """The expression that makes the value again."""
        if value is None or isinstance(value, bool | str):
            return repr(value)
        if isinstance(value, int | float | np.integer | np.floating):
            return _number(value)
        if isinstance(value, Lost):
            return self._ask(name, value)
        if isinstance(value, np.ndarray | list | tuple):
            return self._array(name, value)
        where = _public(type(value))
        if where is None:
            return self._ask(name, value)
        if isinstance(value, Product):
            factors = (f"({self.text('constraint', factor)}, {dim})" for factor, dim in value.factors)
            return f"{where}({', '.join(factors)})"
        if isinstance(value, Problem | Set) or dataclasses.is_dataclass(value):
            return f"{where}({', '.join(self._parameters(value))})"
        return self._ask(name, value)

    def _parameters(self, value: Any) -> list[str]:
        texts = []
        for name, parameter in inspect.signature(type(value)).parameters.items():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                continue
            found = _kept(value, name)
            if _same(found, parameter.default) or (name == "constraint" and isinstance(found, WholeSpace)):
                continue
            texts.append(f"{name}={self.text(name, found)}")
        return texts

    def _array(self, name: str, value: Any) -> str:
        array = np.asarray(value)
        if array.size > MOST_NUMBERS or array.dtype.kind not in "fiub":
            return self._ask(name, f"an array of shape {array.shape}")
        return f"np.array({_nested(array.tolist())})"

    def _ask(self, name: str, value: Any) -> str:
        if callable(value) and getattr(value, "__name__", "").isidentifier():
            name = value.__name__
        self.asked[name] = value if isinstance(value, str) else _described(value)
        return name


def _kept(value: Any, name: str) -> Any:
    """The value of a constructor's parameter, under the names by which problems and sets keep it."""
    kept = vars(value)
    if name in ("ridge", "unpenalized") and "penalty" in kept:
        return getattr(kept["penalty"], name)
    return next((kept[key] for key in (f"_{name}_argument", f"_{name}", name) if key in kept), None)


def _public(kind: type) -> str | None:
    """Where a class is found by those who import multireplay as mr."""
    import multireplay

    rooms = {"mr": multireplay} | {
        f"mr.{room}": getattr(multireplay, room) for room in ("replay", "sets", "steps", "problems", "theory")
    }
    return next(
        (f"{path}.{kind.__name__}" for path, room in rooms.items() if getattr(room, kind.__name__, None) is kind), None
    )


def _number(value: Any) -> str:
    if isinstance(value, int | np.integer):
        return repr(int(value))
    if math.isfinite(value):
        return repr(float(value))
    return "np.nan" if math.isnan(value) else "np.inf" if value > 0 else "-np.inf"


def _nested(values: Any) -> str:
    if not isinstance(values, list):
        return repr(values) if isinstance(values, bool) else _number(values)
    return f"[{', '.join(_nested(value) for value in values)}]"


def _described(value: Any) -> str:
    if callable(value):
        return "your function"
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."
