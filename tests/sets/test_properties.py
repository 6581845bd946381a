"""What makes a map the projection on a convex set, on points that Hypothesis looks for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from multireplay.sets import Ball, Box, Halfspace, L1Ball, NonNegative, Product, Set, Simplex, WholeSpace

quickly = settings(max_examples=200, deadline=None)


class Diagonal(Set):
    """The multiples of (1, …, 1): a set as a user would write it."""

    def project(self, x):
        x[:] = x.mean()


def numbers(bound):
    return st.floats(-bound, bound, allow_nan=False)


def vectors(dim, bound):
    return arrays(np.float64, dim, elements=numbers(bound))


def sizes():
    return st.floats(1e-3, 1e3)


@st.composite
def elementary(draw, dim):
    """A set of dimension ``dim`` of any kind but a product."""
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return WholeSpace()
    if kind == 1:
        return NonNegative()
    if kind == 2:
        return Ball(draw(sizes()))
    if kind == 3:
        return Ball(draw(sizes()), draw(vectors(dim, 1e3)))
    if kind == 4:
        lower = draw(vectors(dim, 1e3))
        return Box(lower, lower + np.abs(draw(vectors(dim, 1e3))))
    if kind == 5:
        return Box(draw(st.sampled_from([-np.inf, -1.0, 0.0])), draw(st.sampled_from([0.0, 2.0, np.inf])))
    if kind == 6:
        return Simplex(draw(sizes()))
    if kind == 7:
        return L1Ball(draw(sizes()))
    if kind == 8:
        normal = draw(vectors(dim, 1e3))
        normal[draw(st.integers(0, dim - 1))] = draw(sizes())
        return Halfspace(normal, draw(numbers(1e3)))
    return Diagonal()


@st.composite
def sets_and_points(draw, count, bound=1e6):
    """A set, products included, and ``count`` points of its dimension."""
    dims = draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
    factors = [(draw(elementary(dim)), dim) for dim in dims]
    constraint = factors[0][0] if len(factors) == 1 else Product(*factors)
    return constraint, *(draw(vectors(sum(dims), bound)) for _ in range(count))


def scale_of(*points):
    return max(np.abs(point).max() for point in points)


@quickly
@given(sets_and_points(1))
def test_result_is_in_the_set_and_stays_where_it_is(drawn):
    constraint, x = drawn
    before = x.copy()
    p = constraint.projected(x)
    np.testing.assert_array_equal(x, before)
    rounding_alone = scale_of(p) < 1e-15 * scale_of(x)  # of an exact 0, which has no scale to be relative to
    assert rounding_alone or constraint.contains(p, tol=1e-12)
    again = constraint.projected(p)
    np.testing.assert_allclose(again, p, rtol=0.0, atol=1e-13 * max(scale_of(p), 1e3))
    assert constraint.contains(x) == (np.abs(x - p).max() <= 1e-9 * scale_of(x, p))


@quickly
@given(sets_and_points(2))
def test_projection_expands_no_distance(drawn):
    constraint, x, y = drawn
    moved = np.linalg.norm(constraint.projected(x) - constraint.projected(y))
    assert moved <= np.linalg.norm(x - y) + 1e-12 * max(scale_of(x, y), 1e3)


@quickly
@given(sets_and_points(2, bound=1e4))
def test_variational_characterisation(drawn):
    constraint, x, other = drawn
    p, z = constraint.projected(x), constraint.projected(other)
    assert (x - p) @ (z - p) <= 1e-12 * max(scale_of(x, p, z), 1e3) ** 2


@quickly
@given(
    st.sampled_from(["simplex", "l1 ball", "ball"]),
    st.integers(1, 30),
    st.integers(0, 2**32 - 1),
    st.floats(-8, 8),
)
def test_variational_characterisation_at_points_drawn_directly(kind, dim, seed, exponent):
    rng = np.random.default_rng(seed)
    x = 10.0**exponent * rng.standard_normal(dim)
    z = rng.dirichlet(np.ones(dim))
    constraint = Simplex()
    if kind == "l1 ball":
        constraint, z = L1Ball(), z * rng.choice([-1.0, 1.0], size=dim) * rng.uniform()
    elif kind == "ball":
        constraint, z = Ball(1.0), rng.uniform() * z / np.linalg.norm(z)
    assert constraint.contains(z)
    p = constraint.projected(x)
    assert (x - p) @ (z - p) <= 1e-13 * (1.0 + scale_of(x)) * dim


@quickly
@given(st.data(), st.lists(st.integers(1, 5), min_size=2, max_size=5))
def test_product_projects_factor_by_factor_however_nested(data, dims):
    factors = [(data.draw(elementary(dim)), dim) for dim in dims]
    x = data.draw(vectors(sum(dims), 1e4))
    blocks = np.split(x, np.cumsum(dims)[:-1])
    expected = np.concatenate([s.projected(b) for (s, _), b in zip(factors, blocks, strict=True)])
    cut = data.draw(st.integers(1, len(dims) - 1))
    inner = (Product(*factors[:cut]), sum(dims[:cut]))
    for product in (
        Product(*factors),
        Product(inner, *factors[cut:]),
        Product((Product(inner), inner[1]), *factors[cut:]),
    ):
        np.testing.assert_array_equal(product.projected(x), expected)
        assert product.factors == tuple(factors)


@quickly
@given(arrays(np.float64, st.integers(1, 8), elements=numbers(1e300)), st.floats(1e-300, 1e300))
def test_simplex_and_l1_ball_anywhere_in_the_range(x, total):
    for constraint in (Simplex(total), L1Ball(total), Ball(total)):
        p = constraint.projected(x)
        assert np.isfinite(p).all()
        assert constraint.contains(p, tol=1e-14)
        np.testing.assert_allclose(constraint.projected(p), p, rtol=0.0, atol=1e-14 * scale_of(p))
    assert Simplex(total).projected(x).sum() == pytest.approx(total, rel=1e-14)
    assert np.abs(L1Ball(total).projected(x)).sum() <= total * (1.0 + 1e-14)


@pytest.mark.parametrize(
    "constraint", [Simplex(), L1Ball(), Ball(1.0), Box(-1.0, 1.0), NonNegative(), Halfspace([1.0, 2.0], 1.0)]
)
@pytest.mark.parametrize("bad", [[np.nan, 2.0], [3.0, np.nan], [np.nan, np.nan]])
def test_nan_stays_visible(constraint, bad):
    assert np.isnan(constraint.projected(bad)).any()
    assert not constraint.contains(bad)


@pytest.mark.parametrize("constraint", [Simplex(), L1Ball(), Ball(1.0), WholeSpace(), NonNegative()])
def test_an_infinite_point_is_in_no_set_and_has_no_finite_projection(constraint):
    assert not constraint.contains([np.inf, 0.5])
    assert not np.isfinite(constraint.projected([np.inf, 0.5])).all()
