"""River's own checks of what an estimator does."""

from __future__ import annotations

import numpy as np
import pytest

checks = pytest.importorskip("river.checks")

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
