"""What a diagnosis says in words."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

from multireplay.diagnose import ColumnDiagnosis, Diagnosis, diagnose
from multireplay.diagnose.diagnosis import number

ROWS = 6000
NOISE = np.random.default_rng(11).standard_normal((ROWS, 4))
SLOW = lfilter([1.0], [1.0, -0.9], NOISE[:, 0])
RECORD = {"features": np.column_stack([np.ones(ROWS), NOISE[:, 1], SLOW]), "rewards": NOISE[:, 2]}


def words(text):
    return " ".join(str(text).split())


def test_sentence_of_a_slow_column():
    column = ColumnDiagnosis("features", 8, 18.6, 2.0, 3, 150_000 / 18.6, True, examined=8)
    assert Diagnosis(150_000, (column,)).sentence == (
        "The slowest column (features[3]) has an autocorrelation time of 18.6 steps: 150000 rows carry about "
        "as much information on its mean as 8065 independent ones, and learning in order with a constant "
        "step sees the same neighbourhood for about 19 steps at a time; replay (Multiscale, Dyadic) or a gap "
        "of at least 19 removes most of that."
    )


def test_sentence_of_independent_rows():
    text = diagnose(NOISE).sentence
    assert "close to the 1 of independent rows" in text
    assert "plain SGD is fine" in text
    assert "gap" not in text


def test_sentence_of_repelling_neighbours():
    d = diagnose(lfilter([1.0], [1.0, 0.7], NOISE[:, 0]))
    assert d.tau < 0.4
    assert d.ess > ROWS
    assert "neighbours offset each other" in d.sentence
    assert "rough" not in str(d)


def test_sentence_of_a_record_too_short():
    d = diagnose(SLOW[:500])
    assert not d.reliable
    assert "at least" in d.sentence
    assert "lower bound" in d.sentence
    assert "gap of at least" not in d.sentence
    assert "B is less than 50 tau" in words(d)
    assert "are too few, or too regular" in diagnose(NOISE[:20, 0]).sentence
    assert "are too few, or too regular" in diagnose(np.tile([1.0, -1.0], 500)).sentence


@pytest.mark.parametrize("source", [RECORD, NOISE, SLOW[:30], np.ones(9), np.tile([1.0, 2.0], 99)])
def test_text_is_plain_narrow_and_one_sentence(source):
    d = diagnose(source)
    assert str(d).isascii()
    assert max(map(len, str(d).splitlines())) <= 90
    assert words(d).endswith(d.sentence)
    assert d.sentence.endswith(".")
    assert ". " not in d.sentence


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ({"rate": SLOW}, "Rows repeat each other: on the mean of rate 6000 rows carry about as much information as "),
        ({"rate": SLOW[:500]}, "Rows repeat each other: on the mean of rate 500 rows carry at most about as much "),
        (NOISE, "As far as the columns can tell, rows are all but independent."),
        (NOISE[:20, 0], "20 rows are too few, or too regular, to tell how much they repeat each other."),
        (np.ones(9), "Everything examined is constant, so there is no dependence between rows to measure."),
    ],
)
def test_in_short_there_is_no_advice_and_no_word_that_needs_another(source, wanted):
    text = diagnose(source).in_short
    assert text.startswith(wanted)
    assert "Multiscale" not in text
    assert "autocorrelation" not in text
    if wanted.startswith("Rows repeat"):
        assert text.endswith(f"{number(diagnose(source).ess)} independent ones.")


def test_in_short_a_cycle_is_named():
    day = np.sin(np.arange(ROWS) * 2 * np.pi / 48)
    assert (
        "on the mean of rate, which has a cycle of 48 rows, 6000 rows carry " in diagnose({"rate": day + SLOW}).in_short
    )


def test_names_are_not_taken_for_markup(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    text = str(diagnose({"x[bold red]": SLOW, "a_name_" * 9: SLOW, ":smile:": SLOW}))
    assert "x[bold red]" in words(diagnose({"x[bold red]": SLOW}))
    assert ":smile:" in text
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 90


def test_numbers_have_three_digits_or_are_whole():
    assert [number(value) for value in (18.61, 0.0526, 8064.5, 2.25e10)] == ["18.6", "0.0526", "8064", "2.25e+10"]
