"""Standard errors, intervals and tables of the estimators: in the units of X, the intercept with them."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from estimators.worlds import make
from scipy import sparse
from scipy.signal import lfilter
from scipy.special import expit

import multireplay as mr
from multireplay.inference import BatchMeans, NeweyWest
from multireplay.inference.sight import RecordAt

KINDS = {
    "linear": (mr.MERRegressor, "amounts", sm.families.Gaussian(), lambda z: z, lambda z: np.ones_like(z)),
    "logistic": (mr.MERClassifier, "labels", sm.families.Binomial(), expit, lambda z: expit(z) * expit(-z)),
    "poisson": (mr.MERPoissonRegressor, "counts", sm.families.Poisson(), np.exp, np.exp),
}


def with_ones(X):
    return np.column_stack([X, np.ones(len(X))])


def numbers(y):
    return (y == "up") * 1.0 if y.dtype.kind == "U" else y


def images(scores, left, right, rows, left_out):
    """J⁻¹F̂ of batches, in the units of X: what each alone would move the coefficients by, or x without it, times 31."""
    ends = np.cumsum(rows).astype(int)[:-1]
    sums = np.array([part.sum(axis=0) for part in np.split(scores, ends)])
    matrices = np.array([a.T @ b for a, b in zip(np.split(left, ends), np.split(right, ends), strict=True)])
    whole = matrices.sum(axis=0)
    if left_out:
        return np.array([31 * np.linalg.solve(whole - S, v) for S, v in zip(matrices, sums, strict=True)])
    return len(scores) * np.linalg.solve(whole, (sums / rows[:, None]).T).T


def sticky_world(rows=4000, rho=0.9, seed=3):
    return make(rows, rho, seed)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", list(KINDS))
def test_all_is_in_the_units_of_X(kind, weighted):
    estimator, target, _, mean, slope = KINDS[kind]
    world = sticky_world()
    y, weights = getattr(world, target), world.weights if weighted else np.ones(len(world.X))
    model = estimator(alpha=0).fit(world.X, y, sample_weight=world.weights if weighted else None)
    design = with_ones(world.X)
    z = design @ np.append(np.ravel(model.coef_), model.intercept_)
    scores, rows = design * (weights * (mean(z) - numbers(y)))[:, None], model.results_[0].uncertainty.images.rows
    found = images(scores, design * (weights * slope(z))[:, None], design, rows, left_out=kind == "linear")
    spread = BatchMeans().spread(found)
    error = np.sqrt(spread.variance)
    tolerance = 1e-6 if kind == "linear" else 1e-2  # elsewhere J is made at a point nearby, or of some rows
    assert np.ravel(model.coef_se_) == pytest.approx(error[:-1], rel=tolerance)
    assert np.ravel(model.intercept_se_) == pytest.approx(error[-1:], rel=tolerance)
    assert np.shape(model.coef_se_) == np.shape(model.coef_)
    assert np.shape(model.intercept_se_) == np.shape(model.intercept_)
    scaled = (model.covariance() - BatchMeans().covariance(found)) / error[:, None] / error
    assert np.abs(scaled).max() < 5 * tolerance
    half = spread.quantile(0.9) * error
    x = np.append(np.ravel(model.coef_), model.intercept_)
    assert np.allclose(model.conf_int(0.9), np.column_stack([x - half, x + half]), rtol=tolerance)
    table = model.summary(0.9)
    assert [row["name"] for row in table.rows] == ["x[0]", "x[1]", "x[2]", "(intercept)"]
    assert [row["coefficient"] for row in table.rows] == pytest.approx(x)
    fitted, low, high = model.predict_interval(world.X[:5], 0.9)
    error = np.sqrt(BatchMeans().spread(found @ design[:5].T).variance) * spread.quantile(0.9)
    pick = (lambda band: band[:, 1]) if kind == "logistic" else (lambda band: band)
    assert pick(fitted) == pytest.approx(mean(z[:5]))
    assert np.allclose(pick(low), mean(z[:5] - error), rtol=tolerance)
    assert np.allclose(pick(high), mean(z[:5] + error), rtol=tolerance)


@pytest.mark.parametrize("kind", list(KINDS))
def test_on_white_rows_they_are_those_of_statsmodels(kind):
    estimator, target, family, *_ = KINDS[kind]
    ratios = []
    for seed in range(40):
        world = make(1000, seed=100 + seed)
        y = getattr(world, target)
        model = estimator(alpha=0).fit(world.X, y)
        other = sm.GLM(numbers(y), with_ones(world.X), family=family).fit(cov_type="HC0")
        ratios.append(np.append(np.ravel(model.coef_se_), model.intercept_se_) / other.bse)
    assert np.median(ratios, axis=0) == pytest.approx(1, abs=0.15)


def test_neither_standardization_nor_sparseness_changes_them():
    world = make(sparse=True)
    model = mr.MERRegressor(alpha=0).fit(world.X, world.amounts)
    for options, X in [({"standardize": False}, world.X), ({}, sparse.csr_array(world.X))]:
        other = mr.MERRegressor(alpha=0, **options).fit(X, world.amounts)
        assert other.coef_se_ == pytest.approx(model.coef_se_, rel=1e-6)
        assert other.intercept_se_ == pytest.approx(model.intercept_se_, rel=1e-6)
        assert np.allclose(other.predict_interval(X[:3]), model.predict_interval(world.X[:3]), rtol=1e-6)
    without = mr.MERRegressor(alpha=0, fit_intercept=False).fit(world.X, world.amounts)
    assert without.intercept_se_ == 0.0
    assert without.conf_int().shape == (*without.coef_se_.shape, 2)
    assert without.names_ == ("x[0]", "x[1]", "x[2]")


def test_columns_keep_their_names_and_other_estimators_can_be_had():
    world = make()
    model = mr.MERRegressor().fit(pd.DataFrame(world.X, columns=["temp", "hum", "wind"]), world.amounts)
    text = str(model.summary(by=NeweyWest()))
    assert [line.split()[0] for line in text.splitlines()[2:6]] == ["temp", "hum", "wind", "(intercept)"]
    assert "MERRegressor() on 3,000 rows, 1 pass" in text
    assert "NeweyWest" in text
    assert "penalized" not in text  # the default is too small to move anything
    strong = mr.MERRegressor(alpha=0.1).fit(world.X, world.amounts)
    assert "what alpha=0.1 pulls towards 0 is not in them" in str(strong.summary())
    assert "alpha" not in str(mr.MERRegressor(alpha=0).fit(world.X, world.amounts).summary().lines[1:])
    assert model.conf_int(by=NeweyWest()) == pytest.approx(model.conf_int(), rel=0.3)


def test_one_table_a_class():
    world = make()
    size = np.array(["low", "middle", "high"])[np.digitize(world.amounts, [4.0, 6.0])]
    model = mr.MERClassifier().fit(world.X, size)
    tables = model.summary()
    assert list(tables) == ["high", "low", "middle"]
    assert model.coef_se_.shape == (3, 3)
    assert model.intercept_se_.shape == (3,)
    assert model.conf_int().shape == (3, 4, 2)
    assert model.covariance().shape == (3, 4, 4)
    for index, name in enumerate(tables):
        assert [row["coefficient"] for row in tables[name].rows[:3]] == pytest.approx(model.coef_[index])
        assert [row["standard error"] for row in tables[name].rows[:3]] == pytest.approx(model.coef_se_[index])
        assert f"class {name!r} of 3" in str(tables)
    alone = mr.MERClassifier().fit(world.X, size == "low")
    assert "class True against False" in str(alone.summary())


def test_several_classes_on_white_rows_have_the_errors_of_statsmodels():
    """Its coefficients are against the first class; so are differences of ours, whose errors go together."""
    rng = np.random.default_rng(8)
    X = rng.standard_normal((6000, 12))
    y = (X @ rng.normal(0, 0.3, (12, 3)) + rng.gumbel(size=(6000, 3))).argmax(axis=1)
    model = mr.MERClassifier(alpha=0).fit(X, y)
    other = sm.MNLogit(y, with_ones(X)).fit(disp=False, tol=1e-12)
    ratios = []
    for k in (1, 2):
        ours = np.append(model.coef_[k] - model.coef_[0], model.intercept_[k] - model.intercept_[0])
        assert ours == pytest.approx(other.params[:, k - 1], rel=1e-5, abs=1e-7)
        pieces = model.uncertainties_[k].pieces() - model.uncertainties_[0].pieces()
        ratios.append(np.sqrt(BatchMeans().spread(pieces).variance) / other.bse[:, k - 1])
    assert np.sqrt(np.mean(np.square(ratios))) == pytest.approx(1.0, abs=0.15)


def test_probabilities_of_many_classes_have_the_error_of_their_scores_together():
    """By differences: what a batch moves all coefficients by, and with them the probabilities."""
    world = make(seed=5)
    model = mr.MERClassifier(alpha=0).fit(world.X, np.digitize(world.amounts, [4.0, 6.0]))
    fitted, low, high = model.predict_interval(world.X[:4], 0.9)
    assert fitted == pytest.approx(model.predict_proba(world.X[:4]))
    assert ((low > 0) & (low < fitted) & (fitted < high) & (high < 1)).all()
    design, found = with_ones(world.X[:4]), model.uncertainties_

    def odds(step, batch):
        each = np.column_stack([np.exp(design @ (one.x + step * one.pieces()[batch])) for one in found])
        chance = each / each.sum(axis=1, keepdims=True)
        return np.log(chance / (1 - chance)).ravel()

    batches = range(len(found[0].images.rows))
    moved = [(odds(1e-4, batch) - odds(-1e-4, batch)) / 2e-4 for batch in batches]
    spread = BatchMeans().spread(np.array(moved))
    half = (np.log(high / (1 - high)) - np.log(low / (1 - low))).ravel() / 2
    assert half == pytest.approx(np.sqrt(spread.variance) * spread.quantile(0.9), rel=1e-4)


def test_the_value_of_a_policy():
    """LSTD's sandwich in the units of X, by hand."""
    rng = np.random.default_rng(11)
    X = np.column_stack([100 + 10 * lfilter([1.0], [1.0, -0.8], rng.standard_normal(3001)), rng.standard_normal(3001)])
    rewards = X[:, 0] / 50 + rng.standard_normal(3001)
    model = mr.MERValueRegressor(0.7, alpha=0, warn_autocorrelation=False).fit(X, rewards)
    now, then = with_ones(X[:-1]), with_ones(X[1:])
    x = np.append(model.coef_, model.intercept_)
    scores = now * (now @ x - rewards[:-1] - 0.7 * then @ x)[:, None]
    rows = model.results_[0].uncertainty.images.rows
    spread = BatchMeans().spread(images(scores, now, now - 0.7 * then, rows, left_out=True))
    assert [*model.coef_se_, model.intercept_se_] == pytest.approx(np.sqrt(spread.variance), rel=1e-6)
    fitted, low, high = model.predict_interval(X[:3])
    assert fitted == pytest.approx(model.predict(X[:3]))
    assert ((low < fitted) & (fitted < high)).all()


def streamed(model, X, y, block=250, **given):
    for first in range(0, len(y), block):
        model.partial_fit(X[first : first + block], y[first : first + block], **given)
    return model


@pytest.mark.parametrize("kind", [*KINDS, "three classes"])
def test_after_a_stream_they_are_about_those_of_a_fit(kind):
    """Batches of a stream are other stretches of the record than those of a fit, and x is as good as the same."""
    world = make(6000, 0.5, 4)
    estimator, target, *_ = KINDS.get(kind, KINDS["logistic"])
    y = getattr(world, target)
    if kind == "three classes":
        y = np.digitize(world.amounts, [4.0, 6.0])
    given = {"classes": np.unique(y)} if estimator is mr.MERClassifier else {}
    whole, model = estimator(alpha=0).fit(world.X, y), streamed(estimator(alpha=0, capacity=512), world.X, y, **given)
    assert model.coef_se_ == pytest.approx(whole.coef_se_, rel=0.35)
    assert model.intercept_se_ == pytest.approx(whole.intercept_se_, rel=0.35)
    ends, around = model.conf_int(), whole.conf_int()
    assert ends.shape == around.shape
    assert np.abs(ends.mean(axis=-1) - around.mean(axis=-1)).max() < 0.1 * np.max(whole.coef_se_)
    fitted, low, high = model.predict_interval(world.X[:3])
    assert (low < fitted).all()
    assert (fitted < high).all()
    assert np.array_equal(pickle.loads(pickle.dumps(model)).conf_int(), ends)
    text = str(model.summary())
    assert "on 6000 of 6000 rows of a stream." in text
    assert "No drift" in text
    with pytest.raises(mr.InputError, match=r"a stream keeps 32 to 64 batches of its sums, for BatchMeans\(\)"):
        model.conf_int(by=NeweyWest())


def test_where_a_stream_predicts_with_less_than_the_fit_intervals_are_around_the_fit():
    """Of few rows the coefficients are held back."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((400, 12))
    y = X @ rng.normal(0, 0.1, 12) + rng.standard_normal(400)
    model = streamed(mr.MERRegressor(alpha=0, capacity=100), X, y, 50)
    stream = model._stream.run
    way = model._stream.start.standardization
    fit, constant = way.undone(stream.x)
    assert np.abs(fit - model.coef_).max() > 0.1 * model.coef_se_.max()
    assert model.conf_int().mean(axis=1) == pytest.approx([*fit, constant])
    table = model.summary()
    assert [row["coefficient"] for row in table.rows] == pytest.approx([*model.coef_, model.intercept_])
    assert "coefficients are those that predict best, up to 0." in str(table)
    assert "from the fit of the stream; intervals are around that" in str(table)


def test_before_a_stream_has_its_first_rows_they_are_those_of_the_fit_so_far():
    world = make()
    model = mr.MERRegressor(alpha=0, capacity=4000).partial_fit(world.X, world.amounts)
    whole = mr.MERRegressor(alpha=0).fit(world.X, world.amounts)
    assert model.conf_int() == pytest.approx(whole.conf_int())
    assert "on 3,000 rows, 1 pass" in str(model.summary())
    again = mr.MERRegressor(alpha=0, capacity=4000).fit(world.X, world.amounts)
    again.partial_fit(world.X[:100], world.amounts[:100])  # its answer is still that of fit
    assert again.conf_int() == pytest.approx(whole.conf_int())


def combined(seed=5):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"temp": rng.standard_normal(2000), "hum": rng.standard_normal(2000)})
    frame["hum in percent"] = 100 * frame["hum"] + 3
    frame["site"] = 7.0
    return frame, frame["temp"] + frame["hum"] + rng.standard_normal(2000)


def test_classes_that_a_column_separates_are_told_where_a_penalty_makes_the_fit_exist():
    frame, _ = combined()
    frame = frame[["temp", "hum"]]
    told = "the data are separable by 'hum' alone: only the penalty makes the fit exist"
    assert told in str(mr.MERClassifier().fit(frame, frame["hum"] > 0.3).summary())
    noisy = frame["hum"] + 0.3 * np.random.default_rng(9).standard_normal(2000) > 0.3
    assert "separable" not in str(mr.MERClassifier().fit(frame, noisy).summary())


@pytest.mark.parametrize("several", [False, True])
def test_a_category_of_one_class_is_marked(several):
    """All rows where it is on are of one class: t was 500 without a word."""
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"temp": rng.standard_normal(20_000), "closed": (np.arange(20_000) % 50 < 2) * 1.0})
    labels = np.where(frame["closed"] > 0, 1, rng.integers(0, 3 if several else 2, 20_000))
    model = mr.MERClassifier().fit(frame, labels)
    with pytest.warns(mr.UncertaintyWarning, match="too little of closed to rely on its interval: only the penalty"):
        tables = model.summary()
    for table in tables.values() if several else [tables]:
        assert {row["name"] for row in table.rows if "only the penalty settles it" in row["mark"]} == {"closed"}
    assert "only the penalty settles it" in str(model.results_[0].status)
    with pytest.warns(mr.UncertaintyWarning, match="1 of 2 have part in that"):
        model.predict_interval(pd.DataFrame({"temp": [0.0, 0.0], "closed": [0.0, 1.0]}))


@pytest.mark.parametrize("stream", [False, True])
def test_what_only_the_penalty_settles_is_marked(stream):
    """The default alpha shares the effect of a column between it and another that says the same."""
    frame, y = combined()
    model = streamed(mr.MERRegressor(capacity=256), frame, y) if stream else mr.MERRegressor().fit(frame, y)
    with pytest.warns(mr.UncertaintyWarning, match="hum, hum in percent, site, .intercept. .*only the penalty settles"):
        table = model.summary()
    marks = {row["name"]: row["mark"] for row in table.rows}
    assert marks.pop("temp") == ""
    assert set(marks.values()) == {"only the penalty settles it: do not rely on this interval"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict_interval(frame[:3])  # the sum of their effects is known
        mr.MERRegressor().fit(frame[["temp", "hum"]], y).summary()
        mr.MERRegressor(alpha=1.0).fit(frame[["temp", "hum"]], y).summary()
    with pytest.warns(mr.UncertaintyWarning, match="1 of 2 have part in that"):
        model.predict_interval(pd.concat([frame[:1], frame[:1].assign(hum=5.0)]))


def rare(rows=4000, seed=6):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.standard_normal(rows), rng.random(rows) < 0.002])
    return X, X @ [1.0, 2.0] + rng.standard_normal(rows)


def test_doubts_are_marked_and_warned_of_where_intervals_are_shown_only():
    X, y = rare()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = mr.MERRegressor().fit(X, y)
        model.predict_interval(X[:2])
        assert np.isfinite(model.coef_se_).all()
    with pytest.warns(mr.UncertaintyWarning, match=r"too little of x\[1\] to rely on its interval"):
        table = model.summary()
    marks = [row["mark"] for row in table.rows]
    assert "do not rely on this interval" in marks[1]
    assert marks[0] == marks[2] == ""
    with pytest.warns(mr.UncertaintyWarning):
        model.conf_int()


def test_the_fit_does_not_look_for_doubts(monkeypatch):
    looked = []
    monkeypatch.setattr(RecordAt, "sight", lambda *given: looked.append(given))
    mr.MERRegressor().fit(*rare())
    assert not looked


def test_an_intercept_that_hangs_on_a_doubtful_slope_is_doubtful():
    """A year of which the record has seen a few turns, far from 0: the intercept is its mean times its slope."""
    rng = np.random.default_rng(9)
    slow = lfilter([1.0], [1.0, -0.999], rng.standard_normal((4000, 2)), axis=0)
    X = np.column_stack([2000 + slow[:, 0], rng.standard_normal(4000)])
    y = X @ [0.1, 1.0] + 0.2 * slow[:, 1]
    model = mr.MERRegressor(alpha=0, warn_autocorrelation=False).fit(X, y)
    near = mr.MERRegressor(alpha=0, warn_autocorrelation=False).fit(X, X @ [0.1, 1.0] + rng.standard_normal(4000))
    assert {0, 2} <= set(model.uncertainties_[0].doubts)
    assert not near.uncertainties_[0].doubts.get(2) or 0 in near.uncertainties_[0].doubts


def test_what_was_pickled_keeps_its_intervals_and_its_marks():
    X, y = rare()
    model = mr.MERRegressor().fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert again.conf_int() == pytest.approx(np.column_stack(model.uncertainties_[0].interval(of=np.eye(3)).T))
    text = str(again.summary())
    assert "do not rely on this interval" in text
    with pytest.warns(mr.UncertaintyWarning):
        model.summary()
    with pytest.warns(mr.UncertaintyWarning):  # what was known is kept
        pickle.loads(pickle.dumps(model)).summary()


def test_wide_records_need_no_square_of_their_width():
    """The way back to the units of X is sparse."""
    X = np.random.default_rng(12).standard_normal((1500, 400)) * np.arange(1, 401) + 5
    model = mr.MERRegressor(warn_autocorrelation=False).fit(X, X[:, 0])
    back = model._fitted.standardization.way_back()
    assert back.nnz <= 3 * 401
    assert model.coef_se_.shape == (400,)


@pytest.mark.parametrize("multi_class", [2, 3])
def test_it_is_warned_once_whatever_the_number_of_classes(multi_class):
    X, y = rare()
    label = np.digitize(y - X[:, 0], np.quantile(y - X[:, 0], [1 / 2] if multi_class == 2 else [1 / 3, 2 / 3]))
    found = mr.MERClassifier(warn_autocorrelation=False).fit(X, label)
    for asked in (found.summary, found.conf_int):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            asked()
        assert [one.category for one in said] == [mr.UncertaintyWarning]
        assert "has seen too little of x[" in str(said[0].message)
        assert said[0].filename == __file__
