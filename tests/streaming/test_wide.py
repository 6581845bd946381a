"""More than 512 coordinates: a window of rows, of which `multireplay.solve` makes the answer."""

from __future__ import annotations

import numpy as np
import pytest
from streaming.worlds import exact, fed, part, regression, same, sticky, transitions

import multireplay as mr
from multireplay.streaming import stream as streams
from multireplay.streaming import wide

WIDTH = 600


@pytest.fixture(scope="module")
def rows():
    return regression(0, 1500, width=WIDTH)[0]


@pytest.fixture
def narrow(monkeypatch):
    """Streams of five coordinates or more are wide."""
    monkeypatch.setattr(streams, "WIDEST", 4)
    monkeypatch.setattr(wide, "WIDEST", 4)


def test_it_is_the_exact_fit_of_everything_at_every_moment(rows):
    stream, before = mr.Stream(mr.GLM()), 0
    for position in (2, 700, 1301, 1500):
        stream.observe_many(part(rows, before, position))
        before = position
        assert np.allclose(stream.x, exact(mr.GLM(), rows, position), atol=1e-6)
        assert stream.result().rows == stream.position == position
    result, record = stream.result(), mr.Buffer(**rows)
    assert "The fit of 1500 rows: of 600 coordinates a window of rows is kept" in str(result.status)
    whole = mr.solve(mr.GLM(), record, holdout=None)
    assert np.allclose(result.interval(), whole.interval(), rtol=1e-4, atol=1e-6)
    assert result.summary().rows[0]["effective"] == pytest.approx(whole.summary().rows[0]["effective"], rel=0.1)


PROBLEMS = {
    "least squares": (mr.GLM(), lambda rows: regression(0, rows, width=6)[0]),
    "ridge": (mr.GLM(ridge=0.1, unpenalized=1), lambda rows: regression(1, rows, rho=0.9, width=6)[0]),
    "logistic": (mr.GLM("logistic"), lambda rows: regression(2, rows, "logistic", width=6)[0]),
    "Poisson": (mr.GLM("exp"), lambda rows: regression(3, rows, "exp", rho=0.9, width=6)[0]),
    "in a ball": (mr.GLM(constraint=mr.sets.Ball(0.3)), lambda rows: regression(4, rows, width=6)[0]),
    "values": (mr.PolicyEvaluation(0.8), lambda rows: transitions(4, rows, width=6)),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_problem(name, narrow):
    """Its answer is the exact fit of everything; what predicts is near it; a state goes on with the same bits."""
    problem, columns = PROBLEMS[name][0], PROBLEMS[name][1](2500)
    stream = fed(mr.Stream(problem), part(columns, 0, 1000), cuts=(1, 3, 64, 500))
    stream = mr.Stream.from_state(problem, stream.state())
    for row in range(1000, 1300):
        stream.observe(**{name: column[row] for name, column in columns.items()})
    fed(stream, part(columns, 1300, 2500))
    assert same(stream.state(), fed(mr.Stream(problem), columns).state())
    fit, error = exact(problem, columns), stream.result().standard_error
    free = error > 0  # a set may hold what is left
    assert np.allclose(stream.x[~free], fit[~free], atol=1e-6)
    assert (np.abs(stream.x - fit)[free] < 0.1 * error[free]).all()
    assert not stream.drift.alarms
    assert (np.abs(stream.predictor - fit)[free] < 1.5 * error[free]).all()


def test_the_window_is_bounded(rows, monkeypatch):
    monkeypatch.setattr(wide, "NUMBERS", 601 * 512)
    rows = part(rows, 0, 900)
    for stream in (mr.Stream(mr.GLM()), mr.Stream(mr.GLM(), window=512)):
        fed(stream, rows)
        result = stream.result()
        assert 512 <= result.rows < 512 + 256
        assert f"The fit of the last {result.rows} rows" in str(result.status)
        fit = exact(mr.GLM(), part(rows, 900 - result.rows, 900))
        assert np.allclose(stream.x @ rows["features"][-1], fit @ rows["features"][-1], atol=1e-5)
    assert "not looked for" in str(stream.drift)


def test_what_is_forgotten_by_half_weighs_half(narrow):
    columns, _ = regression(5, 900, width=6)
    columns["weights"] = np.random.default_rng(0).random(900)
    stream = fed(mr.Stream(mr.GLM(), forget=200.0), columns)
    ends = np.cumsum([4, 4, 8, 16, 32, 64, 128, 256, 256])  # the rows after them, 132, are as new as the last of these
    last = np.append(ends, ends[-1])[np.searchsorted(ends, np.arange(900), side="right")]
    weights = columns["weights"] * 0.5 ** ((ends[-1] - last) / 200.0)
    assert np.allclose(stream.x, exact(mr.GLM(), {**columns, "weights": weights}), atol=1e-6)
    assert not np.allclose(stream.x, exact(mr.GLM(), columns), atol=1e-3)


@pytest.mark.parametrize("rho", [0.0, 0.9])
def test_no_alarm_where_nothing_changes(rho, narrow):
    for seed in range(4):
        rng = np.random.default_rng(3000 + seed)
        A = np.column_stack([sticky(rng, (15_000, 5), rho), np.ones(15_000)])
        y = A @ [1.0, -1.0, 0.5, 0.0, 2.0, 1.0] + sticky(rng, (15_000, 1), rho)[:, 0]
        assert not fed(mr.Stream(mr.GLM()), {"features": A, "targets": y}).drift.alarms


@pytest.mark.parametrize("forget", ["auto", None])
def test_a_switch_is_noticed_and_followed(forget, narrow):
    columns, x = regression(6, 20_000, rho=0.9, width=6)
    other, y = regression(7, 10_000, rho=0.9, width=6)
    stream = fed(mr.Stream(mr.GLM(), forget=forget), columns)
    assert not stream.drift.alarms
    fed(stream, part(other, 0, 1024))
    assert 20_000 < stream.drift.alarms[0] <= 21_024
    saved = mr.Stream.from_state(mr.GLM(), stream.state())
    for one in (stream, saved):
        fed(one, part(other, 1024, 10_000))
    assert same(stream.state(), saved.state())
    assert len(stream.drift.alarms) == 1
    if forget is None:
        both = {name: np.concatenate([columns[name], other[name]]) for name in columns}
        assert np.allclose(stream.x, exact(mr.GLM(), both), atol=1e-6)
        return
    assert "settled" in str(stream.drift)
    assert stream.drift.since >= 20_000 - 256
    assert np.linalg.norm(stream.x - y) < 0.1 * np.linalg.norm(x - y)


def test_while_something_has_just_changed_older_rows_still_count(narrow):
    """300 coordinates, and 256 rows since: alone they would give no fit at all."""
    columns, x = regression(8, 12_288, width=300)
    other, y = regression(9, 1536, width=300)
    stream = fed(mr.Stream(mr.GLM()), columns)
    fed(stream, part(other, 0, 256))
    assert stream.drift.active
    assert "half of it is forgotten in 300 rows" in str(stream.drift)
    middle = np.linalg.norm(stream.x - y) / np.linalg.norm(x - y)
    assert middle < 0.9
    fed(stream, part(other, 256, 1536))
    assert not stream.drift.active
    assert np.linalg.norm(stream.x - y) / np.linalg.norm(x - y) < 0.5 * middle


def test_nothing_but_zeros_is_said(narrow):
    stream = fed(mr.Stream(mr.GLM()), {"features": np.zeros((300, 6)), "targets": np.ones(300)})
    assert "No fit of 300 rows: there is nothing to fit" in str(stream.status)
    assert np.array_equal(stream.x, np.zeros(6))
    assert stream.predict(np.ones(6)) == 0
    columns, _ = regression(1, 300, width=6)
    assert np.isfinite(fed(stream, columns).result().interval()).all()


def test_a_stream_that_grows_too_wide_says_so():
    state = fed(mr.Stream(mr.GLM()), part(regression(1, 40, width=4)[0], 0, 40)).state()
    state["open.column.features"] = np.zeros((len(state["open.column.features"]), WIDTH))
    with pytest.raises(mr.InputError, match="more than 512 coordinates"):
        mr.Stream.from_state(mr.GLM(), state)
