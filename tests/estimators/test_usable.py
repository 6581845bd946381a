"""Arrays that are usable as they are skip scikit-learn's checks, and nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.utils import validation

import multireplay as mr
from multireplay.estimators import base


def stream(seed=0, rows=300):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, 3))
    return X, X @ [1.0, 2.0, 0.0] + rng.standard_normal(rows)


def by_rows(model, X, y, **options):
    for i in range(len(y)):
        model.partial_fit(X[i : i + 1], y[i : i + 1], **options)
    return model


@pytest.mark.parametrize("kind", [mr.MERRegressor, mr.MERClassifier, mr.MERPoissonRegressor])
def test_rows_one_by_one_are_checked_by_scikit_learn_only_once(kind, monkeypatch):
    asked = []
    monkeypatch.setattr(base, "validate_data", lambda *a, **k: asked.append(1) or validation.validate_data(*a, **k))
    X, y = stream()
    y, options = (y > 0, {"classes": [0, 1]}) if kind is mr.MERClassifier else (np.abs(y).round(), {})
    y = y.astype(int)
    quick = by_rows(kind(capacity=64), X, y, **options)
    assert len(asked) == 1
    slow = by_rows(kind(capacity=64), X.tolist(), y.tolist(), **options)
    assert len(asked) == 1 + len(y)
    np.testing.assert_array_equal(quick.coef_, slow.coef_)
    np.testing.assert_array_equal(quick.intercept_, slow.intercept_)
    np.testing.assert_array_equal(quick.predict(X), slow.predict(X.tolist()))


@pytest.mark.parametrize(
    ("X", "y", "words"),
    [
        (np.array([[1.0, np.nan, 0.0]]), np.ones(1), "NaN"),
        (np.array([[1.0, np.inf, 0.0]]), np.ones(1), "infinity"),
        (np.ones((1, 4)), np.ones(1), "4 features"),
        (np.ones((1, 3)), np.array([np.nan]), "NaN"),
        (np.ones((2, 3)), np.ones(1), "inconsistent numbers of samples"),
        (np.ones((0, 3)), np.ones(0), "0 sample"),
        (np.ones(3), np.ones(1), "2D array"),
    ],
)
def test_what_cannot_be_used_is_still_refused(X, y, words):
    model = by_rows(mr.MERRegressor(), *stream(1, 20))
    with pytest.raises(ValueError, match=words):
        model.partial_fit(X, y)


def test_names_are_still_compared():
    pandas = pytest.importorskip("pandas")
    X, y = stream(2, 40)
    model = mr.MERRegressor().partial_fit(pandas.DataFrame(X, columns=["a", "b", "c"]), y)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.partial_fit(X[:1], y[:1])
