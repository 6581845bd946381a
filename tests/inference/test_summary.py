"""The printed table of a fit."""

from __future__ import annotations

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
