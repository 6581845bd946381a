"""Against scikit-learn's exact solvers: dense, sparse, weighted, penalized, with and without an intercept."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from estimators.worlds import ROWS, make
from scipy import sparse
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.preprocessing import StandardScaler
from sklearn.utils.class_weight import compute_sample_weight

import multireplay as mr

TIGHT = {"tol": 1e-10, "solver": "newton-cholesky"}
KINDS = [mr.MERRegressor, mr.MERClassifier, mr.MERPoissonRegressor]


def with_ones(X):
    return np.column_stack([X, np.ones(len(X))])


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


def three_sizes(world):
    cut = np.quantile(world.amounts, [0.3, 0.6])
    return np.array(["low", "middle", "high"])[np.searchsorted(cut, world.amounts)]


@pytest.mark.parametrize("weighted", [True, False])
def test_several_classes_have_one_likelihood(weighted):
    world = make()
    y, weights = three_sizes(world), world.weights if weighted else None
    found = mr.MERClassifier(alpha=0.01).fit(world.X, y, weights)
    assert found.classes_.tolist() == ["high", "low", "middle"]
    assert found.coef_.shape == (3, 3)
    assert len(found.results_) == 1
    assert found.converged_
    scaler = StandardScaler().fit(world.X, sample_weight=weights)
    rows, total = scaler.transform(world.X), world.weights.sum() if weighted else ROWS
    other = rival_of(mr.MERClassifier, 0.01, total).fit(rows, y, weights)
    assert np.abs(found.coef_ - other.coef_ / scaler.scale_).max() < 1e-4 * found.coef_se_.min()
    assert found.intercept_.sum() == pytest.approx(0.0, abs=1e-9)
    assert np.allclose(found.predict_proba(world.X), other.predict_proba(rows), atol=1e-8)
    assert np.allclose(np.exp(found.predict_log_proba(world.X)), found.predict_proba(world.X))
    assert (found.predict(world.X) == other.predict(rows)).all()


@pytest.mark.parametrize("load", [load_iris, load_wine, load_digits])
@pytest.mark.parametrize("intercept", [True, False])
def test_classes_of_known_sets(load, intercept):
    X, y = load(return_X_y=True)
    if load is load_digits:
        X, y = X[y < 4][:, X.std(axis=0) > 2.0], y[y < 4]
    found = mr.MERClassifier(alpha=1e-3, fit_intercept=intercept).fit(X, y)
    scaler = StandardScaler(with_mean=intercept).fit(X)
    other = rival_of(mr.MERClassifier, 1e-3, len(X), intercept).fit(scaler.transform(X), y)
    assert np.abs((found.coef_ - other.coef_ / scaler.scale_) / found.coef_se_).max() < 1e-4
    assert np.abs(found.predict_proba(X) - other.predict_proba(scaler.transform(X))).max() < 1e-6


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("given", ["balanced", {"high": 3.0, "low": 0.5}])
def test_weights_of_classes(classes, weighted, given):
    world = make(seed=7)
    y = three_sizes(world)
    y[y == "middle"] = "middle" if classes == 3 else "low"
    weights = world.weights if weighted else np.ones(ROWS)
    found = mr.MERClassifier(alpha=0.01, class_weight=given).fit(world.X, y, weights)
    each = compute_sample_weight(given, y) * weights
    if given == "balanced":  # scikit-learn's function counts rows, its estimators their weights
        each = weights / np.array([weights[y == label].sum() for label in y])
    scaler = StandardScaler().fit(world.X, sample_weight=each)
    other = rival_of(mr.MERClassifier, 0.01, each.sum()).fit(scaler.transform(world.X), y, each)
    assert np.allclose(found.predict_proba(world.X), other.predict_proba(scaler.transform(world.X)), atol=1e-6)


def test_a_class_that_counts_for_little_is_predicted_seldom():
    world = make(rows=600)
    y = three_sizes(world)
    light = mr.MERClassifier(class_weight={"low": 1e-4, "middle": 1e-4}).fit(world.X, y)
    assert (light.predict(world.X) == "high").mean() > 0.95
    online = mr.MERClassifier(class_weight={"low": 1e-4, "middle": 1e-4}, capacity=64)
    assert (online.partial_fit(world.X, y, np.unique(y)).predict(world.X) == "high").mean() > 0.95


def test_weights_of_classes_that_are_none():
    world = make(rows=200)
    y = three_sizes(world)
    for given, message in (
        ({"hgh": 2.0}, "class_weight has a weight for 'hgh', which is not one of"),
        ({"high": -1.0}, "must be at least 0"),
        ("even", "class_weight must be None, 'balanced' or"),
    ):
        with pytest.raises(mr.InputError, match=message):
            mr.MERClassifier(class_weight=given).fit(world.X, y)
    with pytest.raises(mr.InputError, match="partial_fit has only some"):
        mr.MERClassifier(class_weight="balanced").partial_fit(world.X, y, np.unique(y))


@pytest.mark.parametrize("missing", ["error", "drop"])
def test_exposure_is_an_offset(missing):
    world = make(seed=3)
    rng = np.random.default_rng(3)
    hours = rng.uniform(0.1, 30.0, ROWS)
    y = rng.poisson(hours * np.exp(world.X @ [0.3, 0.01, -1.0] - 5.0))
    X, weights = world.X, world.weights
    model = mr.MERPoissonRegressor(alpha=0, missing=missing)
    if missing == "drop":
        spoilt = np.where(np.arange(ROWS) % 7 == 3, np.nan, hours)
        model.fit(X, y, weights, exposure=spoilt)
        X, y, weights, hours = (part[np.isfinite(spoilt)] for part in (X, y, weights, hours))
    else:
        model.fit(X, y, weights, exposure=hours)
    glm = sm.GLM(y, with_ones(X), sm.families.Poisson(), exposure=hours, freq_weights=weights)
    other = glm.fit(tol=1e-12)
    assert np.append(model.coef_, model.intercept_) == pytest.approx(other.params, rel=1e-6, abs=1e-8)
    assert model.predict(X, exposure=hours) == pytest.approx(other.predict(with_ones(X), exposure=hours))
    assert model.predict(X) == pytest.approx(model.predict(X, exposure=np.ones(len(X))))
    alone = sm.GLM(y, np.ones(len(y)), sm.families.Poisson(), exposure=hours, freq_weights=weights).fit()
    assert model.score(X, y, weights, hours) == pytest.approx(1 - other.deviance / alone.deviance)
    fitted, _, high = model.predict_interval(X[:3], exposure=hours[:3])
    assert fitted == pytest.approx(model.predict(X[:3], exposure=hours[:3]))
    assert high / fitted == pytest.approx(model.predict_interval(X[:3])[2] / model.predict(X[:3]))


def test_standard_errors_with_an_exposure():
    """On independent rows those of statsmodels' sandwich, on average over many coefficients: batches are few."""
    rng = np.random.default_rng(11)
    X, hours = rng.standard_normal((6000, 24)), rng.uniform(0.5, 20.0, 6000)
    y = rng.poisson(hours * np.exp(X @ rng.normal(0, 0.1, 24) - 1.0))
    model = mr.MERPoissonRegressor(alpha=0).fit(X, y, exposure=hours)
    other = sm.GLM(y, with_ones(X), sm.families.Poisson(), exposure=hours).fit(cov_type="HC0")
    ratios = np.append(model.coef_se_, model.intercept_se_) / other.bse
    assert np.sqrt(np.mean(ratios**2)) == pytest.approx(1.0, abs=0.15)


def test_streams_have_an_exposure():
    world = make(rows=400)
    hours = np.full(400, 10.0)
    counts = world.counts * 10
    model = mr.MERPoissonRegressor(capacity=64).partial_fit(world.X, counts, exposure=hours)
    other = mr.MERPoissonRegressor(capacity=64).partial_fit(world.X, world.counts, sample_weight=hours)
    assert np.array_equal(model.coef_, other.coef_)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([1.0, 2.0], r"exposure has shape \(2,\), but X has 200 rows"),
        ([1.0] * 199 + [0.0], "exposure is 0 at row 199"),
        ([1.0] * 199 + [np.nan], "exposure contains NaN"),
    ],
)
def test_exposures_that_are_none(given, message):
    world = make(rows=200)
    with pytest.raises(ValueError, match=message):
        mr.MERPoissonRegressor().fit(world.X, world.counts, exposure=given)


def test_a_score_that_is_not_defined_is_not_a_number():
    world = make(rows=200)
    model = mr.MERPoissonRegressor().fit(world.X, world.counts)
    with pytest.warns(UndefinedMetricWarning, match="no deviance to explain"):
        assert np.isnan(model.score(world.X[:9], np.zeros(9)))


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
    for options in ({}, {"replay": mr.Dyadic()}):
        with pytest.raises(mr.InputError, match="every feature in the buffer is 0"):
            kind(alpha=0.0, fit_intercept=False, **options).fit(np.zeros((rows, 2)), y)


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
