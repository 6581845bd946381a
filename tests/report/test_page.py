"""Blocks, sections and the page that is made of them."""

from __future__ import annotations

import base64
import json

import numpy as np
import pytest

import multireplay as mr
from multireplay.errors import InputError
from multireplay.report import (
    Code,
    Entry,
    Fact,
    Facts,
    Heading,
    Picture,
    Plot,
    Section,
    Table,
    Text,
    figures,
    page,
    write,
)
from multireplay.report.blocks import as_cell
from multireplay.show.text import TextTable

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
NASTY = "</script><script>alert('x')</script> & \"quoted\""


def render(*blocks) -> str:
    return page.render("Title", [Section("Only", blocks)])


def test_everything_is_escaped():
    figure = figures.lines([figures.Line([1, 2], [1, 2], NASTY, figures.OURS)], NASTY, "y")
    text = render(
        Text(NASTY), Heading(NASTY), Facts([Fact(NASTY, NASTY, NASTY)]), Entry(NASTY, NASTY, NASTY), Code(NASTY, NASTY),
        Table([{NASTY: NASTY}], caption=NASTY), Plot(figure, NASTY, NASTY), Picture(PIXEL, NASTY),
    )  # fmt: skip
    text += page.render(NASTY, [Section(NASTY, [])], subtitle=NASTY)
    assert "<script>alert" not in text
    assert "</script><script>" not in text.replace("</script>\n<script>", "")
    assert "&lt;/script&gt;&lt;script&gt;alert(&#39;x&#39;)" in text


def test_a_figure_stays_json():
    figure = figures.lines([figures.Line([1, 2], [np.nan, 2], "a\u2028b<c", figures.OURS)], "x", "y")
    text = page.embedded(figure)
    assert "<" not in text
    assert "\u2028" not in text
    assert json.loads(text)["data"][0]["name"] == "a\u2028b&lt;c"


def test_plotly_comes_only_where_it_is_needed():
    assert "plotly.js (basic" not in render(Text("no plot"))
    plot = Plot(figures.lines([figures.Line([1, 2], [1, 2], "a", figures.OURS)], "x", "y"), "A plot")
    assert render(plot, Plot(plot.figure, "Another")).count("plotly.js (basic") == 1
    heat = figures.new()
    heat.add_heatmap(z=[[1.0, 2.0]])
    assert "* plotly.js v" in render(Plot(heat, "Somebody's own figure, which needs the whole library"))


def test_sections_of_the_same_name_have_addresses_of_their_own():
    sections = [Section("A b", []), Section("a B", []), Section("!", []), Section("a b 2", [])]
    assert page.slugs(sections) == ["a-b", "a-b-2", "section", "a-b-2-2"]


@pytest.mark.parametrize(
    ("value", "text", "number"),
    [
        (0.1 + 0.2, "0.3", 0.30000000000000004),
        (150_000, "150,000", 150_000.0),
        (np.float32(0.5), "0.5", 0.5),
        ("1.5e-3 ± 1e-4", "1.5e-3 ± 1e-4", 1.5e-3),
        ("12 %", "12 %", 12.0),
        ("met", "met", None),
        (True, "yes", None),
        (None, "", None),
        (float("nan"), "–", float("nan")),
        ("-", "-", None),
    ],
)
def test_cells(value, text, number):
    cell = as_cell(value)
    assert cell.text == text
    assert cell.number == pytest.approx(number, nan_ok=True) if number is not None else cell.number is None
    if number is not None:
        assert float(str(cell.number)) == pytest.approx(number, rel=0, nan_ok=True)


def test_tables_leave_out_empty_columns_and_know_numbers():
    table = Table([{"a": 1, "b": "", "c": "x"}, {"a": "-", "c": 2}])
    assert table.names == ["a", "c"]
    assert table.numeric == [True, False]
    assert Table.of(TextTable([{"a": 1}], title="Kept")).caption == "Kept"


def test_folders_and_empty_pages_are_refused(tmp_path):
    with pytest.raises(InputError, match="is a folder"):
        write(tmp_path, "Title", [Section("Only", [])])
    with pytest.raises(InputError, match="at least one section"):
        write(tmp_path / "r.html", "Title", [])


def test_pictures_are_part_of_the_page(tmp_path):
    (tmp_path / "a.png").write_bytes(PIXEL)
    assert base64.b64encode(PIXEL).decode() in render(Picture(tmp_path / "a.png", "A pixel"))
    with pytest.raises(InputError, match="no picture"):
        render(Picture(tmp_path / "b.png", "None"))
    with pytest.raises(InputError, match=r"ending in \.png"):
        render(Picture(tmp_path / "a.bmp", "None"))


def test_without_plotly_it_says_what_to_install(monkeypatch, result, tmp_path):
    def fail(name):
        raise ImportError(name)

    monkeypatch.setattr(page, "import_module", fail)
    with pytest.raises(InputError, match="pip install"):
        result.report(tmp_path / "r.html")


def test_importing_the_library_does_not_import_plotly():
    import subprocess
    import sys

    code = "import multireplay, sys; print([m for m in ('plotly', 'jinja2', 'multireplay.bench') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([3e-9, 5.0], ["10<sup>−9</sup>", "10<sup>−7</sup>", "10<sup>−5</sup>", "0.001", "0.1"]),
        ([4.0, 9.0], ["1", "2", "5"]),
        ([0.0, np.nan, np.inf], None),
    ],
)
def test_ticks_of_a_logarithmic_axis(values, ticks):
    assert figures.log_ticks(values).get("ticktext") == ticks


def test_names_in_plots_are_cut_and_are_no_markup():
    assert figures.label("<b>speed</b>") == "&lt;b&gt;speed&lt;/b&gt;"
    assert figures.label("a name that goes on and on and on") == "a name that goes on a…"


def test_a_report_of_tables(tmp_path):
    (tmp_path / "a.png").write_bytes(PIXEL)
    path = mr.report.report_of_tables(
        tmp_path / "t.html", "Tables", {"First": TextTable([{"a": 1.5}]), "Second": [{"b": "x"}]},
        {"A pixel": tmp_path / "a.png"}, notes=["A note."], command="multireplay demo --report t.html",
    )  # fmt: skip
    text = path.read_text(encoding="utf-8")
    for word in ("First", "Second", "A note.", "A pixel", "multireplay demo --report t.html", 'data-value="1.5"'):
        assert word in text


def test_notes_take_several_lines():
    page = render(Table([{"name": "storm", "note": "about 3 independent visits"}]))
    assert '<td class="text note">about 3 independent visits</td>' in page
    assert "td.note { white-space: normal" in page
