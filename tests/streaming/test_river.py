"""River's own checks of what an estimator does."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

checks = pytest.importorskip("river.checks")

from multireplay.errors import InputError  # noqa: E402
from multireplay.streaming.river import StreamClassifier, StreamRegressor  # noqa: E402

CHECKS = [(model, check) for model in (StreamRegressor, StreamClassifier) for check in checks.yield_checks(model())]


@pytest.mark.parametrize(("model", "check"), CHECKS, ids=[f"{m.__name__}-{c.__name__}" for m, c in CHECKS])
def test_river_checks(model, check):
    check(model())


def test_words_that_go_on_coming():
    """From 500 features to 700: the stream goes on with a window, which begins with the rows that were kept."""
    rng, model = np.random.default_rng(0), StreamRegressor()
    effects = dict(enumerate(rng.standard_normal(700)))
    for row in range(3000):
        words = rng.choice(500 if row < 1500 else 700, 5, replace=False).tolist()
        model.learn_one(dict.fromkeys(words, 1.0), sum(effects[word] for word in words))
    assert model._stream.position == 3000  # all of them: 4096 are kept
    some = [rng.choice(700, 5, replace=False).tolist() for _ in range(50)]
    told = [model.predict_one(dict.fromkeys(words, 1.0)) for words in some]
    truth = [sum(effects[word] for word in words) for words in some]
    assert np.corrcoef(told, truth)[0, 1] > 0.9
    exact = model._stream.x
    places = model._places
    assert np.allclose([exact[0] + sum(exact[places[word]] for word in words) for words in some], truth, atol=1e-5)


@pytest.mark.parametrize(
    "labels",
    [
        (False, True), (True, False), (1, 0), (np.int64(0), 1.0), ("ham", "spam"), ("spam", "ham"), (-1, 1), (1, -1),
        ("False", "True"), (1, 2), ("no", True), (True, 0.0),
    ],
    ids=str,
)  # fmt: skip
def test_any_two_labels(labels):
    """One by one and together, whichever comes first."""
    rng, model, shown = np.random.default_rng(1), StreamClassifier(), set(labels)
    a = rng.standard_normal(300)
    a[:2] = -1.0, 1.0
    classes = [labels[int(value > 0)] for value in a]
    for value, label in zip(a[:100].tolist(), classes[:100], strict=True):
        model.learn_one({"a": value}, label)
    model.learn_many(pd.DataFrame({"a": a[100:]}), pd.Series(classes[100:], dtype=object))
    chances = model.predict_proba_one({"a": 1.0})
    assert set(chances) == shown
    assert chances[labels[1]] == 1 - chances[labels[0]] > 0.9
    assert model.predict_one({"a": -1.0}) == labels[0]
    assert set(model.predict_proba_many(pd.DataFrame({"a": [1.0]})).columns) == shown
    position = model._stream.position
    for third in ("third", None, float("nan")):
        with pytest.raises(InputError, match=r"is a third|True or False, or one of two labels"):
            model.learn_one({"a": 1.0, "new": 1.0}, third)
    assert (model._stream.position, set(model.predict_proba_one({"a": 1.0}))) == (position, shown)


def test_before_there_are_two_labels():
    model = StreamClassifier()
    assert model.predict_proba_one({"a": 1.0}) == {False: 0.5, True: 0.5}
    model.learn_one({"a": 1.0}, True)
    assert set(model.predict_proba_one({"a": 1.0})) == {False, True}
    model = StreamClassifier()
    model.learn_one({"a": 1.0}, "spam")
    assert model.predict_proba_one({"a": 1.0}) == {"spam": 1.0}
