"""What a result says of its own uncertainty: rows by name, the boundary of a set, and how the fit was made."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest

import multireplay as mr


@pytest.fixture(scope="module")
def frame():
    return pd.DataFrame(np.random.default_rng(0).standard_normal((2000, 2)), columns=["temp", "hum"])


@pytest.fixture(scope="module")
def targets(frame):
    return frame["temp"] - 5 * frame["hum"] + np.random.default_rng(1).standard_normal(2000)


def test_the_columns_of_a_data_frame_are_found_by_name(frame, targets):
    result = mr.solve(mr.GLM(), mr.Buffer(features=frame, targets=targets))
    some, turned = frame[:5], frame[["hum", "temp"]][:5]
    wanted = result.predict_interval(some.to_numpy())
    for rows in (some, turned, pa.Table.from_pandas(turned), polars.DataFrame(turned.to_dict("list"))):
        np.testing.assert_allclose(result.predict_interval(rows), wanted, rtol=1e-12)
    np.testing.assert_array_equal(result.predict_interval(pd.DataFrame(some.to_numpy())), wanted)  # no names to go by
    for rows, message in (
        (some[["temp"]], "they lack 'hum'"),
        (some.assign(wind=1.0), "they have also 'wind'"),
        (some.rename(columns={"hum": "damp"}), "they lack 'hum' and have also 'damp'"),
    ):
        with pytest.raises(mr.InputError, match=message):
            result.predict_interval(rows)
    with pytest.raises(mr.InputError, match=r"'rows' holds nan at row 3 \(counting from 0\), feature 'hum'; all"):
        result.predict_interval(some.assign(hum=some["hum"].where(some.index != 3)))
    nameless = mr.solve(mr.GLM(), mr.Buffer(features=frame.to_numpy(), targets=targets))
    np.testing.assert_array_equal(nameless.predict_interval(some), nameless.predict_interval(some.to_numpy()))


def test_rows_without_an_interval_name_the_set(frame, targets):
    buffer = mr.Buffer(features=frame, targets=targets)
    corner = mr.solve(mr.GLM(), buffer, constraint=mr.sets.Box(0.0, 0.01))
    assert corner.x.tolist() == [0.01, 0.0]
    words = "no interval for 3 rows: all coordinates are on the boundary of Box(lower=0.0, upper=0.01), at a vertex"
    with pytest.warns(mr.UncertaintyWarning, match=f"^{re.escape(words)}$"):
        fitted, low, high = corner.predict_interval(frame[:3])
    assert np.isfinite(fitted).all()
    assert np.isnan([low, high]).all()
    edge = mr.solve(mr.GLM(), buffer, constraint=mr.sets.NonNegative())
    with pytest.warns(mr.UncertaintyWarning, match=r"^no interval for 1 row: on the boundary of NonNegative\(\): hum$"):
        _, low, _ = edge.predict_interval([[0.0, 1.0], [1.0, 1.0]])
    assert np.isnan(low).tolist() == [True, False]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        edge.predict_interval([[1.0, 1.0]])


def test_a_sentence_has_one_full_stop(frame, targets):
    held = mr.solve(mr.GLM(), mr.Buffer(features=frame, targets=targets), holdout=0.2, step=0.01).summary()
    assert held.lines[0].endswith("on the last 20% of the record.")
    assert not any(".." in line for line in held.lines)


def test_a_ridge_is_noted_where_it_moves_the_fit_by_a_tenth_of_a_standard_error(frame, targets):
    buffer = mr.Buffer(features=frame, targets=targets)
    plain = mr.solve(mr.GLM(), buffer)
    for ridge, noted in ((1e-5, False), (1e-2, True)):
        found = mr.solve(mr.GLM(ridge=ridge), buffer)
        moved = np.abs((found.x - plain.x) / plain.standard_error).max()
        assert (moved > 0.1) == noted
        assert any("penalized fit" in note for note in found.uncertainty.notes) == noted


@pytest.mark.parametrize("size", [1e155, 1e-200, 1e-160])
def test_numbers_beyond_squares_have_no_standard_errors(size):
    """They were not numbers, and said to be on the boundary of a set; or 0, with no mark."""
    rng = np.random.default_rng(0)
    A = np.column_stack([np.ones(3000), rng.standard_normal(3000)])
    buffer = mr.Buffer(features=A, targets=size * (A[:, 1] + rng.standard_normal(3000)))
    result = mr.solve(mr.GLM(), buffer)
    assert result.standard_error is None
    text = " ".join(str(result.summary()).split())
    assert "No standard errors: numbers are so large, or so small, that their squares are no numbers" in text
    assert "boundary" not in text
