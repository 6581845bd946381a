"""Every claim has a verdict and finite numbers."""

from __future__ import annotations

import json
import math
import re

import pytest

CLAIMS = [
    ("fig1", "chosen correctly has accelerated iteration complexity"),
    ("fig1", "stops much earlier"),
    ("fig1", "An optimistic CTD"),
    ("fig2a, fig2b", "stationary distribution is uniform"),
    ("fig2a, fig2b", "effective mixing time is of order m/(1 − m)"),
    ("fig2a", "closely emulates an i.i.d. data stream"),
    ("fig2a", "comparable error eventually"),
    ("fig2a", "significantly better iterate-by-iterate performance than TD"),
    ("fig2a", "plateaus at a smaller eventual error"),
    ("fig2b", "marked drop in CTD performance"),
    ("fig2b", "significantly better iterate-by-iterate performance than TD"),
    ("fig2b", "plateaus at a smaller eventual error"),
    ("fig2b", "TD performs the worst"),
    ("fig2a, fig2b", "still performs similarly to the case when m = 0.9"),
    ("fig2a, fig2b", "highly sensitive to the choice of skipping parameter"),
    ("fig2a, fig2b", "consistently approximates i.i.d. performance"),
    ("fig3a", "better than TD and CTD"),
    ("fig3b", "better than TD and CTD"),
    ("theory", "at most the sum of its three terms"),
    ("theory", "step sizes and buffer size can be used"),
    ("theory", "bias term"),
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
        assert re.fullmatch("holds|does not hold|holds only if .{5,}", verdict)
        assert entry["numbers"]
        assert all(math.isfinite(value) for value in entry["numbers"].values()), entry
        assert f"“{entry['claim']}”\n\n→ **{verdict}.** {entry['finding']}" in text
    assert "{" not in text
    assert " nan" not in text
    assert len({(entry["figure"], entry["claim"]) for entry in found}) == len(found)
