"""What a model file carries of how well it is known: intervals of predictions, notes, and what not to rely on."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import multireplay as mr


@pytest.fixture
def crowded(tmp_path):
    """Counts with so many features that curvature moves the fit by much of a standard error."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((2000, 60))
    counts = rng.poisson(np.exp(-1.5 + X @ rng.standard_normal(60) / 10))
    names = [f"c{i}" for i in range(60)]
    path = tmp_path / "counts.parquet"
    parquet.write_table(pa.table({**dict(zip(names, X.T, strict=True)), "cnt": counts}), path)
    return path, X, counts


def test_intervals_from_a_file_are_around_what_curvature_has_moved_as_in_python(run, tmp_path, crowded):
    path, X, counts = crowded
    given = ("--target", "cnt", "--model", "poisson", "--alpha", 0, "--holdout", 0)
    out, page = tmp_path / "m.json", tmp_path / "predicted.json"
    told = run("fit", path, *given, "--out", out)
    estimator = mr.MERPoissonRegressor(alpha=0, warn_autocorrelation=False).fit(X, counts)
    (known,) = estimator.uncertainties_
    assert known.images.off.any()
    assert f"{known.notes[0][1:]}." in told.stdout  # which Python's summary says too
    assert f"{known.notes[0][1:]}." in run("inspect", out).stdout
    page.write_text(run("predict", out, path, "--interval", "--json").stdout)
    found = json.loads(page.read_text())
    _, low, high = estimator.predict_interval(X)
    np.testing.assert_allclose(found["low"], low)
    np.testing.assert_allclose(found["high"], high)

    kept = json.loads(out.read_text())
    del kept["inference"]["tables"][0]["off"]  # as earlier versions have written it
    out.write_text(json.dumps(kept))
    assert run("predict", out, path, "--interval", "--json").exit_code == 0
    kept["inference"]["tables"][0]["off"] = [1.0, 2.0]
    out.write_text(json.dumps(kept))
    wrong = run("predict", out, path, "--interval", "--json")
    assert wrong.exit_code == 3
    assert "is damaged" in wrong.stderr


@pytest.mark.parametrize(("alpha", "said"), [(1e-4, False), (0.1, True)])
def test_a_ridge_is_told_where_it_matters(run, data, columns, alpha, said):
    """And by the summary in Python just so: that of the default is too small to be seen."""
    words = f"ntervals are for the penalized fit: what alpha={alpha:g} pulls towards 0 is not in them."
    given = ("fit", data, "--target", "count", "--features", "x,z", "--alpha", alpha, "--holdout", 0)
    assert (words in run(*given).stdout) == said
    X = np.column_stack([columns["x"], columns["z"]])
    estimator = mr.MERRegressor(alpha=alpha, warn_autocorrelation=False).fit(X, columns["count"])
    assert (words in str(estimator.summary())) == said


def test_what_holds_for_all_classes_is_said_once(run, tmp_path, columns):
    size = np.digitize(columns["x"] + np.cos(columns["z"]), [-1.0, 1.0])
    csv.write_csv(pa.table({"x": columns["x"], "z": columns["z"], "size": size}), tmp_path / "d.csv")
    given = ("--target", "size", "--model", "logistic", "--alpha", 0.1, "--out", tmp_path / "m.json")
    assert run("fit", tmp_path / "d.csv", *given).stdout.count("penalized fit") == 1
    assert run("inspect", tmp_path / "m.json").stdout.count("penalized fit") == 1


@pytest.fixture
def rare(tmp_path):
    """A column that is 1 on 12 of 3000 rows, on three occasions, and a model with it."""
    rng = np.random.default_rng(31)
    load, storm = rng.standard_normal(3000), np.zeros(3000)
    storm[[100, 101, 102, 103, 1100, 1101, 1102, 1103, 2500, 2501, 2502, 2503]] = 1.0
    wear = load - 2 * storm + rng.standard_normal(3000)
    parquet.write_table(pa.table({"load": load, "storm": storm, "wear": wear}), tmp_path / "rare.parquet")
    return tmp_path / "rare.parquet", tmp_path / "m.json"


def test_predictions_whose_intervals_are_not_to_be_relied_on_are_counted(run, tmp_path, rare):
    path, out = rare
    run("fit", path, "--target", "wear", "--out", out)
    words = (
        "12 of 3,000 predictions use storm, of which the record has seen too little: do not rely on their intervals."
    )
    page = tmp_path / "page.html"
    given = ("predict", out, path, "--interval")
    assert words in run(*given, "--out", tmp_path / "p.csv", "--report", page).stderr
    assert words in page.read_text(encoding="utf-8")
    found = json.loads(run(*given, "--json").stdout)["doubtful"]
    assert found == {"rows": 12, "by": {"storm": 12}, "sentence": words}
    assert words in run(*given, "--out", tmp_path / "parts", "--workers", 1).stderr
    assert "do not rely" not in run("predict", out, path).stderr  # which has no intervals
    assert json.loads(run("predict", out, path, "--json").stdout)["doubtful"] is None
    calm = tmp_path / "calm.csv"
    csv.write_csv(pa.table({"load": [1.0, 2.0], "storm": [0.0, 0.0]}), calm)
    found = json.loads(run("predict", out, calm, "--interval", "--json").stdout)["doubtful"]
    assert found == {"rows": 0, "by": {}, "sentence": None}


def test_the_page_of_predictions_has_standard_errors_and_marks(run, tmp_path, rare):
    path, out = rare
    run("fit", path, "--target", "wear", "--level", 0.8, "--out", out)
    page = tmp_path / "page.html"
    assert run("predict", out, path, "--report", page, "--out", tmp_path / "p.csv").exit_code == 0
    text = page.read_text(encoding="utf-8")
    assert all(words in text for words in ("standard error", "80 % from", "about 3 independent visits", "(intercept)"))
    kept = json.loads(out.read_text())
    kept["inference"] = None  # as an earlier version has written it
    out.write_text(json.dumps(kept))
    assert run("predict", out, path, "--report", page, "--out", tmp_path / "q.csv").exit_code == 0
    text = page.read_text(encoding="utf-8")
    assert "(intercept)" in text
    assert "standard error" not in text


def test_what_is_not_known_has_the_interval_that_fit_has_printed(run, tmp_path):
    rng = np.random.default_rng(32)
    x = rng.standard_normal(600)
    np.savez(tmp_path / "twice.npz", x=x, again=x, y=x + rng.standard_normal(600))
    out = tmp_path / "m.json"
    printed = run("fit", tmp_path / "twice.npz", "--target", "y", "--alpha", 0, "--out", out).stdout
    for text in (printed, run("inspect", out).stdout):
        row = next(line for line in text.splitlines() if line.split()[:1] == ["again"])
        assert row.split()[2:] == ["∞", "-∞", "∞", "not", "known"], row
