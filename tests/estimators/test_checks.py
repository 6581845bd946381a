"""scikit-learn's own checks, all of them."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import multireplay as mr


@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize_with_checks([mr.MERRegressor(), mr.MERClassifier(), mr.MERPoissonRegressor(), mr.MERValueRegressor()])
def test_scikit_learn(estimator, check):
    check(estimator)
