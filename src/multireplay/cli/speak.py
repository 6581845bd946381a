"""What commands print: results on standard output, as text or as JSON; notes and errors on standard error."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from rich.console import Console
from rich.markup import escape


def complain(message: str) -> None:
    """One red line on standard error."""
    _line(message, "red")


def note(message: str) -> None:
    """One yellow line on standard error."""
    _line(message, "yellow")


def note_report(path: Path | None) -> None:
    """Say where the report is, if there is one."""
    if path is not None:
        note(f"Report: {path}")


def warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """A warning of the library as a note, in the place of `warnings.showwarning`."""
    note(str(message))


def _line(message: str, colour: str) -> None:
    text = " ".join(message.split())
    Console(stderr=True).print(f"[{colour}]{escape(text)}[/{colour}]", soft_wrap=True, highlight=False)


def print_json(value: Any) -> None:
    """One JSON object on standard output; numbers that JSON has no name for are null."""
    print(json.dumps(plain(value), indent=1, ensure_ascii=False, allow_nan=False))


def plain(value: Any) -> Any:
    """The value with plain Python numbers, text, lists and dictionaries only.

    Examples
    --------
    >>> import numpy as np
    >>> from multireplay.cli.speak import plain
    >>> plain({"x": np.array([1.0, np.inf]), "n": np.int64(2)})
    {'x': [1.0, None], 'n': 2}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
