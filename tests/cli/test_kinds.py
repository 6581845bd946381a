"""Several classes with one likelihood, weights of classes, exposures, and scores that are not defined."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
import statsmodels.api as sm
from pyarrow import csv, parquet
from scipy.special import softmax
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from multireplay.cli.model import Model, ModelKind


@pytest.fixture
def iris(tmp_path):
    X, y = load_iris(return_X_y=True)
    mixed = np.random.default_rng(0).permutation(len(X))
    X, y = X[mixed], np.array(["setosa", "versicolor", "virginica"])[y[mixed]]
    path = tmp_path / "iris.csv"
    csv.write_csv(pa.table({**{f"x{j}": X[:, j] for j in range(4)}, "kind": y}), path)
    return path, X, y


@pytest.mark.parametrize("balanced", [True, False])
def test_several_classes_are_those_of_scikit_learn(run, tmp_path, iris, balanced):
    path, X, y = iris
    keep = ~((y == "setosa") & (np.arange(150) % 3 > 0))
    path = tmp_path / "some.csv"
    csv.write_csv(pa.table({**{f"x{j}": X[keep, j] for j in range(4)}, "kind": y[keep]}), path)
    options = ["--class-weight", "balanced"] if balanced else []
    model = tmp_path / "model.json"
    given = ("fit", path, "--target", "kind", "--model", "logistic", "--alpha", 0.01, "--out", model, *options)
    result = run(*given)
    assert result.exit_code == 0, result.stderr
    shares = np.array([(y[keep] == label).mean() for label in y[keep]])
    weights = 1 / shares / 3 if balanced else None
    scaler = StandardScaler().fit(X[keep], sample_weight=weights)
    other = LogisticRegression(C=1 / (keep.sum() * 0.01), tol=1e-10, solver="newton-cholesky")
    wanted = other.fit(scaler.transform(X[keep]), y[keep], weights).predict_proba(scaler.transform(X[keep]))
    found = json.loads(run("predict", model, path, "--interval", "--json").stdout)
    for place, label in enumerate(other.classes_):
        assert found[f"probability of {label}"] == pytest.approx(wanted[:, place], abs=1e-6)
        assert (np.array(found[f"low of {label}"]) <= wanted[:, place] + 1e-9).all()
    kept = json.loads(model.read_text())
    assert (kept["version"], kept["softmax"], len(kept["inference"]["tables"])) == (2, True, 3)
    assert kept["fitted"].get("class_weight") == ("balanced" if balanced else None)


def test_files_of_each_class_against_the_rest_still_predict(run, tmp_path):
    csv.write_csv(pa.table({"x": [-2.0, 0.1, 3.0]}), tmp_path / "new.csv")
    coef = np.array([[1.0], [0.5], [-1.0]])
    for together in (False, True):
        model = Model(ModelKind.logistic, "size", ("x",), coef, np.zeros(3), ("a", "b", "c"), softmax=together)
        kept = model.to_dict()
        if not together:
            assert kept["version"] == 1
            del kept["softmax"], kept["exposure"]
        (tmp_path / "model.json").write_text(json.dumps(kept))
        found = json.loads(run("predict", tmp_path / "model.json", tmp_path / "new.csv", "--json").stdout)
        scores = np.outer([-2.0, 0.1, 3.0], coef)
        each = 1 / (1 + np.exp(-scores))
        wanted = softmax(scores, axis=1) if together else each / each.sum(axis=1, keepdims=True)
        assert found["probability of b"] == pytest.approx(wanted[:, 1])


def test_a_page_of_several_classes(run, tmp_path, iris):
    page = tmp_path / "page.html"
    result = run("fit", iris[0], "--target", "kind", "--model", "logistic", "--report", page)
    assert result.exit_code == 0, result.stderr
    text = page.read_text()
    assert all(f">{label}</option>" in text for label in ("setosa", "versicolor", "virginica"))
    assert "It is on contrasts between the classes" in text


@pytest.fixture
def counted(tmp_path):
    """Counts over spans of different length, with the span in a column that would be a bad feature."""
    rng = np.random.default_rng(1)
    x, hours = rng.standard_normal(800), rng.uniform(0.2, 30.0, 800)
    count = rng.poisson(hours * np.exp(0.4 * x - 1.0))
    path = tmp_path / "counted.parquet"
    parquet.write_table(pa.table({"x": x, "hours": hours, "count": count}), path)
    return path, x, hours, count


def test_an_exposure_is_an_offset_in_fit_and_predict(run, tmp_path, counted):
    path, x, hours, count = counted
    model = tmp_path / "model.json"
    given = ("fit", path, "--target", "count", "--model", "poisson", "--exposure", "hours", "--alpha", 0)
    result = run(*given, "--out", model, "--json")
    assert result.exit_code == 0, result.stderr
    kept = json.loads(result.stdout)
    assert (kept["features"], kept["exposure"], kept["version"]) == (["x"], "hours", 2)

    def fitted(part):
        A = sm.add_constant(x[part])
        return sm.GLM(count[part], A, sm.families.Poisson(), exposure=hours[part]).fit(tol=1e-12)

    other = fitted(slice(None))
    assert [kept["intercept"], *kept["coef"]] == pytest.approx(other.params, rel=1e-6)
    found = json.loads(run("predict", model, path, "--interval", "--json").stdout)
    assert found["prediction"] == pytest.approx(other.predict(exposure=hours))
    assert (np.array(found["low"]) < found["prediction"]).all()
    assert found["score"]["score"] == pytest.approx(1 - other.deviance / other.null_deviance)
    first, last = fitted(slice(640)), slice(640, None)
    means = first.predict(sm.add_constant(x[last]), exposure=hours[last])
    level = hours[last] * count[last].sum() / hours[last].sum()
    family = sm.families.Poisson()
    share = 1 - family.deviance(count[last], means) / family.deviance(count[last], level)
    assert kept["fitted"]["holdout"]["score"] == pytest.approx(share)


def test_rows_without_an_exposure_have_no_prediction(run, tmp_path, counted):
    model = tmp_path / "model.json"
    run("fit", counted[0], "--target", "count", "--model", "poisson", "--exposure", "hours", "--out", model)
    new = tmp_path / "new.csv"
    new.write_text("x,hours\n0.0,2.0\n0.0,\n0.0,-1.0\n0.0,4.0\n")
    found = json.loads(run("predict", model, new, "--json").stdout)
    assert found["prediction"][1:3] == [None, None]
    assert found["prediction"][3] == pytest.approx(2 * found["prediction"][0])
    assert found["not_predicted"] == {"no number above 0 in 'hours'": 2}
    new.write_text("x\n0.0\n")
    refused = run("predict", model, new)
    assert refused.exit_code == 3
    assert "no column 'hours', which the model" in refused.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model", "linear", "--exposure", "hours"], "--exposure is for counts"),
        (["--model", "poisson", "--class-weight", "balanced"], "--class-weight is for classes"),
        (["--model", "poisson", "--exposure", "hour"], "hour"),
        (["--model", "poisson", "--exposure", "hours", "--features", "x,hours"], "'hours' is among the features"),
        (["--model", "poisson", "--exposure", "x"], "the exposure 'x' is -"),
    ],
)
def test_mistakes(run, counted, options, message):
    result = run("fit", counted[0], "--target", "count", *options)
    assert result.exit_code == 3
    assert message in result.stderr


@pytest.mark.parametrize(
    ("kind", "end", "why"),
    [("poisson", 0, "all 40 are 0, so that there is no deviance"), ("linear", 7, "all 40 are 7, so that there is no")],
)
def test_scores_that_are_not_defined_are_null_and_a_sentence(run, tmp_path, kind, end, why):
    """A quiet end: nothing varies in the rows that are held out, nor in the file that is predicted."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal(200)
    y = np.append(rng.poisson(np.exp(0.3 * x[:160])), np.full(40, end))
    csv.write_csv(pa.table({"x": x, "y": y}), tmp_path / "quiet.csv")
    csv.write_csv(pa.table({"x": x[160:], "y": y[160:]}), tmp_path / "end.csv")
    model = tmp_path / "model.json"
    given = ("fit", tmp_path / "quiet.csv", "--target", "y", "--model", kind, "--out", model)
    result = run(*given)
    assert result.exit_code == 0, result.stderr
    metric = {"poisson": "D²", "linear": "R²"}[kind]
    assert f"A fit to the first 160 rows has no {metric} on the last 40 rows: {why}" in result.stdout
    held = json.loads(model.read_text())["fitted"]["holdout"]
    assert held["score"] is None
    assert held["why_not"].startswith(why)
    page = tmp_path / "page.html"
    predicted = run("predict", model, tmp_path / "end.csv", "--json", "--report", page)
    score = json.loads(predicted.stdout)["score"]
    assert (score["metric"], score["score"]) == (metric, None)
    told = run("predict", model, tmp_path / "end.csv")
    assert f"{metric} against the column 'y'" in told.stderr
    assert "is not defined: all 40 are" in told.stderr


def test_no_count_at_all(run, tmp_path):
    """A fit that runs off to a rate of 0 is no crash either."""
    csv.write_csv(
        pa.table({"x": np.random.default_rng(3).standard_normal(200), "y": np.zeros(200)}), tmp_path / "q.csv"
    )
    result = run("fit", tmp_path / "q.csv", "--target", "y", "--model", "poisson", "--json")
    assert result.exit_code == 5
    assert json.loads(result.stdout)["fitted"]["holdout"]["score"] is None
