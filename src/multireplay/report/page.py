"""Writing a page: the template, one copy of plotly.js, and the plots as data.

assets/plotly-basic.min.js is plotly.js 4.1.1 (MIT, Plotly, Inc.), its "basic" bundle as the npm package
plotly.js-basic-dist-min has it: a quarter of the whole library, with all that the pages of this package draw.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

from multireplay._write import save_text
from multireplay.errors import InputError
from multireplay.report.blocks import Plot, Section

BASIC = frozenset({"scatter", "bar", "pie"})
"""Kinds of traces that the basic bundle can draw."""


def write(path: str | os.PathLike[str], title: str, sections: Sequence[Section], subtitle: str = "") -> Path:
    """Write one HTML page with a tab a section, and return its path. It asks nothing of the network.

    Parameters
    ----------
    path : str or path
        The file; folders on the way to it are made.
    title, subtitle : str
        Heading of the page, and a line below it.
    sections : sequence of Section
        Its tabs, from left to right.

    Examples
    --------
    >>> import tempfile
    >>> from multireplay.report import Section, Table, Text, write
    >>> section = Section("Answer", [Text("It is known."), Table([{"x": 42.0}])])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     "It is known." in write(f"{folder}/page.html", "A page", [section]).read_text(encoding="utf-8")
    True
    """
    if not sections:
        raise InputError("a report needs at least one section")
    path = as_file(path)
    save_text(path, render(title, sections, subtitle))
    return path


def as_file(path: str | os.PathLike[str]) -> Path:
    """Where a report may be written, or an error that says why not: to be asked before anything slow."""
    needed("plotly"), needed("jinja2")
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder; a report is a file, for example {path / 'report.html'}")
    return path


def render(title: str, sections: Sequence[Section], subtitle: str = "", refresh: float = 0.0) -> str:
    """The page as text; a browser loads it again every `refresh` seconds, if that is not 0."""
    import multireplay

    jinja2, verbatim = needed("jinja2"), needed("markupsafe").Markup
    assets = jinja2.PackageLoader("multireplay.report", "assets")
    environment = jinja2.Environment(loader=assets, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    plots = [plot for section in sections for plot in section.plots]
    page: str = environment.get_template("page.html.j2").render(
        title=title,
        subtitle=subtitle,
        refresh=refresh,
        sections=list(zip(slugs(sections), sections, strict=True)),
        plotly=verbatim(_plotly_js(plots)) if plots else "",
        next_number=count().__next__,
        figure=lambda plot: verbatim(embedded(plot.figure)),
        version=multireplay.__version__,
        written=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
    )
    return page


def _plotly_js(plots: Sequence[Plot]) -> str:
    """The part of plotly.js that draws these plots: all of it only where somebody's own figure needs more."""
    kinds = {trace.type for plot in plots for trace in plot.figure.data}
    if kinds <= BASIC:
        return (Path(__file__).parent / "assets" / "plotly-basic.min.js").read_text(encoding="utf-8")
    return str(needed("plotly.offline").get_plotlyjs())


def slugs(sections: Sequence[Section]) -> list[str]:
    """The names of the sections in the page's address, each only once."""
    found: list[str] = []
    for section in sections:
        slug, number = section.slug, 2
        while slug in found:
            slug, number = f"{section.slug}-{number}", number + 1
        found.append(slug)
    return found


def embedded(figure: Any) -> str:
    """A figure as JSON that can stand in a script element: nothing in it can end the element."""
    text = json.dumps(json.loads(figure.to_json()), separators=(",", ":"), ensure_ascii=False)  # shorter than Plotly's
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def needed(module: str) -> Any:
    """A module that only reports need, imported when one is written."""
    try:
        return import_module(module)
    except ImportError as missing:
        raise InputError("a report needs plotly and jinja2: pip install plotly jinja2") from missing
