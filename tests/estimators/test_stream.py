"""`partial_fit` against a stream run by hand."""

from __future__ import annotations

import pickle
from itertools import pairwise

import numpy as np
import pytest
from estimators.worlds import make
from scipy import sparse
from sklearn.base import clone

import multireplay as mr

CAPACITY = 64
CUTS = [0, 1, 10, 63, 65, 150, 151, 400, 1000]
"""Some blocks are single rows, one goes over the end of the filling, some over the ends of epochs."""
KINDS = {"regressor": mr.MERRegressor, "classifier": mr.MERClassifier, "poisson": mr.MERPoissonRegressor}
LINKS = {"regressor": "identity", "classifier": "logistic", "poisson": "exp"}


def targets_of(name, world):
    return {"regressor": world.amounts, "classifier": (world.labels == "up") * 1.0, "poisson": world.counts}[name]


def fed(model, X, y, cuts=CUTS, weights=None):
    for start, stop in pairwise(cuts):
        part = slice(start, stop)
        more = {"classes": [0.0, 1.0]} if isinstance(model, mr.MERClassifier) else {}
        model.partial_fit(X[part], y[part], sample_weight=None if weights is None else weights[part], **more)
    return model


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("weighted", [False, True])
def test_it_is_a_stream(name, weighted):
    world = make(rows=1000, sticky=0.9)
    X, y, weights = world.X, targets_of(name, world), world.weights if weighted else np.ones(1000)
    model = fed(KINDS[name](alpha=0.01, capacity=CAPACITY), X, y, weights=weights if weighted else None)

    first = slice(CAPACITY)
    mean = np.average(X[first], axis=0, weights=weights[first])
    scale = np.sqrt(np.average((X[first] - mean) ** 2, axis=0, weights=weights[first]))
    A = np.column_stack([(X - mean) / scale, np.ones(1000)])
    problem = mr.GLM(LINKS[name], ridge=0.01, unpenalized=1)
    run = mr.Stream(problem)
    run.observe(features=A, targets=y, weights=weights)
    assert np.allclose(np.ravel(model.coef_), run.predictor[:3] / scale, rtol=1e-7)
    assert np.ravel(model.intercept_)[0] == pytest.approx(run.predictor[3] - mean @ (run.predictor[:3] / scale))
    assert np.allclose(run.predictor, run.x, atol=0.05)


@pytest.mark.parametrize("name", KINDS)
def test_how_the_rows_are_cut_makes_no_difference(name):
    world = make(rows=1000)
    y = targets_of(name, world)
    models = [
        fed(KINDS[name](capacity=CAPACITY), world.X, y, cuts)
        for cuts in (CUTS, [0, 1000], [0, CAPACITY, 1000], [*range(0, 1000, 30), 1000])
    ]
    for model in models[1:]:
        assert np.array_equal(models[0].coef_, model.coef_)


def test_while_the_buffer_fills_the_rows_so_far_are_solved():
    world = make(rows=60)
    model = mr.MERRegressor(capacity=1000)
    solved = None
    for row in range(60):
        model.partial_fit(world.X[row : row + 1], world.amounts[row : row + 1])
        if row + 1 == 1 or row + 1 >= 1.25 * solved:
            solved = row + 1
            expected = mr.MERRegressor().fit(world.X[:solved], world.amounts[:solved], np.ones(solved)).coef_
        assert np.allclose(model.coef_, expected, rtol=1e-6)
    assert solved > 48


@pytest.mark.parametrize("stop", [5, CAPACITY, 100, 900])
@pytest.mark.parametrize("name", KINDS)
def test_pickling_mid_stream(name, stop):
    world = make(rows=1000)
    y = targets_of(name, world)
    model = fed(KINDS[name](capacity=CAPACITY), world.X, y, [0, stop])
    copy = pickle.loads(pickle.dumps(model))
    for one in (model, copy):
        fed(one, world.X[stop:], y[stop:], [0, 1000 - stop])
    assert np.array_equal(model.coef_, copy.coef_)
    assert not hasattr(clone(model), "coef_")


def test_after_a_fit_the_stream_goes_on_from_it():
    world = make(rows=2000)
    model = mr.MERRegressor(capacity=CAPACITY).fit(world.X[:1000], world.amounts[:1000])
    fitted = model.coef_.copy()
    left = pickle.loads(pickle.dumps(model))  # without the record, the answer stays until as many rows have come
    left.partial_fit(world.X[1000:1010], world.amounts[1000:1010])
    assert np.array_equal(left.coef_, fitted)
    model.partial_fit(world.X[1000:], world.amounts[1000:])
    whole = mr.MERRegressor().fit(world.X, world.amounts)
    run = model._stream.run
    exact = model.coef_ * run.x[:3] / run.predictor[:3]  # in the units of the record
    assert np.abs((exact - whole.coef_) / whole.coef_se_).max() < 0.1
    assert np.abs((model.coef_ - whole.coef_) / whole.coef_se_).max() < 0.3
    assert not np.array_equal(model.coef_, fitted)
    again = model.fit(world.X[:1000], world.amounts[:1000])
    assert np.array_equal(again.coef_, fitted)
    assert again._stream is None


def test_the_memory_of_a_block_may_be_used_again():
    world = make(rows=200)
    expected = fed(mr.MERRegressor(capacity=CAPACITY), world.X, world.amounts, [0, 40, 80, 120, 160, 200])
    X, y = np.empty((40, 3)), np.empty(40)
    model = mr.MERRegressor(capacity=CAPACITY)
    for start in range(0, 200, 40):
        X[:], y[:] = world.X[start : start + 40], world.amounts[start : start + 40]
        model.partial_fit(X, y)
    assert np.array_equal(model.coef_, expected.coef_)


def test_sparse_blocks_and_weights_from_some_block_on():
    world = make(rows=300, sparse=True)
    rows = sparse.csr_array(world.X)
    thin = fed(mr.MERRegressor(capacity=CAPACITY), rows, world.amounts, [0, 30, 200, 300])
    dense = fed(mr.MERRegressor(capacity=CAPACITY, fit_intercept=False), world.X, world.amounts, [0, 300])
    both = fed(mr.MERRegressor(capacity=CAPACITY, fit_intercept=False), rows, world.amounts, [0, 300])
    assert np.allclose(dense.coef_, both.coef_)
    before = thin.coef_.copy()
    thin.partial_fit(rows[:200], world.amounts[:200], sample_weight=world.weights[:200])
    assert not np.array_equal(thin.coef_, before)


def test_several_classes_in_any_order_of_coming():
    world = make(rows=600)
    y = np.digitize(world.amounts, np.quantile(world.amounts, [0.3, 0.6]))
    model = mr.MERClassifier(capacity=CAPACITY)
    model.partial_fit(world.X[:1], y[:1], classes=[2, 0, 1])
    for start in range(1, 600, 37):
        model.partial_fit(world.X[start : start + 37], y[start : start + 37])
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.score(world.X, y) > 0.45
    with pytest.raises(mr.InputError, match=r"classes are \[0 1\] now, and were \[0 1 2\]"):
        model.partial_fit(world.X, y, classes=[0, 1])
    with pytest.raises(mr.InputError, match=r"y is 3 at row 1 .* not one of the classes \[0 1 2\]"):
        model.partial_fit(world.X[:2], [0, 3])


def test_the_first_call_needs_the_classes():
    world = make(rows=50)
    with pytest.raises(mr.InputError, match="first call of partial_fit needs classes="):
        mr.MERClassifier().partial_fit(world.X, world.labels)
    with pytest.raises(mr.InputError, match="only one class, up"):
        mr.MERClassifier().partial_fit(world.X, world.labels, classes=["up"])
    model = mr.MERClassifier(capacity=16).fit(world.X, world.labels)
    assert model.partial_fit(world.X, world.labels).classes_.tolist() == ["down", "up"]


def test_it_learns():
    world = make(rows=20_000, sticky=0.9)
    model = fed(mr.MERClassifier(capacity=2048), world.X, (world.labels == "up") * 1.0, range(0, 20_001, 500))
    exact = mr.MERClassifier(warn_autocorrelation=False).fit(world.X, world.labels).coef_
    assert np.linalg.norm((model.coef_ - exact) * world.X.std(axis=0)) < 0.2 * np.linalg.norm(
        exact * world.X.std(axis=0)
    )


def three_classes(rows, seed=0):
    world = make(rows=rows, sticky=0.9, seed=seed)
    return world.X, np.digitize(world.amounts, np.quantile(world.amounts, [0.3, 0.6]))


def test_several_classes_are_learnt_together():
    """Once each was learnt against the rest: another answer than that of `fit`."""
    X, y = three_classes(1000)
    model = mr.MERClassifier(alpha=0.01, capacity=CAPACITY)
    for start, stop in pairwise(CUTS):
        model.partial_fit(X[start:stop], y[start:stop], classes=[0, 1, 2])
    mean, scale = X[:CAPACITY].mean(axis=0), X[:CAPACITY].std(axis=0)
    A, problem = np.column_stack([(X - mean) / scale, np.ones(1000)]), mr.Multinomial(3, ridge=0.01, unpenalized=1)
    run = mr.Stream(problem)
    run.observe(features=A, targets=y, weights=np.ones(1000))
    np.testing.assert_allclose(model.coef_, problem.coefficients(run.predictor)[:, :3] / scale, rtol=1e-5)
    np.testing.assert_allclose(model.coef_.sum(axis=0), 0, atol=1e-12)
    scores = np.exp(model.decision_function(X))
    np.testing.assert_allclose(model.predict_proba(X), scores / scores.sum(axis=1, keepdims=True))


def test_several_classes_after_a_fit():
    """The rows that were fitted count in the stream."""
    X, y = three_classes(600)
    model = mr.MERClassifier(capacity=CAPACITY, warn_autocorrelation=False).fit(X, y)
    before = model.predict_proba(X)
    model.partial_fit(X[:10], y[:10])
    assert np.allclose(model.predict_proba(X), before, atol=0.05)
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict_proba(X), model.predict_proba(X))
    for _ in range(5):
        model.partial_fit(X, y)
    assert not np.array_equal(model.predict_proba(X), before)
    assert model.score(X, y) > 0.45


def test_a_class_that_has_not_come_yet_is_rare_and_not_impossible():
    X, y = three_classes(400)
    model = mr.MERClassifier(capacity=1000).partial_fit(X[y < 2], y[y < 2], classes=[0, 1, 2])
    chances = model.predict_proba(X)[:, 2]
    assert 1e-4 < chances.mean() < 0.01
    model.partial_fit(X, y)
    assert model.score(X, y) > 0.45


@pytest.mark.parametrize("name", KINDS)
def test_rows_with_something_missing_are_left_out_of_a_stream(name):
    world = make(rows=600)
    X, y = world.X.copy(), targets_of(name, world).astype(float)
    X[[3, 70, 71, 500], 1] = np.nan
    y[100 if name != "classifier" else 3] = np.nan
    whole = np.isfinite(X).all(axis=1) & np.isfinite(y)
    cuts = [0, 1, 60, 70, 72, 300, 600]  # one block has nothing in it but rows that are left out
    model = fed(KINDS[name](capacity=CAPACITY, missing="drop"), X, y, cuts, world.weights)
    wanted = fed(KINDS[name](capacity=CAPACITY), X[whole], y[whole], [0, whole.sum()], world.weights[whole])
    np.testing.assert_array_equal(model.coef_, wanted.coef_)
    assert model.n_dropped_ == (~whole).sum()
    with pytest.raises(ValueError, match="NaN"):
        fed(KINDS[name](), X, y, cuts)


def test_what_fit_left_out_is_counted_on():
    world = make(rows=300)
    X = world.X.copy()
    X[[5, 250]] = np.nan
    model = mr.MERRegressor(missing="drop", capacity=CAPACITY).fit(X[:200], world.amounts[:200])
    assert model.n_dropped_ == 1
    assert model.partial_fit(X[200:], world.amounts[200:]).n_dropped_ == 2
    assert model.fit(X[:200], world.amounts[:200]).n_dropped_ == 1


def test_more_than_512_features_are_a_stream_too():
    rng = np.random.default_rng(0)
    X, x = rng.standard_normal((2000, 520)), rng.standard_normal(520)
    y = X @ x + rng.standard_normal(2000)
    model = fed(mr.MERRegressor(alpha=0.01, capacity=CAPACITY), X, y, [0, 30, 1000, 2000])
    run = model._stream.run
    assert isinstance(run, mr.Stream)
    assert run.position == 2000
    whole = mr.MERRegressor(alpha=0.01, warn_autocorrelation=False).fit(X, y)
    assert np.linalg.norm(model.coef_ - x) < 1.1 * np.linalg.norm(whole.coef_ - x)
