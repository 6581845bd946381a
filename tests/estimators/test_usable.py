"""Rows with missing values, several series in one table, and formulas."""

from __future__ import annotations

from itertools import product

import numpy as np
import polars as pl
import pytest
from scipy import sparse

import multireplay as mr

pd = pytest.importorskip("pandas")


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    heat, day = rng.standard_normal(400), np.array(["Mon", "Tue", "Wed", "Thu"])[np.arange(400) % 4]
    load = 2 * heat + (day == "Wed") + rng.standard_normal(400)
    return pd.DataFrame({"heat": heat, "day": day, "load": load, "site": np.arange(400) % 3})


def test_rows_with_something_missing_are_left_out_and_counted(table):
    holes = table.copy()
    holes.loc[[5, 9], "heat"] = np.nan
    holes.loc[30, "load"] = np.nan
    whole = holes.dropna()
    model = mr.MERRegressor(missing="drop", warn_autocorrelation=False).fit(holes[["heat"]], holes["load"])
    wanted = mr.MERRegressor(warn_autocorrelation=False).fit(whole[["heat"]], whole["load"])
    np.testing.assert_array_equal(model.coef_, wanted.coef_)
    assert model.n_dropped_ == 3
    assert "Rows left out because something was missing: 3." in str(model.summary())
    assert np.flatnonzero(np.isnan(model.predict(holes[["heat"]]))).tolist() == [5, 9]
    with pytest.raises(ValueError, match="NaN"):
        mr.MERRegressor().fit(holes[["heat"]], holes["load"])
    with pytest.raises(mr.InputError, match="missing must be 'error' or 'drop'"):
        mr.MERRegressor(missing="ignore").fit(holes[["heat"]], holes["load"])
    with pytest.raises(mr.InputError, match="leaves none"):
        mr.MERRegressor(missing="drop").fit(np.full((3, 1), np.nan), np.zeros(3))


def test_a_class_is_not_made_up_for_a_row_with_nothing(table):
    labels = np.where(table["load"] > 0, "up", "down").astype(object)
    labels[7] = None
    model = mr.MERClassifier(missing="drop", warn_autocorrelation=False).fit(table[["heat"]], labels)
    assert model.classes_.tolist() == ["down", "up"]
    assert model.n_dropped_ == 1
    with pytest.raises(mr.InputError, match=r"row 1 .* has no class"):
        model.predict(pd.DataFrame({"heat": [0.5, np.nan]}))


def test_no_transition_goes_over_a_row_that_is_left_out():
    rng = np.random.default_rng(1)
    states = rng.standard_normal((60, 1))
    rewards = rng.standard_normal(60)
    holes = states.copy()
    holes[20] = np.nan
    model = mr.MERValueRegressor(gamma=0.5, missing="drop", warn_autocorrelation=False).fit(holes, rewards)
    apart = np.delete(np.arange(60), 20)
    episode = (apart > 20).astype(int)
    wanted = mr.MERValueRegressor(gamma=0.5, warn_autocorrelation=False).fit(
        states[apart], rewards[apart], episode=episode
    )
    np.testing.assert_array_equal(model.coef_, wanted.coef_)
    assert model.n_dropped_ == 1
    terminated = np.zeros(60, dtype=bool)
    terminated[19] = True  # the episode was over before the row that is missing
    again = mr.MERValueRegressor(gamma=0.5, missing="drop", warn_autocorrelation=False).fit(holes, rewards, terminated)
    assert again.results_[0].run.record.length == model.results_[0].run.record.length + 1


def test_interleaved_series_are_fitted_as_if_they_came_one_after_the_other(table):
    X, y = table[["heat"]].to_numpy(), table["load"].to_numpy()
    model = mr.MERRegressor(warn_autocorrelation=False).fit(X, y, groups=table["site"])
    order = np.argsort(table["site"], kind="stable")
    wanted = mr.MERRegressor(warn_autocorrelation=False).fit(X[order], y[order])
    np.testing.assert_array_equal(model.coef_se_, wanted.coef_se_)
    with pytest.raises(mr.InputError, match=r"groups has shape \(3,\)"):
        mr.MERRegressor().fit(X, y, groups=[1, 2, 3])


def test_a_formula_fits_and_predicts_from_tables(table):
    pytest.importorskip("formulaic")
    model = mr.MERRegressor.from_formula("load ~ heat + C(day)", table, alpha=0, warn_autocorrelation=False)
    dummies = np.column_stack([table["heat"], *(table["day"] == day for day in ("Thu", "Tue", "Wed"))]).astype(float)
    wanted = mr.MERRegressor(alpha=0, warn_autocorrelation=False).fit(dummies, table["load"])
    np.testing.assert_allclose(model.coef_, wanted.coef_)
    assert model.names_ == ("heat", "C(day)[T.Thu]", "C(day)[T.Tue]", "C(day)[T.Wed]", "(intercept)")
    np.testing.assert_allclose(model.predict(table[:5]), wanted.predict(dummies[:5]))
    new = {"heat": [1.0, 1.0], "day": ["Mon", "Sun"]}
    with pytest.raises(ValueError, match="NaN"):
        model.predict(new)
    model.missing = "drop"
    assert np.isnan(model.predict(new)).tolist() == [False, True]
    kinds = mr.MERClassifier.from_formula("day ~ heat", table, groups="site", warn_autocorrelation=False)
    assert kinds.classes_.tolist() == ["Mon", "Thu", "Tue", "Wed"]
    refit = model.fit(dummies, table["load"])
    assert not hasattr(refit, "recipe_")
    with pytest.raises(mr.InputError, match="a data frame"):
        mr.MERRegressor.from_formula("load ~ heat", [1, 2, 3])


def spoiled(value, kind):
    X = np.random.default_rng(0).standard_normal((50, 3))
    if isinstance(value, str):
        X = X.astype(object)
    X[17, 1] = value
    if kind == "sparse":
        return sparse.csr_array(X)
    names = ["temp", "hum", "sun"]
    return {"array": X, "pandas": pd.DataFrame(X, columns=names), "polars": pl.DataFrame(X, names)}[kind]


@pytest.mark.parametrize(
    ("value", "kind"),
    [*product((np.nan, -np.inf), ("array", "pandas", "polars", "sparse")), ("calm", "array"), ("calm", "pandas")],
)
def test_what_is_no_number_is_told_with_its_row_and_column(value, kind):
    """scikit-learn says "Input X contains NaN", and nothing of where."""
    X, y = spoiled(value, kind), np.arange(50.0)
    where = (
        r"row 17, feature 1 \(counting" if kind in ("array", "sparse") else r"row 17 \(counting from 0\), feature 'hum'"
    )
    told = {"calm": "'calm'", "nan": "NaN", "-inf": "-inf"}[str(value)]
    fitted = mr.MERRegressor(warn_autocorrelation=False).fit(spoiled(0.0, kind), y)
    for ask in (
        lambda: mr.MERRegressor().fit(X, y),
        lambda: mr.MERClassifier().fit(X, y > 20),
        lambda: mr.MERPoissonRegressor().partial_fit(X, y),
        lambda: fitted.predict(X),
        lambda: fitted.predict_interval(X),
    ):
        with pytest.raises(mr.InputError, match=f"X holds {told} at {where}") as found:
            ask()
        assert ("missing='drop' leaves out rows" in str(found.value)) == (told == "NaN")
    with pytest.raises(mr.InputError, match=r"y holds inf at row 3 \(counting from 0\); all values must be finite$"):
        mr.MERRegressor().fit(np.eye(50), np.where(y == 3, np.inf, y))


@pytest.mark.parametrize("kind", ["Int64", "boolean"])
def test_na_of_pandas_is_told_as_nan_is(kind):
    y, cells = np.arange(50.0), pd.array(np.arange(50) % 2, dtype="Int64").astype(kind)
    whole, holes = pd.DataFrame({"hum": cells, "wind": y}), pd.DataFrame({"hum": cells, "wind": y})
    holes.loc[17, "hum"] = pd.NA
    for ask in (
        lambda: mr.MERRegressor().fit(holes, y),
        lambda: mr.MERClassifier().fit(holes, y > 20),
        lambda: mr.MERValueRegressor(0.5).fit(holes, y),
        lambda: mr.MERRegressor().fit(whole, y).predict(holes),
    ):
        with pytest.raises(mr.InputError, match=r"X holds NaN at row 17 \(counting from 0\), feature 'hum'"):
            ask()
    with pytest.raises(mr.InputError, match=r"y holds NaN at row 17 \(counting from 0\)"):
        mr.MERClassifier().fit(y[:, None], holes["hum"])
    assert mr.MERRegressor(missing="drop").fit(holes, y).n_dropped_ == 1
    assert mr.MERClassifier(missing="drop").fit(y[:, None], holes["hum"]).n_dropped_ == 1


def test_a_formula_looks_at_the_index_too(table):
    pytest.importorskip("formulaic")
    frame = pd.DataFrame(table).iloc[::-1]
    with pytest.warns(mr.UncertaintyWarning, match="the index of 'data' is in another"):
        mr.MERRegressor.from_formula("load ~ heat", frame)
