"""Every claim has a verdict and finite numbers."""

from __future__ import annotations

import importlib.util
import json
import math
import re
from pathlib import Path

import pytest

from multireplay.bench.reproduction import verdicts_of

PAPER = """
The stationary distribution for this chain is uniform over all states, and the spectral gap of P is
The effective mixing time, τ_M, is therefore of order
With our buffer size, the CTD algorithm thus utilizes 30000 samples in each case due to skipping.
Owing to skipping, the CTD algorithm closely emulates an i.i.d. data stream over the 30000 iterations over which it is \
run, but the error cannot be driven further down because we have exhausted all available samples.
The TD algorithm achieves comparable error eventually, but the decay of its error over iterations is noticeably worse.
The MER algorithm achieves significantly better iterate-by-iterate performance than TD, while plateauing at a smaller \
eventual error than CTD and TD (and closer to the i.i.d. error).
Here, the fixed skipping parameter of 5 for CTD is much smaller than the effective mixing time, which leads to a \
marked drop in CTD performance.
The MER algorithm still performs similarly to the case when m = 0.9, showing that its performance is not as sensitive \
to the mixing parameter. The TD algorithm remains the least effective in this regime.
In summary, CTD's performance is highly sensitive to the choice of skipping parameter, while MER consistently \
approximates i.i.d. performance regardless of the mixing time. As expected, TD performs the worst for both values of m.
show that the MER algorithm consistently achieves performance better than TD and CTD, even when the chain mixes slowly.
This term is typically negligible since it decays exponentially with τ_M.
"""
"""The paper's sentences, word for word, that claims are quoted from."""

CLAIMS = [
    ("fig2a, fig2b", "stationary distribution for this chain is uniform"),
    ("fig2a, fig2b", "is therefore of order” m/(1 − m)"),
    ("fig2a", "closely emulates an i.i.d. data stream"),
    ("fig2a", "comparable error eventually"),
    ("fig2a", "noticeably worse"),
    ("fig2a", "significantly better iterate-by-iterate performance than TD"),
    ("fig2a", "plateauing at a smaller eventual error"),
    ("fig2b", "remains the least effective"),
    ("fig2a, fig2b", "marked drop in CTD performance"),
    ("fig2a, fig2b", "still performs similarly to the case when m = 0.9"),
    ("fig2a, fig2b", "highly sensitive to the choice of skipping parameter"),
    ("fig2a, fig2b", "consistently approximates i.i.d. performance"),
    ("fig2a, fig2b", "TD performs the worst for both values of m"),
    ("fig3a", "better than TD and CTD"),
    ("fig3b", "better than TD and CTD"),
    ("fig3a-bernoulli", "ours: with Bernoulli targets"),
    ("fig3b-bernoulli", "ours: with Bernoulli targets"),
    ("theory", "at most the sum of its three terms"),
    ("theory", "step sizes and buffer size can be used"),
    ("theory", "typically negligible"),
    ("tracking", "Theorem 2"),
    ("tracking", "Corollary 2"),
    ("tracking", "Corollary 4"),
]


@pytest.fixture(scope="module")
def found(everything):
    return json.loads((everything / "claims.json").read_text())


@pytest.mark.parametrize(("figure", "words"), CLAIMS)
def test_every_claim_is_there(found, figure, words):
    assert [entry["claim"] for entry in found if entry["figure"] == figure and words in entry["claim"]]


def test_verdicts_and_numbers(found, everything):
    text = (everything / "claims.md").read_text()
    for entry in found:
        verdict = entry["verdict"]
        assert re.fullmatch("(holds|does not hold|cannot be told from 2 instances)( (only )?(if|with) .{5,})?", verdict)
        assert entry["numbers"]
        assert all(math.isfinite(value) for value in entry["numbers"].values()), entry
        assert f"{entry['claim']}\n\n→ **{verdict}.** {entry['finding']}" in text
    assert "{" not in text
    assert " nan" not in text
    assert len({(entry["figure"], entry["claim"]) for entry in found}) == len(found)


def test_in_quotation_marks_are_the_paper_s_own_words(found):
    quoted = [words for entry in found for words in re.findall("“([^”]*)”", entry["claim"] + entry["finding"])]
    assert len(quoted) > 10
    for words in quoted:
        assert words in PAPER, words


def test_figure_1_is_a_schematic_and_has_no_verdict(found, everything):
    assert (everything / "fig1.png").exists()
    assert not [entry for entry in found if "fig1" in entry["figure"]]


def test_what_is_said_of_one_m_is_tested_there(found):
    for entry in found:
        if "(m = 0.9)" in entry["claim"]:
            assert entry["figure"] == "fig2a"
        if "(m = 0.95)" in entry["claim"]:
            assert entry["figure"] == "fig2b"


def test_tables_of_other_code_have_no_verdicts(copied):
    about = json.loads((copied / "fig3a.json").read_text())
    (copied / "fig3a.json").write_text(json.dumps({**about, "code": "older"}))
    figures = {verdict.figure for verdict in verdicts_of(copied)}
    assert "fig3a" not in figures
    assert "fig3b" in figures


def test_the_page_is_written_from_the_run(copied, tmp_path, monkeypatch):
    place = Path(__file__).parents[2] / "docs" / "build_reproduction.py"
    spec = importlib.util.spec_from_file_location("build_reproduction", place)
    page = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(page)
    monkeypatch.setattr(page, "HERE", tmp_path)
    page.main(copied)
    text = (tmp_path / "reproduction.md").read_text(encoding="utf-8")
    for words in ("‖x*‖ = 1", "x_0 = 0", "standard deviation 0.1", "| fig3a | 2 | 0.0312 to 0.000244 by halves |"):
        assert words in text, words
    assert "paper's setting" not in text
    for words in re.findall("“([^”]*)”", text):
        assert words in PAPER, words
    (copied / "fig2b.csv").unlink()
    with pytest.raises(SystemExit, match="fig2b"):
        page.main(copied)
