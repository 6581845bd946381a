"""The sets as Python objects: arguments, messages, immutability, equality, pickling."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from every_set import DIM, SETS

from multireplay.errors import InputError
from multireplay.sets import Ball, Box, Halfspace, L1Ball, NonNegative, Product, Set, Simplex, WholeSpace

ALL = [
    WholeSpace(),
    NonNegative(),
    Ball(2.0),
    Ball(2.0, [1.0, 2.0]),
    Box(-1.0, [1.0, 2.0]),
    Box(-1.0, 1.0),
    Simplex(3.0),
    L1Ball(0.5),
    Halfspace([1.0, 2.0], -1.0),
    Product((Simplex(), 1), (Ball(1.0, [2.0]), 1)),
]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Ball(0.0), "Ball: radius must be a positive finite number, but is 0.0."),
        (lambda: Ball(-1), "Ball: radius must be a positive finite number, but is -1."),
        (lambda: Ball(np.nan), "Ball: radius must be a number, but is nan."),
        (lambda: Ball(np.inf), "Ball: radius must be a positive finite number, but is inf."),
        (lambda: Ball("wide"), "Ball: radius must be a number, but is 'wide'."),
        (lambda: Ball(10**400), "Ball: radius must be a positive finite number, but is 1000"),
        (lambda: Ball(1.0, [0.0, np.nan]), "Ball: center must not contain nan, but center[1] is nan."),
        (lambda: Ball(1.0, [0.0, -np.inf]), "Ball: center must be finite, but center[1] is -inf."),
        (
            lambda: Ball(1.0, [[0.0]]),
            "Ball: center must be a vector with at least one entry, but has shape (1, 1).",
        ),
        (lambda: Ball(1.0, ["a"]), "Ball: center must be a vector of numbers, but is ['a']."),
        (
            lambda: Box([0.0, 3.0], [1.0, 2.0]),
            "Box: no number lies between lower[1] = 3.0 and upper[1] = 2.0.",
        ),
        (lambda: Box(2.0, 1.0), "Box: no number lies between lower[0] = 2.0 and upper[0] = 1.0."),
        (lambda: Box(np.inf, np.inf), "Box: no number lies between lower[0] = inf and upper[0] = inf."),
        (lambda: Box(-np.inf, [1.0, -np.inf]), "between lower[1] = -inf and upper[1] = -inf."),
        (
            lambda: Box([0.0, 0.0], [1.0]),
            "Box: lower has 2 entries and upper 1, but they must have equally many.",
        ),
        (lambda: Box(np.nan, 1.0), "Box: lower must be a number, but is nan."),
        (lambda: Box(0.0, [np.nan]), "Box: upper must not contain nan, but upper[0] is nan."),
        (lambda: Simplex(0), "Simplex: total must be a positive finite number, but is 0."),
        (lambda: Simplex(True), "Simplex: total must be a number, but is True."),
        (lambda: L1Ball(np.float64(-2.0)), "L1Ball: radius must be a positive finite number, but is -2.0."),
        (
            lambda: Halfspace([0.0, 0.0], 1.0),
            "Halfspace: normal must not be zero, but all its 2 entries are 0.",
        ),
        (lambda: Halfspace([np.inf], 1.0), "Halfspace: normal must be finite, but normal[0] is inf."),
        (lambda: Halfspace([1.0], np.inf), "Halfspace: offset must be a finite number, but is inf."),
        (lambda: Halfspace([1e-300], -1e300), "Halfspace: offset = -1e+300 divided by the length of normal"),
        (
            lambda: Halfspace([], 1.0),
            "Halfspace: normal must be a vector with at least one entry, but has shape (0,).",
        ),
        (lambda: Product(), "Product: factors must hold at least one pair (set, dim), but there is none."),
        (
            lambda: Product(Ball(1.0)),
            "Product: factors[0] must be a pair (set, dim), but is Ball(radius=1.0).",
        ),
        (
            lambda: Product((Ball(1.0), 0)),
            "Product: factors[0]: dim must be a whole number of at least 1, not 0",
        ),
        (lambda: Product((Ball(1.0), 1.5)), "factors[0]: dim must be a whole number of at least 1, not 1.5"),
        (
            lambda: Product((Simplex(), 2), (Ball(1.0, [0.0, 0.0]), 3)),
            "Product: factors[1] does not fit: Ball with a center of 2 entries lives in dimension 2, "
            "but the points have dimension 3.",
        ),
        (lambda: Product((Product((Simplex(), 2)), 3)), "Product of 1 factors lives in dimension 2"),
        (lambda: Simplex().spec(0), "Simplex: dim must be a whole number of at least 1, not 0"),
        (lambda: Box(0.0, [1.0, 2.0]).spec(3), "Box with upper bounds for 2 entries lives in dimension 2"),
        (lambda: Halfspace([1.0], 0.0).spec(2), "Halfspace with a normal of 1 entries lives in dimension 1"),
        (
            lambda: Product((Simplex(), 2)).projected([1.0]),
            "lives in dimension 2, but the points have dimension 1.",
        ),
        (
            lambda: Simplex().projected([]),
            "Simplex: x must be a vector with at least one entry, but has shape (0,).",
        ),
        (lambda: Simplex().contains([[1.0]]), "Simplex: x must be a vector with at least one entry"),
    ],
)
def test_bad_arguments_are_named(make, message):
    with pytest.raises(InputError) as raised:
        make()
    assert message in str(raised.value)


def read_only():
    x = np.ones(3)
    x.flags.writeable = False
    return x


@pytest.mark.parametrize("x", [[1.0, 2.0], np.ones(3, dtype=int), np.ones(6)[::2], np.ones((2, 2)), read_only()])
@pytest.mark.parametrize("constraint", [Ball(1.0), Product((Ball(1.0), 3))], ids=repr)
def test_projecting_in_place_needs_an_array_that_can_be(x, constraint):
    with pytest.raises(InputError):
        constraint.project(x)


def test_projecting_in_place_says_what_to_do_instead():
    with pytest.raises(InputError, match=r"Ball: x must be a writeable, contiguous float64 vector .* use projected"):
        Ball(1.0).project([1.0, 2.0])


@pytest.mark.parametrize("constraint", ALL, ids=repr)
def test_pickle_equality_and_hash(constraint):
    copy = pickle.loads(pickle.dumps(constraint))
    assert copy == constraint
    assert hash(copy) == hash(constraint)
    assert repr(copy) == repr(constraint)
    assert [other for other in ALL if other == constraint] == [constraint]
    assert constraint != 1
    for value in vars(copy).values():
        assert not (isinstance(value, np.ndarray) and value.flags.writeable)


@pytest.mark.parametrize("constraint", ALL, ids=repr)
def test_sets_are_immutable(constraint):
    for name in (*vars(constraint), "other"):
        with pytest.raises(AttributeError, match="immutable"):
            setattr(constraint, name, 1.0)
    with pytest.raises(AttributeError, match="immutable"):
        del constraint.radius


def test_arrays_given_are_copied_and_read_only():
    center = np.array([1.0, 2.0])
    ball = Ball(1.0, center)
    center[0] = 100.0
    np.testing.assert_array_equal(ball.center, [1.0, 2.0])
    with pytest.raises(ValueError, match="read-only"):
        ball.center[0] = 0.0


def test_nested_products_are_flat_and_equal():
    nested = Product((Product((Simplex(), 2), (Ball(1.0), 3)), 5), (WholeSpace(), 1))
    assert nested == Product((Simplex(), 2), (Ball(1.0), 3), (WholeSpace(), 1))
    assert nested.dim == 6


def test_repr_reads_as_the_call_and_stays_short():
    assert repr(Ball(2)) == "Ball(radius=2.0)"
    assert repr(Ball(2, [1, 2])) == "Ball(radius=2.0, center=[1., 2.])"
    assert repr(Box(0, np.inf)) == "Box(lower=0.0, upper=inf)"
    assert repr(Halfspace(np.ones(1000), 1)) == "Halfspace(normal=[1., 1., ..., 1., 1.], offset=1.0)"
    assert repr(Product((Simplex(), 2))) == "Product((Simplex(total=1.0), 2))"


def test_contains_is_relative_to_the_scale_of_the_point():
    assert Ball(1e6).contains([1e6 + 1e-4])
    assert not Ball(1e-6).contains([1.01e-6])
    assert not Simplex(1e-300).contains([0.0, 0.0])
    assert Simplex().contains([0.5, 0.5 + 1e-10])
    assert not Simplex().contains([0.5, 0.5 + 1e-10], tol=1e-12)
    assert NonNegative().contains([0.0])


def test_set_is_abstract():
    with pytest.raises(TypeError):
        Set()


IN_UNITS = {**SETS, "product of boxes": Product((Box(-0.1, [0.1, 0.3]), 2), (NonNegative(), 4))}


@pytest.mark.parametrize("name", IN_UNITS)
def test_a_set_in_other_units_has_the_same_points(name):
    rng = np.random.default_rng(81)
    scale = 10.0 ** rng.uniform(-2, 2, DIM)
    there = IN_UNITS[name].in_units(scale)
    assert (there is None) == (name in ("ball", "simplex", "l1 ball", "product"))
    for x in () if there is None else 0.3 * rng.standard_normal((50, DIM)):
        inside = IN_UNITS[name].projected(x)
        assert there.contains(inside / scale)
        assert there.contains(x / scale) == IN_UNITS[name].contains(x)
