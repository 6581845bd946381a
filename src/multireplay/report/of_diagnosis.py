"""The page on a diagnosis."""

from __future__ import annotations

import os
from pathlib import Path

from multireplay.buffer.buffer import Buffer
from multireplay.diagnose import Diagnosis
from multireplay.errors import InputError
from multireplay.report.blocks import Code, Section
from multireplay.report.page import write
from multireplay.report.sections import dependence, repeat
from multireplay.report.wording import plural


def report_of_diagnosis(
    path: str | os.PathLike[str],
    diagnosis: Diagnosis,
    buffer: Buffer | None = None,
    *,
    title: str = "How dependent the record is",
    command: str | None = None,
) -> Path:
    """Write one self-contained HTML page on a diagnosis.

    Parameters
    ----------
    path : str or path
        Where to write it.
    diagnosis : Diagnosis
        What `diagnose` returned.
    buffer : Buffer, optional
        The record it was made from, for its autocorrelation functions: a diagnosis does not keep it.
    title, command : str, optional
        Heading of the page, and the command line that repeats it, if there is one.

    Returns
    -------
    Path
        The file.

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
    again = [
        *repeat.on_the_command_line(command),
        Code("import multireplay as mr\n\nprint(mr.diagnose(buffer))", caption="In Python"),
    ]
    sections = [
        Section("Dependence", dependence.blocks_of(diagnosis, buffer)),
        Section("Repeat", [*again, *repeat.versions()]),
    ]
    return write(path, title, sections, plural(diagnosis.rows, "row"))
