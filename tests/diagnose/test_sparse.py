"""Sparse columns and states are looked at by what is most frequent in them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import multireplay as mr
from multireplay.buffer.columns import SparseColumn
from multireplay.diagnose import integrated_autocorrelation_time
from multireplay.diagnose.examine import most_frequent
from multireplay.errors import InputError

RNG = np.random.default_rng(5)
WALK = np.cumsum(RNG.integers(-1, 2, 4000)) % 90
INDICATORS = np.eye(90)[WALK]


def test_a_narrow_sparse_column_is_diagnosed_like_the_dense_one():
    A = INDICATORS[:, :40] * RNG.standard_normal((4000, 40))
    dense, sparse = (mr.diagnose(mr.Buffer(features=rows)) for rows in (A, sp.csr_array(A)))
    assert sparse.tau == dense.tau
    assert sparse.ess == dense.ess
    assert sparse.slowest.label == dense.slowest.label
    assert sparse.slowest.constant == dense.slowest.constant
    assert str(sparse) == str(dense)


def test_of_a_wide_one_the_most_frequent_features_are_looked_at():
    d = mr.diagnose(mr.Buffer(features=sp.csr_array(INDICATORS)), max_features=7)
    frequent = np.sort(np.argsort(-INDICATORS.sum(axis=0), kind="stable")[:7])
    times = [integrated_autocorrelation_time(INDICATORS[:, j]) for j in frequent]
    (column,) = d.columns
    assert (column.width, column.examined, column.sparse) == (90, 7, True)
    assert column.tau_max == pytest.approx(max(times))
    assert column.tau_median == pytest.approx(np.median(times))
    assert column.worst_feature == frequent[np.argmax(times)]
    assert "Of sparse columns and of states the most frequent features are examined" in " ".join(str(d).split())
    assert "even spaces" not in str(d)
    assert mr.diagnose({"features": INDICATORS}, max_features=7).columns[0].sparse is False


def test_states_are_visits_and_not_numbers():
    d = mr.diagnose(mr.Buffer(states=WALK[:-1], next_states=WALK[1:], rewards=RNG.standard_normal(3999)))
    by_hand = mr.diagnose({"visits": sp.csr_array(INDICATORS[:-1])})
    assert d.columns[0].tau_max == by_hand.tau
    assert d.columns[0].label.startswith("states[")
    assert d.columns[2].scalar
    shuffled = np.random.default_rng(0).permutation(90)[WALK]  # other names for the same states
    assert mr.diagnose({"states": shuffled}, max_features=None).tau == pytest.approx(
        mr.diagnose({"states": WALK}, max_features=None).tau
    )


def test_ties_take_the_first():
    assert most_frequent(SparseColumn(np.eye(6)), 3).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"features": sp.csr_array(np.eye(3))}, "Column 'features' has 3 rows; at least 4 are needed"),
        ({"features": sp.csr_array((5, 0))}, "Column 'features' has no features"),
        ({"states": np.array([0, 1, -1, 0])}, "Column 'states' is -1 at row 2; states are counted from 0"),
        ({"features": sp.csr_array(np.full((5, 1), np.nan))}, "holds nan at row 0, feature 0"),
        ({"features": sp.csr_array(np.eye(5)), "y": np.ones(4)}, "'y' has 4 rows and 'features' has 5"),
    ],
)
def test_errors(columns, message):
    with pytest.raises(InputError, match=message):
        mr.diagnose(columns)
