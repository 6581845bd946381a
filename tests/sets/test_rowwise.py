"""The projections of many points at once, against those of one point at a time."""

from __future__ import annotations

import numpy as np
import pytest
from arrays_of import EVERY, strict_array, torch_array
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import multireplay as mr
from multireplay.buffer.foreign import as_numpy
from multireplay.sets import Ball, Box, Halfspace, L1Ball, NonNegative, Product, Set, Simplex, WholeSpace

DIM = 6
ALL = [
    WholeSpace(),
    NonNegative(),
    Ball(2.0),
    Ball(2.0, np.arange(6.0)),
    Box(-1.0, np.arange(6.0)),
    Box(-np.inf, 0.5),
    Simplex(3.0),
    L1Ball(0.5),
    Halfspace(np.arange(6.0), -1.0),
    Product((Simplex(), 2), (Product((WholeSpace(), 1), (Halfspace([1.0, -1.0], 0.0), 2)), 3), (L1Ball(), 1)),
]


class Diagonal(Set):
    """The multiples of (1, …, 1): a set as a user would write it."""

    def project(self, x):
        x[:] = x.mean()


def project_all(constraint, points, library=np.array):
    given = library(points)
    with np.errstate(all="ignore"):
        found = constraint.rowwise(points.shape[1], given)(given)
    assert type(found) is type(given)
    assert found.dtype == given.dtype
    assert found.shape == given.shape
    return as_numpy(found)


def one_by_one(constraint, points):
    return np.array([constraint.projected(point) for point in points])


@EVERY
@pytest.mark.parametrize("constraint", ALL, ids=repr)
def test_every_set_in_every_library(constraint, library):
    rng = np.random.default_rng(1)
    points = np.concatenate([scale * rng.standard_normal((20, DIM)) for scale in (0.01, 1.0, 1e6)])
    expected = one_by_one(constraint, points)
    found = project_all(constraint, points.copy(), library)
    assert np.allclose(found, expected, rtol=1e-12, atol=1e-10)
    inside = [constraint.contains(point, tol=0.0) for point in points]
    assert np.array_equal(found[inside], points[inside])


@st.composite
def sets_and_points(draw):
    """A set of any kind, and a few points of its dimension."""
    dim = draw(st.integers(1, 8))
    size = draw(st.floats(1e-3, 1e3))
    vector = arrays(np.float64, dim, elements=st.floats(-1e3, 1e3))
    kinds = [
        lambda: NonNegative(),
        lambda: Ball(size),
        lambda: Ball(size, draw(vector)),
        lambda: Box(np.minimum(low := draw(vector), high := draw(vector)), np.maximum(low, high)),
        lambda: Simplex(size),
        lambda: L1Ball(size),
        lambda: Halfspace(draw(vector) + np.where(np.arange(dim) == 0, 2e3, 0.0), draw(st.floats(-1e3, 1e3))),
    ]
    constraint = draw(st.sampled_from(kinds))()
    if draw(st.booleans()):
        constraint, dim = Product((constraint, dim), (Simplex(size), 3), (WholeSpace(), 1)), dim + 4
    return constraint, draw(arrays(np.float64, (4, dim), elements=st.floats(-1e6, 1e6)))


@settings(max_examples=200, deadline=None)
@given(sets_and_points(), st.sampled_from([np.array, torch_array, strict_array]))
def test_projections_agree_wherever_the_points_are(drawn, library):
    constraint, points = drawn
    scale = max(np.abs(points).max(), 1e3)
    found = project_all(constraint, points, library)
    assert np.allclose(found, one_by_one(constraint, points), rtol=0.0, atol=1e-12 * scale)


@settings(max_examples=100, deadline=None)
@given(
    arrays(np.float64, (3, 5), elements=st.floats(-1e300, 1e300)),
    st.floats(1e-300, 1e300),
    st.sampled_from([Simplex, L1Ball, Ball]),
)
def test_anywhere_in_the_range(points, size, kind):
    found, expected = project_all(kind(size), points), one_by_one(kind(size), points)
    assert np.isfinite(found).all()
    assert np.allclose(found, expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max())


@EVERY
@pytest.mark.parametrize("constraint", ALL[1:], ids=repr)
def test_nan_stays_visible_in_its_lane_alone(constraint, library):
    points = np.ones((3, DIM))
    points[1] = np.nan
    found = project_all(constraint, points, library)
    assert np.isnan(found).any(axis=1).tolist() == [False, True, False]


@EVERY
@pytest.mark.parametrize("constraint", [Simplex(), L1Ball(), Ball(1.0), WholeSpace(), NonNegative()])
def test_an_infinite_point_has_no_finite_projection(constraint, library):
    assert not np.isfinite(project_all(constraint, np.array([[np.inf, 0.5]]), library)).all()


@pytest.mark.parametrize("constraint", ALL, ids=repr)
def test_single_precision_stays_single(constraint):
    points = np.random.default_rng(0).standard_normal((30, DIM)).astype(np.float32)
    for library in (np.array, torch_array):
        found = project_all(constraint, points, library)
        assert np.allclose(found, one_by_one(constraint, points), rtol=1e-5, atol=1e-5)


def test_a_set_of_the_user_is_projected_lane_by_lane_in_numpy_alone():
    points = np.random.default_rng(0).standard_normal((5, 3))
    both = Product((Diagonal(), 2), (NonNegative(), 1))
    for constraint in (Diagonal(), both):
        assert np.array_equal(project_all(constraint, points), one_by_one(constraint, points))
        assert project_all(constraint, points.astype(np.float32)).dtype == np.float32
        with pytest.raises(
            mr.InputError, match=r"Diagonal\(\) is a plain Python set, .* arrays of torch on cpu use one"
        ):
            project_all(constraint, points, torch_array)


def test_the_dimension_is_checked():
    with pytest.raises(mr.InputError, match="lives in dimension 2, but the points have dimension 3"):
        Ball(1.0, [0.0, 0.0]).rowwise(3, np.zeros((1, 3)))


def test_the_whole_total_is_handed_out_in_single_precision_too():
    points = (1e-3 * np.random.default_rng(0).standard_normal((3, 20_000))).astype(np.float32)
    assert np.abs(project_all(Simplex(), points).sum(axis=1, dtype=np.float64) - 1).max() < 5e-7
