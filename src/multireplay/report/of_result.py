"""The page on one run of `solve`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from multireplay.buffer.buffer import Buffer
from multireplay.buffer.disk import StoredBuffer
from multireplay.errors import InputError
from multireplay.report.blocks import Section
from multireplay.report.gather import gather
from multireplay.report.page import as_file, needed, write
from multireplay.report.sections import answer, comparison, convergence, dependence, repeat, replayed
from multireplay.report.wording import plural
from multireplay.result import Result


def report_of_result(
    path: str | os.PathLike[str],
    result: Result,
    *,
    exact: bool | Literal["auto"] = "auto",
    rivals: bool | Literal["auto"] = "auto",
    names: Sequence[str] | None = None,
    buffer: Buffer | StoredBuffer | None = None,
    title: str | None = None,
    command: str | None = None,
) -> Path:
    """Write one self-contained HTML page on a run: answer, convergence, replay, dependence, comparison, repeat.

    It costs a pass over the record for every epoch (its residual), the exact fit, and the plain passes it compares
    with; "auto" leaves out what would be slow, and the page says what and how to have it.

    Parameters
    ----------
    path : str or path
        Where to write it.
    result : Result
        What `solve` returned.
    exact : bool or "auto"
        Whether to work out the exact fit. "auto": where d is at most 512 and rows · d² at most 5e9.
    rivals : bool or "auto"
        Whether to run one pass in order and one shuffled, and the run itself once more to follow it on its way. "auto":
        unless a pass takes more than 20 seconds.
    names : sequence of str, optional
        Names of the coordinates of x.
    buffer : Buffer, optional
        The record, for a result that was pickled since.
    title, command : str, optional
        Heading of the page, and the command line that repeats the run, if there is one.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> import multireplay as mr
    >>> process = mr.simulate.paper_mrp(m=0.9)
    >>> result = mr.solve(process.problem, process.buffer(2**12, seed=0), replay=mr.Multiscale())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = mr.report.report_of_result(f"{folder}/run.html", result).read_text(encoding="utf-8")
    >>> str(result.status) in page
    True
    """
    if not isinstance(result, Result):
        raise InputError(f"result must be what mr.solve returned, not {type(result).__name__}")
    as_file(path)
    sections = sections_of_result(result, exact=exact, rivals=rivals, names=names, buffer=buffer, command=command)
    return write(path, title or "What multireplay found", sections, _subtitle(result))


def _subtitle(result: Result) -> str:
    assert result.recipe is not None
    problem = "a problem" if result.recipe.problem is None else repr(result.recipe.problem)
    return f"{problem}, {plural(result.recipe.rows, 'row')}, {plural(len(result.x), 'coordinate')}"


def sections_of_result(
    result: Result,
    *,
    exact: bool | Literal["auto"] = "auto",
    rivals: bool | Literal["auto"] = "auto",
    names: Sequence[str] | None = None,
    buffer: Buffer | StoredBuffer | None = None,
    command: str | None = None,
) -> list[Section]:
    """The tabs of `report_of_result`, to put on a page with others."""
    needed("plotly"), needed("jinja2")  # before anything slow
    evidence = gather(result, exact, rivals, names, buffer)
    return [
        answer.section(evidence),
        convergence.section(evidence),
        replayed.section(evidence),
        dependence.section(evidence),
        comparison.section(evidence),
        repeat.section(evidence, command),
    ]
