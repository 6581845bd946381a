"""Against scikit-learn's exact solvers: dense, sparse, weighted, penalized, with and without an intercept."""

from __future__ import annotations

import numpy as np
import pytest
from estimators.worlds import ROWS, make
from scipy import sparse
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.preprocessing import StandardScaler

import multireplay as mr

TIGHT = {"tol": 1e-10, "solver": "newton-cholesky"}
KINDS = [mr.MERRegressor, mr.MERClassifier, mr.MERPoissonRegressor]


def target_of(kind, world):
    return {mr.MERRegressor: world.amounts, mr.MERClassifier: world.labels, mr.MERPoissonRegressor: world.counts}[kind]


def rival_of(kind, alpha, total, intercept=True):
    """The exact solver of the same objective, for rows whose weights sum to `total`."""
    if kind is mr.MERRegressor:
        return Ridge(alpha=alpha * total, tol=1e-12, fit_intercept=intercept)
    if kind is mr.MERClassifier:
        return LogisticRegression(C=1 / (alpha * total), fit_intercept=intercept, **TIGHT)
    return PoissonRegressor(alpha=alpha, fit_intercept=intercept, **TIGHT)


def exact(kind, X, world, alpha, weights, intercept=True):
    """The exact minimum, with a scaler before: model, scaler, and coefficients and intercept for X."""
    centred = intercept and not sparse.issparse(X)
    scaler = StandardScaler(with_mean=centred).fit(X, sample_weight=weights)
    total = ROWS if weights is None else weights.sum()
    model = rival_of(kind, alpha, total, intercept).fit(scaler.transform(X), target_of(kind, world), weights)
    coefficients = np.ravel(model.coef_) / scaler.scale_
    constant = float(np.ravel(model.intercept_)[0]) - (coefficients @ scaler.mean_ if centred else 0.0)
    return model, scaler, coefficients, constant


def standard_errors(kind, model, scaler, X, world, alpha):
    """Of the coefficients for X, from the Hessian at the minimum."""
    rows = scaler.transform(X)
    rows = rows.toarray() if sparse.issparse(rows) else rows.astype(np.float64)
    if kind is mr.MERRegressor:
        slopes, noise = np.ones(ROWS), np.var(world.amounts - model.predict(rows))
    elif kind is mr.MERClassifier:
        share = model.predict_proba(rows)[:, 1]
        slopes, noise = share * (1 - share), 1.0
    else:
        slopes, noise = model.predict(rows), 1.0
    hessian = rows.T @ (slopes[:, None] * rows) + alpha * ROWS * np.eye(rows.shape[1])
    return np.sqrt(noise * np.diag(np.linalg.inv(hessian))) / scaler.scale_


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("alpha", "weighted"), [(1e-4, True), (0.1, False)])
@pytest.mark.parametrize("form", ["dense", "sticky", "sparse", "float32"])
def test_the_fit_is_that_of_the_exact_solver(kind, alpha, weighted, form):
    world = make(sticky=0.97 if form == "sticky" else 0.0, sparse=form == "sparse")
    X = sparse.csr_array(world.X) if form == "sparse" else world.X.astype("float32" if form == "float32" else "float64")
    weights = world.weights if weighted else None
    options = {"alpha": alpha, "warn_autocorrelation": False}
    model, scaler, coefficients, constant = exact(kind, X.astype(np.float64), world, alpha, weights)
    errors = standard_errors(kind, model, scaler, X.astype(np.float64), world, alpha)
    y = target_of(kind, world)

    def gap(found):
        return np.abs((np.ravel(found.coef_) - coefficients) / errors).max()

    found = kind(**options).fit(X, y, weights)
    assert gap(found) < (1e-3 if form == "float32" else 1e-5)
    assert np.ravel(found.intercept_)[0] == pytest.approx(constant, rel=1e-5, abs=1e-5)
    rounds = [kind(passes=passes, replay=mr.Dyadic(), **options).fit(X, y, weights) for passes in (1, 81)]
    assert gap(rounds[1]) < min(gap(rounds[0]), 1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_without_an_intercept_features_are_not_centred(kind):
    world = make()
    X = world.X - world.X.mean(axis=0) * 0.99
    _, _, coefficients, _ = exact(kind, X, world, 0.1, None, intercept=False)
    found = kind(alpha=0.1, fit_intercept=False, passes=101).fit(X, target_of(kind, world))
    assert np.allclose(np.ravel(found.coef_), coefficients, rtol=1e-3)
    assert not np.any(found.intercept_)


@pytest.mark.parametrize("kind", KINDS)
def test_without_standardization_the_coefficients_themselves_are_penalized(kind):
    world = make()
    X, y = world.X / [1.0, 20.0, 0.1] - [0, 5, -30], target_of(kind, world)
    found = kind(alpha=0.1, standardize=False, passes=101).fit(X, y)
    assert np.allclose(found.coef_, rival_of(kind, 0.1, ROWS).fit(X, y).coef_, rtol=1e-4)


def test_one_against_the_rest():
    world = make()
    cut = np.quantile(world.amounts, [0.3, 0.6])
    y = np.array(["low", "middle", "high"])[np.searchsorted(cut, world.amounts)]
    found = mr.MERClassifier(alpha=0.01, passes=101).fit(world.X, y)
    assert found.classes_.tolist() == ["high", "low", "middle"]
    assert found.coef_.shape == (3, 3)
    assert len(found.results_) == 3
    scaler = StandardScaler().fit(world.X)
    for index, name in enumerate(found.classes_):
        alone = rival_of(mr.MERClassifier, 0.01, ROWS).fit(scaler.transform(world.X), y == name)
        assert np.allclose(found.coef_[index], alone.coef_[0] / scaler.scale_, rtol=1e-3, atol=1e-6)
    each = 1 / (1 + np.exp(-found.decision_function(world.X)))
    assert np.allclose(found.predict_proba(world.X), each / each.sum(axis=1, keepdims=True))
    assert np.allclose(np.exp(found.predict_log_proba(world.X)), found.predict_proba(world.X))
    assert (found.predict(world.X) == found.classes_[each.argmax(axis=1)]).all()
    assert found.score(world.X, y) > 0.5


def test_probabilities_far_out_still_sum_to_one():
    world = make(rows=200)
    found = mr.MERClassifier(passes=1).fit(world.X, np.arange(200) % 3)
    found.coef_[:] = -1e4
    assert np.allclose(found.predict_proba(np.abs(world.X)).sum(axis=1), 1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_huge_penalty_leaves_the_mean(kind):
    world = make()
    found = kind(alpha=1e4).fit(world.X, target_of(kind, world))
    if kind is mr.MERClassifier:
        assert np.allclose(found.predict_proba(world.X)[:, 1], np.mean(world.labels == "up"), atol=1e-3)
    else:
        assert np.allclose(found.predict(world.X), target_of(kind, world).mean(), rtol=1e-3)


def test_counts_that_are_rare_or_none():
    world = make()
    none = mr.MERPoissonRegressor().fit(world.X, np.zeros(ROWS))
    assert (none.predict(world.X) < 1e-2).all()
    rare = (np.arange(ROWS) % 500 == 0).astype(float)
    found = mr.MERPoissonRegressor(alpha=1.0).fit(world.X, rare)
    assert found.predict(world.X).mean() == pytest.approx(rare.mean(), rel=0.05)


def test_poisson_scores_itself_as_scikit_learn_does():
    world = make()
    mine = mr.MERPoissonRegressor(alpha=0.01, passes=101).fit(world.X, world.counts)
    scaler = StandardScaler().fit(world.X)
    other = PoissonRegressor(alpha=0.01, **TIGHT).fit(scaler.transform(world.X), world.counts)
    expected = other.score(scaler.transform(world.X), world.counts, world.weights)
    assert mine.score(world.X, world.counts, world.weights) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [1, 2, 3, 50])
@pytest.mark.parametrize("intercept", [False, True])
def test_features_that_are_all_zero_or_constant(kind, rows, intercept):
    y = np.arange(rows) % 2 if kind is not mr.MERClassifier else np.arange(rows) % 2 > 0
    if kind is mr.MERClassifier and rows == 1:
        return
    for X in (np.zeros((rows, 2)), np.full((rows, 2), 3.0)):
        model = kind(fit_intercept=intercept).fit(X, y)
        assert np.isfinite(model.predict(X).astype(float)).all()
        never = kind is mr.MERPoissonRegressor and rows == 1 and intercept  # a count of 0 alone: log 0
        assert model.results_[0].status.ok == model.converged_ == (not never)
        if intercept:
            assert not model.coef_.any()
    nothing = kind(alpha=0.0, fit_intercept=False).fit(np.zeros((rows, 2)), y)
    assert not nothing.coef_.any()
    assert nothing.free_ == ((0,), (1,))
    with pytest.raises(mr.InputError, match="every feature in the buffer is 0"):
        kind(alpha=0.0, fit_intercept=False, replay=mr.Dyadic()).fit(np.zeros((rows, 2)), y)


@pytest.mark.parametrize("weight", [1.0, 7.0])
def test_equal_weights_are_no_weights(weight):
    world = make()
    plain = mr.MERRegressor().fit(world.X, world.amounts)
    for weights in (weight, np.full(ROWS, weight)):
        assert np.array_equal(plain.coef_, mr.MERRegressor().fit(world.X, world.amounts, weights).coef_)


def test_rows_of_weight_zero_are_not_there():
    world = make()
    counts = np.arange(ROWS) % 3 > 0
    for kind in KINDS:
        y = target_of(kind, world)
        without = kind().fit(world.X[counts], y[counts])
        assert np.array_equal(without.coef_, kind().fit(world.X, y, counts.astype(float)).coef_)


@pytest.mark.parametrize(
    ("fit", "message"),
    [
        (lambda w: mr.MERRegressor(alpha=-1).fit(w.X, w.amounts), "alpha must be a number of at least 0, not -1"),
        (lambda w: mr.MERRegressor(alpha="big").fit(w.X, w.amounts), "alpha must be a number"),
        (lambda w: mr.MERRegressor(step="slow").fit(w.X, w.amounts), "step must be a positive number"),
        (lambda w: mr.MERRegressor(passes=0).fit(w.X, w.amounts), "passes must be a whole number"),
        (lambda w: mr.MERRegressor(replay="dyadic").fit(w.X, w.amounts), "replay must be a replay scheme"),
        (lambda w: mr.MERRegressor(average=2).fit(w.X, w.amounts), "average must be"),
        (lambda w: mr.MERRegressor(capacity=1).partial_fit(w.X, w.amounts), "capacity must be a whole number"),
        (lambda w: mr.MERRegressor().fit(w.X, w.amounts, -w.weights), r"sample_weight is -\d.\d+ at row 0"),
        (lambda w: mr.MERRegressor().fit(w.X, w.amounts, w.weights[:5]), r"shape \(5,\), but X has 3000 rows"),
        (lambda w: mr.MERPoissonRegressor().fit(w.X, w.counts - 9.0), r"y is -\d+ at row 0 .*counts are at least 0"),
        (lambda w: mr.MERClassifier().fit(w.X, np.ones(ROWS)), "two classes, but there is only one class, 1.0"),
    ],
)  # fmt: skip
def test_mistakes(fit, message):
    with pytest.raises(mr.InputError, match=message):
        fit(make())
