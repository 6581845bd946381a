"""The printed table of a fit."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import multireplay as mr
from multireplay.inference.summary import Summary, coefficient_row


def test_a_long_table_shows_its_beginning_and_its_end_and_says_so():
    rows = [coefficient_row(f"gene {place}", place) for place in range(16_001)]
    text = str(Summary(rows, 0.95, ["60 rows."]))
    assert len(text.splitlines()) == 504
    assert "gene 498 " in text
    assert "gene 499 " not in text
    assert "gene 16000 " in text
    assert "15,501 of 16,001 rows are not shown: .rows has them all.\n60 rows." in text
    assert "gene 500 " in str(Summary(rows[400:900], 0.95, []))


def fitted():
    rng = np.random.default_rng(21)
    A = rng.standard_normal((700, 3))
    return mr.solve(mr.GLM(), mr.Buffer(features=A, targets=A @ [1.0, 0.0, 2.0] + rng.standard_normal(700)))


def test_rows_that_are_made_later_are_those_of_the_call():
    result = fitted()
    at_once, later = result.summary().rows, result.summary()
    result.x[:] = 7.0
    assert later.rows == at_once
    assert later.rows is later.rows


@pytest.mark.parametrize("by", [None, mr.inference.NeweyWest()])
def test_a_pickled_summary_has_its_rows(by):
    summary = fitted().summary(by=by)
    again = pickle.loads(pickle.dumps(summary))
    assert again.rows == summary.rows
    assert str(again) == str(summary)


def test_rows_say_what_intervals_and_errors_do():
    result = fitted()
    for row, error, (low, high) in zip(
        result.summary(0.8).rows, result.standard_error, result.interval(0.8), strict=True
    ):
        assert (row["standard error"], row["low"], row["high"]) == (error, low, high)
        assert row["t"] == row["coefficient"] / error
