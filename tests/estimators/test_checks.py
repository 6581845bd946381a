"""scikit-learn's own checks, all of them."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import check_sample_weight_equivalence_on_dense_data, parametrize_with_checks

import multireplay as mr

NOT_REPEATED = (
    "a row of weight 2 is one longer step and a row given twice is two steps, so that the two agree only where the "
    "passes have converged; test_converged_weights_are_repetitions shows that they do then"
)
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": NOT_REPEATED,
    "check_sample_weight_equivalence_on_sparse_data": NOT_REPEATED,
}
WEIGHTED = [mr.MERRegressor(), mr.MERClassifier(), mr.MERPoissonRegressor()]


@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize_with_checks(
    [*WEIGHTED, mr.MERValueRegressor()],
    expected_failed_checks=lambda estimator: {} if isinstance(estimator, mr.MERValueRegressor) else EXPECTED,
)
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", WEIGHTED, ids=lambda estimator: type(estimator).__name__)
def test_converged_weights_are_repetitions(estimator):
    name = type(estimator).__name__
    check_sample_weight_equivalence_on_dense_data(name, type(estimator)(alpha=1.0, passes=401))
