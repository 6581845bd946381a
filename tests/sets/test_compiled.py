"""The spec, and the projection called from compiled code."""

from __future__ import annotations

import os
import subprocess
import sys

import numba
import numpy as np
import pytest

from multireplay.sets import (
    Ball,
    Box,
    Halfspace,
    L1Ball,
    NonNegative,
    Product,
    Set,
    Simplex,
    WholeSpace,
    projections,
)
from multireplay.sets.projections import project

DIM = 6
ALL = [
    WholeSpace(),
    NonNegative(),
    Ball(2.0),
    Ball(2.0, np.arange(6.0)),
    Box(-1.0, np.arange(6.0)),
    Simplex(3.0),
    L1Ball(0.5),
    Halfspace(np.arange(6.0), -1.0),
    Product((Simplex(), 2), (Product((WholeSpace(), 1), (Halfspace([1.0, -1.0], 0.0), 2)), 3), (L1Ball(), 1)),
]


@numba.njit
def descend(x, target, step, spec, steps):
    for _ in range(steps):
        for i in range(x.size):
            x[i] -= step * (x[i] - target[i])
        project(x, spec)


@pytest.mark.parametrize("constraint", ALL, ids=repr)
def test_projected_gradient_in_a_compiled_loop_ends_at_the_projection(constraint):
    target = 3.0 * np.random.default_rng(1).normal(size=DIM)
    x = np.zeros(DIM)
    descend(x, target, 0.5, constraint.spec(DIM), 100)
    np.testing.assert_allclose(x, constraint.projected(target), rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("constraint", ALL, ids=repr)
def test_spec_alone_says_the_set(constraint):
    spec = constraint.spec(DIM)
    assert spec.dtype == np.float64
    assert spec.flags.c_contiguous
    for point in 10.0 * np.random.default_rng(2).normal(size=(20, DIM)):
        via_spec = point.copy()
        assert project(via_spec, spec) is None
        np.testing.assert_array_equal(via_spec, constraint.projected(point))
    np.testing.assert_array_equal(spec, constraint.spec(DIM))


@pytest.mark.parametrize("constraint", ALL, ids=repr)
def test_arrays_are_borrowed_and_released(constraint):
    x, spec = np.full(DIM, 3.0), constraint.spec(DIM)
    before = sys.getrefcount(x), sys.getrefcount(spec)
    for _ in range(50):
        project(x, spec)
        descend(x, np.ones(DIM), 0.5, spec, 2)
    assert (sys.getrefcount(x), sys.getrefcount(spec)) == before


def test_spec_is_laid_out_as_documented():
    np.testing.assert_array_equal(WholeSpace().spec(3), [0.0])
    np.testing.assert_array_equal(NonNegative().spec(3), [projections.NONNEGATIVE])
    np.testing.assert_array_equal(Ball(2.0).spec(2), [projections.BALL, 2.0, 0.0, 0.0])
    np.testing.assert_array_equal(Box(0.0, [1.0, np.inf]).spec(2), [projections.BOX, 0.0, 0.0, 1.0, np.inf])
    np.testing.assert_array_equal(Simplex(2.0).spec(4), [projections.SIMPLEX, 2.0])
    np.testing.assert_array_equal(L1Ball(2.0).spec(4), [projections.L1_BALL, 2.0])
    np.testing.assert_array_equal(
        Product((Simplex(2.0), 3), (NonNegative(), 1)).spec(4),
        [projections.PRODUCT, 2, 3, 2, projections.SIMPLEX, 2.0, 1, 1, projections.NONNEGATIVE],
    )


def test_a_set_of_the_user_has_no_spec_and_neither_has_its_product():
    class Origin(Set):
        def project(self, x):
            x[:] = 0.0

    product = Product((Origin(), 2), (NonNegative(), 1))
    assert Origin().spec(2) is None
    assert product.spec(3) is None
    np.testing.assert_array_equal(product.projected([1.0, 2.0, 3.0]), [0.0, 0.0, 3.0])
    assert repr(Origin()) == "Origin()"


COLD = """
import numpy as np
import multireplay as mr

rng = np.random.default_rng(0)
features = rng.standard_normal((400, 3))
targets = features @ [1.0, 2.0, 3.0] + rng.standard_normal(400)
mr.solve(mr.GLM(), mr.Buffer(features=features, targets=targets))
mr.solve(mr.GLM("logistic"), mr.Buffer(features=features, targets=(targets > 0).astype(float)))
pairs = mr.Buffer(features=features[:-1], next_features=features[1:], rewards=targets[:-1])
mr.solve(mr.PolicyEvaluation(0.9), pairs)
for free in (mr.sets.WholeSpace(), mr.sets.NonNegative(), mr.sets.Product((mr.sets.Box(-1, 1), 2))):
    free.check(2)
    assert free.contains(free.projected([0.5, 0.25]))
"""


def test_a_default_call_compiles_nothing(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", COLD], check=True, env=environment)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
