"""The page on tables and pictures that were made elsewhere."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from multireplay.report.blocks import Block, Picture, Plot, Section, Table, Text
from multireplay.report.page import write
from multireplay.report.sections import repeat
from multireplay.show.text import TextTable

SHOWN_ROWS = 40


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
    """Write one self-contained HTML page with tables and pictures.

    Parameters
    ----------
    path : str or path
        Where to write it.
    title, subtitle : str
        Heading of the page, and a line below it.
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

    Returns
    -------
    Path
        The file.

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
    for caption, table in tables.items():
        rows = table.rows if isinstance(table, TextTable) else table
        results.append(Table(rows, caption=caption, shown=SHOWN_ROWS))
    sections = [Section("Results", results)] if results else []
    if pictures:
        sections.append(Section("Pictures", [Picture(source, caption) for caption, source in pictures.items()]))
    sections.append(Section("Repeat", [*repeat.on_the_command_line(command), *repeat.versions()]))
    return write(path, title, sections, subtitle)
