"""What a stream tells of its answer: intervals of predictions, and whether drift has been looked for."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import multireplay as mr

RNG = np.random.default_rng(5)
FRAME = pd.DataFrame({"temp": RNG.standard_normal(5000), "hum": RNG.standard_normal(5000)})
TARGETS = (RNG.random(5000) < 1 / (1 + np.exp(-FRAME["temp"]))).to_numpy() * 1.0


@pytest.mark.parametrize("link", ["identity", "logistic"])
def test_intervals_of_predictions(link):
    """They are those of the linear score, through the link, around the answer, and near those of `solve`."""
    stream = mr.Stream(mr.GLM(link))
    stream.observe_many(features=FRAME, targets=TARGETS)
    found, rows = stream.result(), FRAME[:5]
    fitted, low, high = found.predict_interval(rows, 0.9)
    ends = found.interval(0.9, of=rows.to_numpy())
    respond = mr.GLM(link).response
    np.testing.assert_allclose([low, high], [respond(ends[:, 0]), respond(ends[:, 1])], rtol=1e-12)
    np.testing.assert_allclose(fitted, respond(rows.to_numpy() @ found.x))
    whole = mr.solve(mr.GLM(link), mr.Buffer(features=FRAME, targets=TARGETS)).predict_interval(rows, 0.9)
    np.testing.assert_allclose([fitted, low, high], whole, atol=0.03)
    turned = found.predict_interval(rows[["hum", "temp"]], 0.9)
    np.testing.assert_allclose(turned, (fitted, low, high), rtol=1e-12)
    assert [len(one) for one in found.predict_interval([1.0, 0.0])] == [1, 1, 1]


def test_what_cannot_be_predicted_is_an_error():
    stream = mr.Stream(mr.GLM())
    stream.observe_many(features=FRAME, targets=TARGETS)
    found = stream.result()
    for rows, message in (
        (FRAME[["temp"]], "lacks 'hum'"),
        ([[1.0, 2.0, 3.0]], "rows of 2 features"),
        ([[1.0, np.nan]], "holds nan at row 0"),
    ):
        with pytest.raises(mr.InputError, match=message):
            found.predict_interval(rows)
    for ask in (found.interval, found.covariance, lambda by: found.test(np.eye(2), by=by)):
        ask(by=mr.inference.BatchMeans())
        with pytest.raises(mr.InputError, match=r"for BatchMeans\(\): others need the record"):
            ask(by=mr.inference.NeweyWest())
    first = mr.Stream(mr.GLM())
    first.observe(features=[1.0], targets=2.0)
    with pytest.raises(mr.InputError, match="no standard errors here: there are too few rows yet"):
        first.result().predict_interval([1.0])


def test_rows_and_a_store_that_are_none(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(mr.InputError, match="store must be the path of a folder, not ''"):
        mr.Stream(mr.GLM(), store="")
    assert not list(tmp_path.iterdir())
    with pytest.raises(mr.InputError, match="follow takes rows as dictionaries of columns by name, not 5"):
        list(mr.Stream(mr.GLM()).follow([5]))


@pytest.mark.parametrize("how", [{}, {"forget": None}, {"window": 1}])
def test_drift_is_not_denied_before_it_is_looked_for(how):
    stream, yet = mr.Stream(mr.GLM(), **how), "Drift is not looked for yet: too few rows have come."
    assert str(stream.drift) == yet
    for rows in (3, 97):
        stream.observe_many(features=FRAME[:rows], targets=TARGETS[:rows])
        assert str(stream.drift) == yet
        again = mr.Stream.from_state(mr.GLM(), stream.state())
        assert str(again.drift) == yet
    stream.observe_many(features=FRAME, targets=TARGETS)
    said = (
        "Drift is not looked for: too few rows are remembered." if "window" in how else "No drift: nothing has changed"
    )
    assert str(stream.drift).startswith(said)
