"""The packages of the extra `rl`, imported only where they are needed."""

from __future__ import annotations

import importlib
from typing import Any

from multireplay.errors import InputError


def gymnasium() -> Any:
    """Gymnasium, or an error that says how to get it."""
    return _require("gymnasium", "Gymnasium")


def minari() -> Any:
    """Minari, or an error that says how to get it."""
    return _require("minari", "Minari")


def _require(module: str, name: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        if error.name is not None and error.name.partition(".")[0] != module:
            raise  # it is there, and something that it needs is not
        raise InputError(f"mr.rl needs {name}: pip install 'multireplay[rl]'") from None
