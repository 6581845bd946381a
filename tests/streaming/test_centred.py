"""Features far from 0: the same fit, the same predictions, and no alarm, in whatever units."""

from __future__ import annotations

import numpy as np
import pytest
from streaming.worlds import fed, part, regression, same, transitions

import multireplay as mr
from multireplay.streaming.centred import Centred

LINKS = ("identity", "logistic", "exp")


def moved(columns, offset, size=1.0):
    """The first feature in other units: how many, and from where they are counted."""
    A = columns["features"].copy()
    A[:, 0] = size * A[:, 0] + offset
    return {**columns, "features": A}


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize(("offset", "size"), [(1e3, 1.0), (1e6, 1.0), (1e8, 1.0), (0.0, 1e9), (1.7e9, 1e5)])
def test_units_change_nothing(link, offset, size):
    problem, columns = mr.GLM(link), regression(0, 6000, link, rho=0.9)[0]
    plain, other = fed(mr.Stream(problem), columns), fed(mr.Stream(problem), moved(columns, offset, size))
    assert not other.drift.alarms
    back = np.array([1 / size, 1.0, 1.0, 1.0])
    x = plain.x * back
    x[3] -= offset * x[0]
    error = other.result().standard_error
    assert (np.abs(other.x - x) < 0.01 * error).all()
    A = columns["features"]
    said = moved(columns, offset, size)["features"] @ other.predictor
    spread = np.sqrt(np.mean((A @ plain.x - A @ plain.predictor) ** 2)) + 0.2 * plain.result().standard_error.max()
    assert np.sqrt(np.mean((said - A @ plain.x) ** 2)) < 2 * spread
    assert np.allclose(error[:3] / back[:3], plain.result().standard_error[:3], rtol=0.02)


def test_values_with_a_far_feature():
    columns = transitions(1, 6000)
    for name in ("features", "next_features"):
        columns[name] = np.column_stack([columns[name], np.ones(6000)])
    far = {name: c + (1e6 * np.eye(5)[0] if c.ndim == 2 else 0.0) for name, c in columns.items()}
    plain, other = fed(mr.Stream(mr.PolicyEvaluation(0.8)), columns), fed(mr.Stream(mr.PolicyEvaluation(0.8)), far)
    values, spread = columns["features"] @ plain.x, np.std(columns["features"] @ plain.x)
    assert np.allclose(far["features"] @ other.x, values, atol=1e-4 * spread)
    assert np.sqrt(np.mean((other.predict(far["features"]) - values) ** 2)) < 0.1 * spread


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("kind", ["trend", "date", "late", "moves"])
def test_features_that_move_are_no_change(link, kind):
    """Coefficients stay as they are; what features do is not the matter of the tests for drift."""
    columns, rows = regression(2, 12_000, link)[0], np.arange(12_000)
    A = columns["features"]
    A[:, 0] = {
        "trend": 2015 + 10 * rows / 12_000,
        "date": 1.7e9 + 60 * rows,
        "late": np.where(rows < 6000, 0.0, A[:, 0]),
        "moves": A[:, 0] + np.where(rows < 6000, -3.0, 3.0),
    }[kind]
    score = A[:, 1:] @ [0.5, -0.5, 0.2] + (0.3 * A[:, 0] if kind in ("late", "moves") else 0.0)
    rng = np.random.default_rng(3)
    columns["targets"] = {
        "identity": lambda: score + rng.standard_normal(12_000),
        "logistic": lambda: (rng.random(12_000) < 1 / (1 + np.exp(-score))) * 1.0,
        "exp": lambda: rng.poisson(np.exp(score)) * 1.0,
    }[link]()
    stream = fed(mr.Stream(mr.GLM(link)), columns)
    assert not stream.drift.alarms
    whole = mr.solve(mr.GLM(link), mr.Buffer(**columns))
    assert (np.abs(stream.x - whole.x) < 0.1 * whole.standard_error).all()
    assert np.sqrt(np.mean((A @ (stream.predictor - whole.x)) ** 2)) < 0.1


def test_a_memory_too_short_for_a_test_says_so():
    columns = regression(4, 6000)[0]
    for how in ({"forget": 10.0}, {"window": 100}):
        stream = fed(mr.Stream(mr.GLM(), **how), columns)
        assert not stream.drift.alarms
        assert "too few rows are remembered" in str(stream.drift)
    assert "No drift" in str(fed(mr.Stream(mr.GLM(), forget=2000.0), columns).drift)


@pytest.mark.parametrize("rows", [5, 20, 33, 700])
def test_a_state_goes_on_before_and_after_the_centre_is_known(rows):
    columns = moved(regression(5, 1000)[0], 1e3)
    begun = fed(mr.Stream(mr.GLM()), part(columns, 0, rows))
    again = fed(mr.Stream.from_state(mr.GLM(), begun.state()), part(columns, rows, 1000))
    assert same(again.state(), fed(mr.Stream(mr.GLM()), columns).state())
    assert isinstance(again._learner, Centred)
    assert abs(again._learner.centre[0] - 1e3) < 1
    assert again._learner.constant == 3


def test_what_is_penalized_or_bounded_stays_as_it_is():
    columns = moved(regression(6, 500)[0], 5.0)
    with_set = fed(mr.Stream(mr.GLM(constraint=mr.sets.Ball(0.3))), columns)
    assert not isinstance(with_set._learner, Centred)
    ridge = fed(mr.Stream(mr.GLM(ridge=0.1)), columns)
    assert not ridge._learner.centre.any()  # the constant is penalized too
    assert np.allclose(ridge.x, mr.GLM(ridge=0.1).fit_exactly(mr.Buffer(**columns)), atol=1e-8)
    free = fed(mr.Stream(mr.GLM(ridge=0.1, unpenalized=1)), columns)
    assert free._learner.centre.any()
    assert np.allclose(free.x, mr.GLM(ridge=0.1, unpenalized=1).fit_exactly(mr.Buffer(**columns)), atol=1e-8)
