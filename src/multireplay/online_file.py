"""The file of a saved online run: numbers, arrays and the names of built-in classes, from which no code is ever run.

A line that says what it is, the checksum of all that follows, and a NumPy archive: the arrays, and one JSON text in
which ``{"array": 3}`` is the third of them and ``{"is": "Ball", "with": …}`` is a built-in object by its arguments.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multireplay import sets, steps
from multireplay._write import completed
from multireplay.averaging import Averaging
from multireplay.buffer.columns import SparseColumn
from multireplay.errors import InputError
from multireplay.problems import GLM, Multinomial, PolicyEvaluation
from multireplay.result import Epoch

_PICKLE = b"multireplay online run, format 1\n"
_FIRST_LINE = b"multireplay online run, format 2\n"
_CONTENT = len(_FIRST_LINE) + hashlib.sha256().digest_size

Arrays = list[NDArray[Any]]


class CannotBeWritten(Exception):
    """A file cannot hold this object: it is of a class that is not built in, or has a part that is not."""


@cache
def _classes() -> dict[str, type]:
    """The classes that a file may name."""
    from multireplay.theory import Constants  # only a schedule holds them, and steps knows no theory either

    found = (
        steps.Constant, steps.PerEpoch, steps.Theorem1, steps.Decaying, steps.Capped, steps.Doubled, Constants,
        Averaging, Epoch,
        sets.WholeSpace, sets.NonNegative, sets.Ball, sets.Box, sets.Halfspace, sets.Simplex, sets.L1Ball, sets.Product,
        GLM, Multinomial, PolicyEvaluation, SparseColumn, dict,
    )  # fmt: skip
    return {each.__name__: each for each in found}


def _arguments_of(value: Any) -> Mapping[str, Any]:
    """What makes an object of a class again."""
    if isinstance(value, GLM | PolicyEvaluation):
        shared = {"constraint": value.constraint, **asdict(value.penalty)}
        if isinstance(value, GLM):
            own = {"lipschitz": value._lipschitz, "check_targets": value.check_targets}
            return {"link": value._link_argument, **own, **shared}
        return {"gamma": value.gamma, "table": value.table, **shared}
    if isinstance(value, Multinomial):
        return {"classes": value.classes, **asdict(value.penalty)}
    if isinstance(value, SparseColumn):
        return {name: getattr(value, name) for name in ("data", "indices", "indptr", "shape")}
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return value if isinstance(value, dict) else vars(value)


def _made(kind: type, arguments: dict[str, Any]) -> Any:
    if kind is sets.Product:
        return sets.Product(*arguments["factors"])
    if kind is SparseColumn:
        shape = arguments.pop("shape")
        return SparseColumn(tuple(arguments.values()), shape)
    return kind(**arguments)


def described(value: Any, arrays: Arrays) -> Any:
    """A value as JSON can hold it; the arrays in it are added to the list. What is the user's own cannot be written."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if isinstance(value, list | tuple):
        return [described(each, arrays) for each in value]
    name = type(value).__name__
    if _classes().get(name) is not type(value):
        raise CannotBeWritten(f"{value!r}")
    return {"is": name, "with": {each: described(part, arrays) for each, part in _arguments_of(value).items()}}


def described_or_named(value: Any, arrays: Arrays) -> Any:
    """As `described`, and what is the user's own by its class and what it says of itself."""
    try:
        return described(value, arrays)
    except CannotBeWritten:
        return {"is": type(value).__name__, "yours": f"{value!r}"}


def made(text: Any, arrays: Arrays) -> Any:
    """The value that was described; the constructors of built-in classes are all that is called."""
    if isinstance(text, list):
        return [made(each, arrays) for each in text]
    if not isinstance(text, dict):
        return text
    if "array" in text:
        return arrays[text["array"]]
    return _made(_classes()[text["is"]], {name: made(value, arrays) for name, value in text["with"].items()})


def write(path: str | os.PathLike[str], arguments: Mapping[str, Any], state: Mapping[str, Any]) -> None:
    """Write a file beside its place, make sure that it is on the disk, and only then give it its name.

    Arguments that cannot be written are only named.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise InputError(f"there is no folder {target.parent} to save {target.name} in")
    arrays: Arrays = []
    text = {"state": described(state, arrays)}
    text["arguments"] = {name: described_or_named(value, arrays) for name, value in arguments.items()}
    archive = io.BytesIO()
    named: dict[str, Any] = {f"{number}": array for number, array in enumerate(arrays)}
    np.savez(archive, text=np.array(json.dumps(text)), **named)
    content = archive.getvalue()
    with completed(target) as file:
        file.writelines((_FIRST_LINE, hashlib.sha256(content).digest(), content))


def read(path: str | os.PathLike[str], given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arguments and the state in a file, with what is given in place of the arguments of these names."""
    content = _content(path)
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            text = json.loads(str(archive["text"]))
            arrays = [archive[f"{number}"] for number in range(len(archive.files) - 1)]
        arguments = {name: _argument(path, name, value, given, arrays) for name, value in text["arguments"].items()}
        return arguments, made(text["state"], arrays)
    except InputError:
        raise
    except Exception as error:  # the checksum is right, so that somebody else wrote this
        raise InputError(f"{path} is not a saved online run: {type(error).__name__}: {error}") from error


def _argument(path: str | os.PathLike[str], name: str, text: Any, given: Mapping[str, Any], arrays: Arrays) -> Any:
    if name in given:
        if name == "problem" and text["is"] != type(given[name]).__name__:
            raise InputError(f"{path} was saved with a {text['is']} as its problem, not {given[name]!r}")
        return given[name]
    if isinstance(text, dict) and "yours" in text:
        own = f"{path} was saved with a {name} of your own, {text['yours']}, which a file cannot hold"
        raise InputError(f"{own}; give it again: mr.Online.load(path, {name}=...)")
    return made(text, arrays)


def _content(path: str | os.PathLike[str]) -> bytes:
    data = Path(path).read_bytes()
    if data.startswith(_PICKLE):
        raise InputError(
            f"{path} was saved by an older version of multireplay as a pickle, which names the modules of that version "
            "and runs code when it is loaded; this version does not load it. Let that version finish the run"
        )
    if not data.startswith(_FIRST_LINE):
        raise InputError(f"{path} is not a saved online run of this version")
    content = data[_CONTENT:]
    if hashlib.sha256(content).digest() != data[len(_FIRST_LINE) : _CONTENT]:
        raise InputError(f"{path} is damaged: its checksum is not that of its content")
    return content
