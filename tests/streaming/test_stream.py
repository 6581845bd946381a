"""A stream's answer against the exact fit of everything seen, however the rows came."""

from __future__ import annotations

import json
import pickle
import signal
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streaming.worlds import exact, fed, part, regression, same, transitions

import multireplay as mr

PROBLEMS = {
    "least squares": (mr.GLM(), lambda rows: regression(0, rows)[0]),
    "ridge": (mr.GLM(ridge=0.1, unpenalized=1), lambda rows: regression(1, rows, rho=0.9)[0]),
    "logistic": (mr.GLM("logistic"), lambda rows: regression(2, rows, "logistic")[0]),
    "Poisson": (mr.GLM("exp"), lambda rows: regression(3, rows, "exp", rho=0.9)[0]),
    "values": (mr.PolicyEvaluation(0.8), lambda rows: transitions(4, rows)),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_it_is_the_exact_fit_of_everything_seen(name):
    """Up to 4096 rows all are kept, and also a nonlinear fit is exact."""
    problem, columns = PROBLEMS[name][0], PROBLEMS[name][1](3000)
    stream, before = mr.Stream(problem), 0
    for rows in (60, 61, 200, 257, 1000, 2048, 3000):
        stream.observe_many(part(columns, before, rows))
        assert np.allclose(stream.x, exact(problem, columns, rows), rtol=1e-7, atol=1e-8)
        assert stream.position == rows
        before = rows


@pytest.mark.parametrize("name", ["least squares", "values"])
def test_before_there_are_as_many_rows_as_coordinates_it_is_the_shortest_fit(name):
    problem, columns = PROBLEMS[name][0], PROBLEMS[name][1](4)
    stream = mr.Stream(problem)
    for row in range(4):
        stream.observe(**{name: column[row] for name, column in columns.items()})
        seen = part(columns, 0, row + 1)
        residual = problem.mean_operator(stream.x, problem.columns(mr.Buffer(**seen)))
        assert np.allclose(residual, 0, atol=1e-10)
        if name == "least squares":
            assert np.allclose(stream.x, mr.solve(problem, mr.Buffer(**seen), holdout=None).x, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("rho", [0.0, 0.9, 0.99])
@pytest.mark.parametrize("link", ["logistic", "exp"])
def test_a_nonlinear_fit_of_many_rows_is_within_a_tenth_of_its_error(link, rho):
    problem = mr.GLM(link)
    columns, _ = regression(5, 40_000, link, rho)
    stream = mr.Stream(problem)
    before = 0
    for rows in (6000, 17_000, 40_000):
        stream.observe_many(part(columns, before, rows))
        error = stream.result().standard_error
        assert (np.abs(stream.x - exact(problem, columns, rows)) < 0.1 * error).all()
        before = rows


def test_weights_classes_tables_and_sets():
    columns, _ = regression(6, 900)
    columns["weights"] = np.random.default_rng(0).random(900)
    assert np.allclose(fed(mr.Stream(mr.GLM()), columns).x, exact(mr.GLM(), columns))
    problem = mr.GLM(constraint=mr.sets.Ball(0.3))
    assert np.allclose(fed(mr.Stream(problem), columns).x, exact(problem, columns), atol=1e-6)
    problem = mr.Multinomial(3, ridge=0.01)
    three = {"features": columns["features"], "targets": np.digitize(columns["targets"], [-0.5, 0.5])}
    stream = fed(mr.Stream(problem, names=["a", "b", "c", "one"]), three, [100])
    assert np.allclose(stream.x, exact(problem, three), atol=1e-6)
    assert stream.predict(three["features"][:2]).shape == (2, 3)
    assert np.allclose(stream.predict(three["features"][:2]).sum(axis=1), 1)
    assert stream.result().names[0] == "a (contrast 1)"
    states = np.random.default_rng(1).integers(0, 5, 400)
    table = mr.PolicyEvaluation(0.9, table=np.eye(5))
    walk = {"states": states[:-1], "next_states": states[1:], "rewards": states[:-1] * 1.0}
    assert np.allclose(fed(mr.Stream(table), walk).x, exact(table, walk))


@settings(max_examples=15, deadline=None)
@given(st.sampled_from(list(PROBLEMS)), st.lists(st.integers(1, 1500), max_size=6), st.integers(0, 40))
def test_how_rows_come_makes_no_difference(name, cuts, singles):
    problem, columns = PROBLEMS[name][0], PROBLEMS[name][1](1500)
    whole, parts = fed(mr.Stream(problem), columns), mr.Stream(problem)
    for row in range(singles):
        parts.observe(**{name: column[row] for name, column in columns.items()})
        parts.predict(columns["features"][row])  # which changes nothing
    fed(parts, part(columns, singles, 1500), [cut - singles for cut in cuts if cut > singles])
    assert same(whole.state(), parts.state())
    assert np.array_equal(whole.x, parts.x)
    assert np.array_equal(whole.predict(columns["features"][:5]), parts.predict(columns["features"][:5]))


def test_one_row_at_a_time_far_into_a_stream():
    columns, _ = regression(7, 20_000, rho=0.9)
    whole, single = mr.Stream(mr.GLM()), mr.Stream(mr.GLM())
    fed(whole, columns)
    for a, y in zip(columns["features"], columns["targets"], strict=True):
        single.observe(features=a, targets=y)
    assert same(whole.state(), single.state())


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("stop", [1, 100, 5000])
def test_a_state_goes_on_exactly(name, stop):
    problem, columns = PROBLEMS[name][0], PROBLEMS[name][1](6000)
    stream = fed(mr.Stream(problem, names=["a", "b", "c", "d"]), part(columns, 0, stop))
    state = stream.state()
    numbers = {key: value for key, value in state.items() if not isinstance(value, np.ndarray)}
    assert json.loads(json.dumps(numbers, allow_nan=False)) == numbers
    again, copied = mr.Stream.from_state(problem, state), pickle.loads(pickle.dumps(stream))
    for one in (stream, again, copied):
        one.observe_many(part(columns, stop, 6000))
    assert same(stream.state(), again.state())
    assert same(stream.state(), copied.state())
    assert np.array_equal(stream.x, again.x)
    with pytest.raises(mr.InputError, match="format 7"):
        mr.Stream.from_state(problem, {**state, "format": 7})


def test_memory_is_bounded():
    sizes = []
    stream = mr.Stream(mr.GLM("logistic"))
    for seed in range(4):
        stream.observe_many(regression(seed, 20_000, "logistic")[0])
        sizes.append(sum(value.nbytes for value in stream.state().values() if isinstance(value, np.ndarray)))
    assert max(sizes[1:]) < 2 * min(sizes)
    assert 32 <= stream._learner.inner.batches.full < 64


def test_a_window_and_a_half_life_against_their_own_fits():
    columns, _ = regression(8, 6000, rho=0.9)
    columns["targets"][3000:] += 2 * columns["features"][3000:, 0]
    stream = fed(mr.Stream(mr.GLM(), window=1000), columns)
    start = 6000 - stream.result().rows
    assert 1000 <= stream.result().rows <= 1064
    assert np.allclose(stream.x, exact(mr.GLM(), part(columns, start, 6000)))
    ages = np.arange(6000)[::-1]
    stream = fed(mr.Stream(mr.GLM(), forget=500), columns)
    fit = exact(mr.GLM(), {**columns, "weights": 0.5 ** (ages / 500)})
    assert (np.abs(stream.x - fit) < 0.1 * stream.result().standard_error).all()
    stream = fed(mr.Stream(mr.GLM("logistic"), forget=500), regression(9, 6000, "logistic")[0])
    fit = exact(mr.GLM("logistic"), {**regression(9, 6000, "logistic")[0], "weights": 0.5 ** (ages / 500)})
    assert (np.abs(stream.x - fit) < 0.15 * stream.result().standard_error).all()


def test_a_clock_of_ones_own():
    columns, _ = regression(10, 4000)
    times = np.sort(np.random.default_rng(0).random(4000)) * 100
    columns["targets"][times > 60] += columns["features"][times > 60, 0]
    stream = mr.Stream(mr.GLM(), clock="time", window=30.0)
    stream.observe_many(part(columns, 0, 1500), time=times[:1500])
    for row in range(1500, 1600):
        stream.observe(features=columns["features"][row], targets=columns["targets"][row], time=times[row])
    stream.observe_many(part(columns, 1600, 4000), time=times[1600:])
    whole = mr.Stream(mr.GLM(), clock="time", window=30.0)
    whole.observe_many(columns, time=times)
    assert same(whole.state(), stream.state())
    rows = whole.result().rows
    assert 30 <= times[-1] - times[4000 - rows] <= 33
    before = stream.state()
    with pytest.raises(mr.InputError, match="time falls to 5 at row 0"):
        stream.observe(features=np.ones(4), targets=0.0, time=5.0)
    with pytest.raises(mr.InputError, match="every row needs time="):
        stream.observe(features=np.ones(4), targets=0.0)
    assert same(before, stream.state())
    with pytest.raises(mr.InputError, match="clock='time'\\) alone"):
        mr.Stream(mr.GLM()).observe(features=np.ones(4), targets=0.0, time=5.0)


@pytest.mark.parametrize("bad", [
    {"features": np.array([1.0, np.nan, 0, 1]), "targets": 0.0},
    {"features": np.array([1.0, np.inf, 0, 1]), "targets": 0.0},
    {"features": np.ones(3), "targets": 0.0},
    {"features": 1.0, "targets": 0.0},
    {"features": np.ones(4), "targets": np.nan},
    {"features": np.ones(4), "targets": 2.0},
    {"features": np.ones(4)},
    {"features": np.ones(4), "targets": 0.0, "weights": 1.0},
    {"features": np.ones(4), "targets": 0.0, "colour": 1.0},
    {"features": np.ones((3, 4)), "targets": np.array([0.0, 1.0, 7.0])},
])  # fmt: skip
def test_a_bad_row_is_refused_and_nothing_changes(bad):
    columns, _ = regression(11, 300, "logistic")
    stream = fed(mr.Stream(mr.GLM("logistic")), columns)
    before = stream.state()
    with pytest.raises(mr.InputError):
        stream.observe(**bad)
    assert same(before, stream.state())
    assert stream.observe(features=np.ones(4), targets=1.0) == 1


@pytest.mark.parametrize("how", [{}, {"forget": None}, {"forget": 20}, {"window": 20}])
def test_from_the_first_row_on(how):
    columns, _ = regression(13, 40)
    stream = mr.Stream(mr.GLM(), **how)
    for row in range(40):
        stream.observe(features=columns["features"][row], targets=columns["targets"][row])
        assert np.isfinite(stream.x).all()
        assert np.isfinite(stream.predict(columns["features"])).all()
        assert stream.result().position == row + 1
    assert np.isfinite(stream.result().interval()).all()


def test_a_full_block_that_an_interruption_left_is_added_up_next():
    columns, _ = regression(14, 1000)
    whole, broken = fed(mr.Stream(mr.GLM()), columns), fed(mr.Stream(mr.GLM()), part(columns, 0, 600))
    block = broken._open
    while block.filled < broken._size:  # Ctrl-C comes after the row, and before it is added up
        row = broken.position
        assert block.quick({"features": columns["features"][row], "targets": columns["targets"][row]})
    for row in range(broken.position, 1000):
        broken.observe(features=columns["features"][row], targets=columns["targets"][row])
    assert same(whole.state(), broken.state())


def test_arguments():
    with pytest.raises(mr.InputError, match="not both"):
        mr.Stream(mr.GLM(), forget=10, window=10)
    with pytest.raises(mr.InputError, match="forget must be"):
        mr.Stream(mr.GLM(), forget="often")
    with pytest.raises(mr.InputError, match="window must be a positive number"):
        mr.Stream(mr.GLM(), window=-1)
    with pytest.raises(mr.InputError, match="clock must be"):
        mr.Stream(mr.GLM(), clock="sun")
    with pytest.raises(mr.InputError, match="has no Jacobian"):
        mr.Stream(mr.GLM(lambda z: z))
    with pytest.raises(mr.InputError, match=r"such as mr\.GLM"):
        mr.Stream("logistic")
    with pytest.raises(mr.InputError, match="No row"):
        mr.Stream(mr.GLM()).predict([1.0])
    with pytest.raises(mr.InputError, match="No row"):
        mr.Stream(mr.GLM()).result()
    stream = mr.Stream(mr.GLM())
    assert stream.x is None
    assert stream.position == 0
    assert not stream.drift.alarms


def test_ctrl_c_waits_for_the_end_of_a_block():
    """However often it comes, rows are taken in once, and the stream is that of the rows before `position`."""
    columns, _ = regression(12, 20_000)
    stream, whole = mr.Stream(mr.GLM()), mr.Stream(mr.GLM())
    stops = 0
    while stream.position < 20_000:
        timer = threading.Timer(0.002, lambda: signal.raise_signal(signal.SIGINT))
        try:
            timer.start()
            while stream.position < 20_000:
                row = stream.position
                stream.observe(features=columns["features"][row], targets=columns["targets"][row])
        except KeyboardInterrupt:
            stops += 1
        finally:
            timer.cancel()
    assert same(fed(whole, columns).state(), stream.state())


@pytest.mark.parametrize("kept", [False, True])
def test_what_ctrl_c_raises_says_how_many_rows_were_taken(tmp_path, kept):
    """Wherever it comes within a call: also while a row is written to the open block, or to the journal."""
    columns, _ = regression(15, 100)
    stream = mr.Stream(mr.GLM(), store=tmp_path / "run" if kept else None, sync="none" if kept else None)

    def until_stopped():
        threading.Timer(0.002, lambda: signal.raise_signal(signal.SIGINT)).start()
        while True:
            row = stream.position % 100
            stream.observe(features=columns["features"][row], targets=columns["targets"][row])

    stopped = []
    for _ in range(30):
        with pytest.raises(KeyboardInterrupt) as stop:
            until_stopped()
        places = [place for place in stop.traceback if place.name == "observe"]
        if places and places[0]._rawentry.tb_lasti > 8:  # not before its first line
            stopped.append(stop.value)
            assert stop.value.__notes__ == [f"{stream.position} rows were taken in all, and the stream can go on."]
            assert not kept or stream._store.journal.at.position == stream.position
    assert len(stopped) > 3


def test_intervals_cover():
    """Of 120 intervals of a sticky stream nearly all hold the truth, and they are not wide."""
    inside, wide = 0, []
    for seed in range(40):
        columns, x = regression(100 + seed, 8000, rho=0.9)
        result = fed(mr.Stream(mr.GLM()), columns).result()
        low, high = result.interval().T
        inside += ((low < x) & (x < high))[:3].sum()
        wide.append((high - low)[:3].mean() / (2 * 1.96 / np.sqrt(8000)))
    assert inside >= 108
    assert 0.9 < np.mean(wide) < 1.4
    assert "8000 of 8000 rows" in str(result.summary())
    assert result.covariance().shape == (4, 4)
    assert result.test(np.eye(4)[:2], x[:2]).p_value > 1e-4


def test_a_separable_record_has_a_finite_answer_that_says_so():
    stream = mr.Stream(mr.GLM("logistic"))
    stream.observe_many(features=np.array([[1.0], [2.0], [-1.0], [-2.0]]), targets=np.array([1.0, 1.0, 0.0, 0.0]))
    result = stream.result()
    assert np.isfinite(result.x).all()
    assert not result.status.ok
    assert "No fit" in str(result.status)
    assert 0.5 < stream.predict([3.0]) < 1


def test_effective_samples_are_of_all_rows_and_not_only_of_those_that_are_kept():
    rng = np.random.default_rng(15)
    A = rng.standard_normal((5000, 3))
    stream = mr.Stream(mr.GLM())
    stream.observe(features=A, targets=A @ [1.0, 0.0, -1.0] + rng.standard_normal(5000))
    effective = stream.result().uncertainty.effective
    assert effective.max() > 3000
    assert effective.max() <= 5000
