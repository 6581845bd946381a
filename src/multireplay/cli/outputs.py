"""Where a command writes: looked at before the work, never what it reads, and what is there already only if asked."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from multireplay.errors import InputError

Force = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Replace output files that are there. Models, pages and pictures of multireplay's own need none.",
    ),
]

MARKS = (
    b'"format": "multireplay model"',
    b'<meta name="generator" content="multireplay',
    b"Software\0multireplay",
    b"<dc:title>multireplay</dc:title>",
)
"""What a model, a page, and pictures as PNG and SVG have in their beginning if this program wrote them."""
_BEGINNING = 4096
_READ = (".npy", ".parquet", ".pq")
"""Endings of files that are read if they are in a folder that is read."""


def check_outputs(force: bool, inputs: Sequence[Path], **outputs: Path | None) -> None:
    """Raise unless every output can be written, by the name of its option: before the work, not after it.

    None may be one of the inputs, or two of them the same, by whatever links; nor may one be there already, unless
    `force` is given or this program wrote it.
    """
    places: dict[str, str] = {}
    for option, path in outputs.items():
        if path is None:
            continue
        asked = f"--{option} {path}"
        for given in inputs:
            if _is_in(path, given):
                raise InputError(f"{asked} would write over {given}, which the command needs; give another name")
        place = os.path.realpath(path)
        if place in places:
            raise InputError(f"--{places[place]} and {asked} are the same file")
        places[place] = option
        if path.is_dir():
            raise InputError(f"{asked} is a folder; give the name of a file")
        if path.exists() and not path.is_file():
            continue  # /dev/stdout, say, which is no file that could be lost
        _check_writable(asked, Path(place))
        if path.exists() and not force and not is_ours(path):
            raise InputError(f"{asked} is there already, and multireplay may not have written it: --force replaces it")


def check_folder(force: bool, out: Path, names: Sequence[str], report: Path | None) -> None:
    """Raise unless a folder can be written to, and files of these names are not there or come from an earlier run.

    The report is none of them.
    """
    check_outputs(force, [out / name for name in names], report=report)
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out} is a file; results are written to a folder")
    _check_writable(f"--out {out}", Path(os.path.realpath(out / "x")))
    if force or (out / "instances").is_dir():
        return
    for name in names:
        if (out / name).exists() and not is_ours(out / name):
            raise InputError(f"{out / name} is there already, and not from an earlier run: --force replaces it")


def is_ours(path: Path) -> bool:
    """Whether a file says that this program wrote it."""
    with path.open("rb") as file:
        beginning = file.read(_BEGINNING)
    return any(mark in beginning for mark in MARKS)


def _is_in(path: Path, given: Path) -> bool:
    """Whether the path is this file, or a part of the record in this folder."""
    if not isinstance(given, Path):  # it is elsewhere
        return False
    if os.path.realpath(path) == os.path.realpath(given):
        return True
    if not given.exists():
        return False
    read = [given, *given.iterdir()] if given.is_dir() else [given]
    if path.exists() and any(os.path.samefile(path, one) for one in read if one.exists()):
        return True
    return path.suffix.lower() in _READ and path.parent.exists() and os.path.samefile(path.parent, given)


def _check_writable(asked: str, place: Path) -> None:
    if place.exists() and not os.access(place, os.W_OK):
        raise InputError(f"{asked} is not to be written: it is protected")
    folder = next(folder for folder in place.parents if folder.exists())
    if not folder.is_dir():
        raise InputError(f"{asked} cannot be written: {folder} is no folder")
    if not place.exists() and not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"{asked} cannot be written: nothing may be written to the folder {folder}")
