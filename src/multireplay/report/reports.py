"""The pages there are: on a run, on a diagnosis, and on tables and pictures that were made elsewhere."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from multireplay.buffer.buffer import Buffer
from multireplay.diagnose import Diagnosis
from multireplay.errors import InputError
from multireplay.report.blocks import Block, Code, Picture, Plot, Section, TableBlock, Text
from multireplay.report.evidence import gather
from multireplay.report.page import as_file, needed, write
from multireplay.report.sections import comparison, convergence, dependence, fit, repeat, replayed
from multireplay.result import Result
from multireplay.show.text import TextTable, plural

SHOWN_ROWS = 40


def report_of_result(
    path: str | os.PathLike[str],
    result: Result,
    *,
    title: str | None = None,
    command: str | None = None,
    **options: Any,
) -> Path:
    """Write one self-contained HTML page on a run: fit, convergence, replay, dependence, comparison, repeat.

    The first tab has the coefficients with their intervals under dependence, fitted against actual, residuals over time
    and by lag, calibration for probabilities and counts, and how far the intervals are to be relied on. Returns its
    path. It costs a pass over the record for every epoch (its residual) and one for what is fitted, the exact fit, and
    the plain passes it compares with; "auto" leaves out what would be slow, and the page says what and how to have it.

    Parameters
    ----------
    path, result : str or path, Result
        Where to write it, and what `solve` returned.
    title, command, **options
        The heading, the command line that repeats it if there is one, and the rest as in `Result.report`.

    Examples
    --------
    >>> import tempfile
    >>> import multireplay as mr
    >>> process = mr.simulate.paper_mrp(m=0.9)
    >>> result = mr.solve(process.problem, process.buffer(2**12, seed=0), replay=mr.Multiscale())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = mr.report.report_of_result(f"{folder}/run.html", result).read_text(encoding="utf-8")
    >>> "epoch 12, the last" in page
    True
    """
    if not isinstance(result, Result):
        raise InputError(f"result must be what mr.solve returned, not {type(result).__name__}")
    as_file(path)
    sections = sections_of_result(result, command=command, **options)
    problem = "a problem" if result.run.problem is None else repr(result.run.problem)
    about = f"{problem}, {plural(result.run.rows, 'row')}, {plural(len(result.x), 'coordinate')}"
    return write(path, title or "What multireplay found", sections, about)


def sections_of_result(result: Result, *, command: str | None = None, **options: Any) -> list[Section]:
    """The tabs of `report_of_result`, to put on a page with others.

    With ``uncertainty=result.uncertainty.mapped(...)`` they show coefficients in other units, and with a `Shown` those
    of several classes.
    """
    needed("plotly"), needed("jinja2")  # before anything slow
    evidence = gather(result, **options)
    tabs = (fit, convergence, replayed, dependence, comparison)
    return [*(tab.section(evidence) for tab in tabs), repeat.section(evidence, command)]


def report_of_diagnosis(
    path: str | os.PathLike[str],
    diagnosis: Diagnosis,
    buffer: Buffer | None = None,
    *,
    title: str = "How dependent the record is",
    command: str | None = None,
) -> Path:
    """Write one self-contained HTML page on a diagnosis, and return its path.

    Parameters
    ----------
    path, diagnosis : str or path, Diagnosis
        Where to write it, and what `diagnose` returned.
    buffer : Buffer, optional
        The record it was made from, if that is to be made sure of: the page is on the diagnosis, which has all of it.
    title, command : str, optional
        Heading of the page, and the command line that repeats it, if there is one.

    Examples
    --------
    >>> import tempfile
    >>> import multireplay as mr
    >>> buffer = mr.simulate.paper_mrp(m=0.9).buffer(2**12, seed=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     mr.report.report_of_diagnosis(f"{folder}/record.html", mr.diagnose(buffer), buffer).name
    'record.html'
    """
    if not isinstance(diagnosis, Diagnosis):
        raise InputError(f"diagnosis must be what mr.diagnose returned, not {type(diagnosis).__name__}")
    if buffer is not None and (not isinstance(buffer, Buffer) or len(buffer) != diagnosis.rows):
        given = f"{len(buffer)} rows" if isinstance(buffer, Buffer) else f"a {type(buffer).__name__}"
        raise InputError(f"buffer must be the record that was diagnosed, of {diagnosis.rows} rows, not {given}")
    code = Code("import multireplay as mr\n\nprint(mr.diagnose(buffer))", caption="In Python")
    sections = [Section("Dependence", dependence.blocks_of(diagnosis)), repeat.repeated(command, code)]
    return write(path, title, sections, plural(diagnosis.rows, "row"))


def report_of_tables(
    path: str | os.PathLike[str],
    title: str,
    tables: Mapping[str, TextTable | Sequence[Mapping[str, Any]]],
    pictures: Mapping[str, str | Path | bytes] | None = None,
    *,
    plots: Sequence[Plot] = (),
    notes: Sequence[str] = (),
    subtitle: str = "",
    command: str | None = None,
) -> Path:
    """Write one self-contained HTML page with tables and pictures, and return its path.

    Parameters
    ----------
    path, title, subtitle : str
        Where to write it, its heading, and a line below that.
    tables : mapping of str to TextTable or rows
        Tables by caption.
    pictures : mapping of str to path or bytes, optional
        PNG, JPEG or SVG files, or the bytes of a PNG, by caption.
    plots : sequence of Plot
        Interactive plots, which come first.
    notes : sequence of str
        Paragraphs at the top.
    command : str, optional
        The command line that repeats it.

    Examples
    --------
    >>> import tempfile
    >>> import multireplay as mr
    >>> errors = [{"method": "serial", "error": 0.5}, {"method": "MER", "error": 0.1}]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     mr.report.report_of_tables(f"{folder}/t.html", "Two methods", {"Errors": errors}).name
    't.html'
    """
    results: list[Block] = [Text(note, tone="lead" if index == 0 else "plain") for index, note in enumerate(notes)]
    results += plots
    rows = {caption: table.rows if isinstance(table, TextTable) else table for caption, table in tables.items()}
    results += [TableBlock(found, caption=caption, shown=SHOWN_ROWS) for caption, found in rows.items()]
    sections = [Section("Results", results)] if results else []
    if pictures:
        sections.append(Section("Pictures", [Picture(source, caption) for caption, source in pictures.items()]))
    return write(path, title, [*sections, repeat.repeated(command)], subtitle)
