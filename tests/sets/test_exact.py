"""Every projection against an independent answer: a quadratic program, or rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import cvxpy as cp
import numpy as np
import pytest

from multireplay.sets import Ball, Box, Halfspace, L1Ball, NonNegative, Product, Simplex, WholeSpace

SCALES = [0.01, 1.0, 30.0]


def quadratic_program(point, constraints):
    z = cp.Variable(point.size)
    tight = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-10)
    cp.Problem(cp.Minimize(cp.sum_squares(z - point)), constraints(z)).solve(solver=cp.CLARABEL, **tight)
    return z.value


def cases(dim, rng):
    center, lower, normal = rng.normal(size=(3, dim))
    upper = lower + rng.exponential(size=dim)
    first = (dim + 1) // 2
    return {
        "whole": (WholeSpace(), lambda z: []),
        "ball": (Ball(1.5), lambda z: [cp.norm(z, 2) <= 1.5]),
        "ball at": (Ball(0.7, center), lambda z: [cp.norm(z - center, 2) <= 0.7]),
        "box": (Box(lower, upper), lambda z: [z >= lower, z <= upper]),
        "box below": (Box(-np.inf, upper), lambda z: [z <= upper]),
        "box of numbers": (Box(-0.5, 0.25), lambda z: [z >= -0.5, z <= 0.25]),
        "nonnegative": (NonNegative(), lambda z: [z >= 0]),
        "simplex": (Simplex(), lambda z: [z >= 0, cp.sum(z) == 1]),
        "simplex 5": (Simplex(5.0), lambda z: [z >= 0, cp.sum(z) == 5]),
        "l1 ball": (L1Ball(2.0), lambda z: [cp.norm(z, 1) <= 2]),
        "halfspace": (Halfspace(normal, -0.3), lambda z: [normal @ z <= -0.3]),
        "product": (
            Product((Simplex(2.0), first), (Ball(0.5), dim + 1 - first)),
            lambda z: [z[:first] >= 0, cp.sum(z[:first]) == 2, cp.norm(z[first:], 2) <= 0.5],
        ),
    }


@pytest.mark.parametrize("name", cases(1, np.random.default_rng(0)))
@pytest.mark.parametrize("dim", [1, 2, 7, 40])
def test_projection_solves_the_quadratic_program(name, dim):
    rng = np.random.default_rng(dim)
    constraint, constraints = cases(dim, rng)[name]
    for scale in SCALES:
        point = scale * rng.normal(size=dim + (name == "product"))
        ours = constraint.projected(point)
        theirs = quadratic_program(point, constraints)
        assert np.abs(ours - theirs).max() < 2e-5 * max(1.0, scale)
        assert constraint.contains(ours)


def exact_simplex(point, total):
    """The projection on the simplex by sorting (Held, Wolfe, Crowder 1974) in rational arithmetic."""
    exact = [Fraction(float(v)) for v in point]
    cumulative, threshold = -Fraction(total), Fraction(0)
    for count, value in enumerate(sorted(exact, reverse=True), start=1):
        cumulative += value
        if value > cumulative / count:
            threshold = cumulative / count
    return [max(v - threshold, Fraction(0)) for v in exact]


def simplex_points():
    rng = np.random.default_rng(7)
    yield "one entry", np.array([-3.0])
    yield "ties", np.zeros(9)
    yield "zeros of both signs", np.array([-0.0, 0.0])
    yield "ties far out", np.full(5, 1e300)
    yield "ties at the edge", np.array([1.0, 1.0, 0.5, 0.5, 0.0, 0.0])
    yield "huge and tiny", np.array([1e300, 1e-300, -1e300, 0.0, 1e-300])
    yield "tiny", np.array([1e-300, 3e-300, -1e-300])
    yield "subnormal", np.array([5e-324, 0.0, 1e-310])
    yield "far offset", 1e9 + rng.normal(size=50)
    yield "geometric", 2.0 ** -np.arange(200.0)
    yield "one above many", np.concatenate(([0.0], np.full(2000, -0.9)))
    for dim in (2, 10, 300):
        for scale in (1e-9, 0.1, 1.0, 100.0):
            yield f"normal {dim} {scale}", scale * rng.normal(size=dim)


@pytest.mark.parametrize("total", [1.0, 3e-300, 1e-3, 1e6, 1e300])
@pytest.mark.parametrize(("name", "point"), list(simplex_points()))
def test_simplex_agrees_with_rational_arithmetic(name, point, total):
    ours = Simplex(total).projected(point)
    exact = exact_simplex(point, total)
    error = max(abs(Fraction(float(a)) - b) for a, b in zip(ours, exact, strict=True))
    assert float(error / Fraction(total)) < 1e-15
    assert (ours >= 0.0).all()
    excess = sum(Fraction(float(a)) for a in ours) - Fraction(total)
    assert float(abs(excess) / Fraction(total)) < 2e-16 * (5 + point.size)


@pytest.mark.parametrize("radius", [1.0, 3e-300, 1e-3, 1e6, 1e300])
@pytest.mark.parametrize(("name", "point"), list(simplex_points()))
def test_l1_ball_agrees_with_rational_arithmetic(name, point, radius):
    point = point * np.where(np.arange(point.size) % 2, -1.0, 1.0)
    ours = L1Ball(radius).projected(point)
    if sum(abs(Fraction(float(v))) for v in point) <= Fraction(radius):
        np.testing.assert_array_equal(ours, point)
        return
    exact = exact_simplex(np.abs(point), radius)
    error = max(abs(abs(Fraction(float(a))) - b) for a, b in zip(ours, exact, strict=True))
    assert float(error / Fraction(radius)) < 1e-15
    assert (ours * np.sign(point) >= 0.0).all()


@pytest.mark.parametrize("deepest", [1e-3, 1.0, 1e3, 1e300])
def test_simplex_on_depths_that_grow_geometrically(deepest):
    # Here a Newton step drops the fewest entries: the slowest case, and the one most exposed to rounding.
    for dim in (20, 600):
        point = -np.geomspace(1e-30, deepest, dim)
        pairs = zip(Simplex().projected(point), exact_simplex(point, 1.0), strict=True)
        assert float(max(abs(Fraction(float(a)) - b) for a, b in pairs)) < 1e-15


def test_simplex_ends_when_an_entry_lies_exactly_at_the_threshold():
    # Rounding puts the last entry in and out of the support in turn: "until nothing changes" never ends here.
    point = -np.array([0.0, 0.7, 1.0, 0.5, 0.4, 1.12])
    for projected in (Simplex(3.0).projected(point), -L1Ball(3.0).projected(-(point + 1.2))):
        np.testing.assert_allclose(projected, [1.12, 0.42, 0.12, 0.62, 0.72, 0.0], rtol=0.0, atol=1e-15)


def test_ball_is_exact_at_both_ends_of_the_range():
    assert Ball(1.0).projected([3e300, 4e300]) == pytest.approx([0.6, 0.8], rel=1e-15)
    assert Ball(1.0).projected([1.5e308, 1.5e308]) == pytest.approx([np.sqrt(0.5)] * 2, rel=1e-15)
    assert Ball(1e-300).projected([3e300, 4e300]) == pytest.approx([0.6e-300, 0.8e-300], rel=1e-15)
    assert Ball(1e-300).projected([3e-290, -4e-290]) == pytest.approx([0.6e-300, -0.8e-300], rel=1e-15)
    np.testing.assert_array_equal(Ball(1e-300).projected([3e-301, 4e-301]), [3e-301, 4e-301])
    np.testing.assert_array_equal(Ball(1e300).projected([3e299, 4e299]), [3e299, 4e299])
    np.testing.assert_array_equal(Ball(1.0).projected([0.0, 0.0]), [0.0, 0.0])


def test_halfspace_keeps_the_offset_from_far_away():
    np.testing.assert_array_equal(Halfspace([1.0], 1.0).projected([1e20]), [1.0])
    np.testing.assert_array_equal(Halfspace([1.0, 1.0], 2.0).projected([1e300, 1e300]), [1.0, 1.0])
    assert Halfspace([1e-300, 0.0], 1e-300).projected([5.0, 7.0]) == pytest.approx([1.0, 7.0], rel=1e-15)
    assert Halfspace([1e300, 0.0], 1e300).projected([5.0, 7.0]) == pytest.approx([1.0, 7.0], rel=1e-15)
