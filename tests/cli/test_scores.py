"""Scores from sums: those of scikit-learn, however the rows are cut into parts."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, d2_tweedie_score, r2_score

from multireplay.cli.options import ModelKind
from multireplay.cli.scores import Tally, score_by, tally


@pytest.mark.parametrize("kind", list(ModelKind))
@pytest.mark.parametrize("spans", [False, True], ids=["", "exposure"])
def test_they_are_those_of_scikit_learn(kind, spans):
    rng = np.random.default_rng(7)
    rate, exposure = np.exp(rng.standard_normal(300)), rng.uniform(1, 9, 300) if spans else None
    each = np.ones(300) if exposure is None else exposure
    truth, made = rng.poisson(rate * each), rate * each * rng.uniform(0.8, 1.2, 300)
    expected = {
        ModelKind.linear: lambda: r2_score(truth / each, made / each, sample_weight=exposure),
        ModelKind.logistic: lambda: accuracy_score(truth > 1, made > 1),
        ModelKind.poisson: lambda: d2_tweedie_score(truth / each, made / each, sample_weight=exposure, power=1),
    }[kind]()
    if kind is ModelKind.logistic:
        truth, made = truth > 1, made > 1
    assert score_by(kind, truth, made, exposure)["score"] == pytest.approx(expected, rel=1e-12)
    parts = [slice(0, 1), slice(1, 120), slice(120, 120), slice(120, 300)]
    tallies = [tally(kind, truth[p], made[p], None if exposure is None else exposure[p]) for p in parts]
    assert reduce(Tally.joined, tallies).score(kind)["score"] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("kind", "truth", "made", "why"),
    [
        (ModelKind.linear, [1.0], [1.0], "fewer than two"),
        (ModelKind.linear, [3.0, 3.0], [1.0, 2.0], "all 2 are 3, so that there is no variance"),
        (ModelKind.poisson, [3.0, -1.0], [1.0, 2.0], "below 0"),
        (ModelKind.poisson, [3.0, 1.0], [1.0, np.inf], "0 or infinite"),
        (ModelKind.poisson, [0.0, 0.0], [1.0, 2.0], "all 2 are 0, so that there is no deviance"),
    ],
)
def test_where_there_is_none(kind, truth, made, why):
    both = [tally(kind, np.array(truth[k : k + 1]), np.array(made[k : k + 1])) for k in range(len(truth))]
    found = reduce(Tally.joined, both).score(kind)
    assert found["score"] is None
    assert why in found["why_not"]
    assert score_by(kind, np.array(truth), np.array(made)) == found
