"""River's own checks of what an estimator does."""

from __future__ import annotations

import pytest

checks = pytest.importorskip("river.checks")

from multireplay.streaming.river import StreamClassifier, StreamRegressor  # noqa: E402

CHECKS = [(model, check) for model in (StreamRegressor, StreamClassifier) for check in checks.yield_checks(model())]


@pytest.mark.parametrize(("model", "check"), CHECKS, ids=[f"{m.__name__}-{c.__name__}" for m, c in CHECKS])
def test_river_checks(model, check):
    check(model())
