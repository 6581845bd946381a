"""The derivative of a projection in closed form, against differences of the projection."""

from __future__ import annotations

import numpy as np
import pytest
from every_set import DIM, SETS
from hypothesis import given, settings
from hypothesis import strategies as st

from multireplay import sets


@pytest.mark.parametrize("name", SETS)
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32), size=st.sampled_from([0.05, 0.3, 3.0]))
def test_as_by_differences(name, seed, size):
    x = size * np.random.default_rng(seed).standard_normal(DIM)
    exact, differences = SETS[name].derivative(x), sets.Set.derivative(SETS[name], x)
    kink = np.abs(SETS[name].derivative(x * (1 + 1e-5)) - exact).max() > 1e-3
    assert kink or np.allclose(exact, differences, atol=1e-4)
    assert np.allclose(exact, exact.T)
    assert np.linalg.eigvalsh(exact)[[0, -1]] == pytest.approx([0.5, 0.5], abs=0.5 + 1e-12)


def test_of_a_halfspace_in_any_units():
    for unit in (1e-200, 1.0, 1e200):
        halfspace = sets.Halfspace([unit, unit], unit)
        assert np.allclose(halfspace.derivative(np.array([2.0, 1.0])), [[0.5, -0.5], [-0.5, 0.5]])
        assert np.array_equal(halfspace.derivative(np.zeros(2)), np.eye(2))
