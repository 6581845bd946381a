"""More than 512 coordinates: a window of rows, fitted anew at geometrically spaced moments."""

from __future__ import annotations

import numpy as np
import pytest
from streaming.worlds import exact, fed, part, regression, same

import multireplay as mr
from multireplay.streaming import wide

WIDTH = 600


@pytest.fixture(scope="module")
def rows():
    return regression(0, 1500, width=WIDTH)[0]


def test_it_is_the_exact_fit_of_the_window_at_its_last_fit(rows):
    stream = fed(mr.Stream(mr.GLM()), rows)
    result = stream.result()
    assert stream.position == 1500
    assert 1024 <= result.rows <= 1500
    assert f"The fit of {result.rows} rows" in str(result.status)
    assert "600 coordinates are too many" in str(result.status)
    assert "not looked for" in str(stream.drift)
    assert np.allclose(stream.x, exact(mr.GLM(), rows, result.rows), atol=1e-6)
    assert np.allclose(stream.predict(rows["features"][:3]), rows["features"][:3] @ stream.x)
    with pytest.raises(mr.InputError, match="too many coordinates"):
        result.interval()


def test_how_rows_come_makes_no_difference_and_a_state_goes_on(rows):
    rows = part(rows, 0, 700)
    whole = fed(mr.Stream(mr.GLM()), rows)
    cut = fed(mr.Stream(mr.GLM()), part(rows, 0, 333), cuts=(1, 2, 50, 300))
    cut = mr.Stream.from_state(mr.GLM(), cut.state())
    for row in range(333, 700):
        cut.observe(features=rows["features"][row], targets=rows["targets"][row])
    assert same(whole.state(), cut.state())


def test_the_window_is_bounded(rows, monkeypatch):
    monkeypatch.setattr(wide, "NUMBERS", 601 * 512)
    rows = part(rows, 0, 900)
    for stream in (mr.Stream(mr.GLM()), mr.Stream(mr.GLM(), window=512)):
        fed(stream, rows)
        result, last = stream.result(), stream._learner.fitted
        assert result.rows <= 512
        fit = mr.GLM().fit_exactly(mr.Buffer(**part(rows, last - result.rows, last)))
        assert np.allclose(stream.x @ rows["features"][last - 1], fit @ rows["features"][last - 1], atol=1e-5)


def test_a_stream_that_grows_too_wide_says_so():
    state = fed(mr.Stream(mr.GLM()), part(regression(1, 40, width=4)[0], 0, 40)).state()
    state["open.column.features"] = np.zeros((len(state["open.column.features"]), WIDTH))
    with pytest.raises(mr.InputError, match="more than 512 coordinates"):
        mr.Stream.from_state(mr.GLM(), state)
