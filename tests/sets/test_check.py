"""A set of the user's own that does not project is found out before a run."""

from __future__ import annotations

import numpy as np
import pytest

from multireplay.errors import InputError
from multireplay.sets import Ball, Box, Halfspace, L1Ball, NonNegative, Product, Set, Simplex, WholeSpace


class Returning(Set):
    def project(self, x):
        return np.clip(x, 0.0, 1.0)


class Halving(Set):
    def project(self, x):
        x /= 2


class Dividing(Set):
    def project(self, x):
        x /= 0.0


class Origin(Set):
    def project(self, x):
        x *= 1e-17


def test_a_projection_that_returns_is_refused():
    with pytest.raises(InputError, match=r"Returning: project must change x in place .* but it returned array"):
        Returning().projected([1.0, 2.0])
    with pytest.raises(InputError, match="Returning"):
        Returning().check(2)


def test_check():
    with pytest.raises(InputError, match=r"Halving\(\) is not a projection: a second one moves the point"):
        Halving().check(3)
    with np.errstate(all="ignore"), pytest.raises(InputError, match=r"Dividing\(\): .* must be finite"):
        Dividing().check(3)
    Origin().check(3)  # up to rounding
    with pytest.raises(InputError, match="lives in dimension 2"):
        Ball(1.0, [0.0, 0.0]).check(3)


@pytest.mark.parametrize(
    "constraint",
    [WholeSpace(), NonNegative(), Ball(1e-6), Ball(1e6), Box(-1, 1), Box(3, 3), Simplex(1e-9), L1Ball(2.0),
     Halfspace([1.0, 1.0, 1.0], -2.0), Product((Simplex(), 2), (Box(0, 1), 1))],
    ids=repr,
)  # fmt: skip
def test_every_set_passes_its_check(constraint):
    constraint.check(3)
