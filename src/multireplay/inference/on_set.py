"""How the solution on a feasible set moves with its operator: what standard errors there are made with."""

from __future__ import annotations

import numpy as np

from multireplay._check import Vector
from multireplay.problems.constrained import affine_vi, well_scaled
from multireplay.sets import Set

HELD = 1e-5
"""A coordinate is held where the derivative of the projection moves it by no more than this: a set's of one's own is
made of differences."""


class OnSet:
    """The derivative of the solution of the variational inequality that is linearized at x, by its operator.

    The solution is x = Proj(z) at the root z of the normal map z − x + F(x)/L (Robinson 1992). If F changes by δ, then
    (JP/L + I − P) dz = −δ/L with the derivative P of the projection at z, and dx = P dz: a linear solve on the face
    that the solution lies on, which for a polyhedron is the classical result (Shapiro 1990; Geyer 1994), and on a
    curved boundary counts its curvature. It holds where the constraint is strictly active or strictly inactive.

    Examples
    --------
    >>> import numpy as np
    >>> from multireplay.sets import NonNegative
    >>> found = OnSet(np.array([[2.0, 1.0], [1.0, 1.0]]), np.array([0.0, 1.5]), NonNegative(), np.array([0.5, 0.0]))
    >>> found.boundary, found.images(np.array([[1.0, 1.0]]))
    (array([False,  True]), array([[0.5, 0. ]]))
    """

    def __init__(self, jacobian: Vector, mean: Vector, feasible: Set, x: Vector) -> None:
        scale, jacobian, there = well_scaled(jacobian, feasible)
        mean, x = scale * mean, x / scale
        unit = float(np.abs(jacobian).sum(axis=0).max()) or 1.0
        solution = affine_vi(jacobian, jacobian @ x - mean, there, x).x
        force = mean + jacobian @ (solution - x)
        slope = there.derivative(solution - force / unit)
        identity = np.eye(len(x))
        whole = jacobian @ slope / unit + identity - slope
        self.matrix = scale[:, None] * (slope @ np.linalg.lstsq(whole, identity, rcond=None)[0] / unit) * scale
        slope = feasible.derivative(scale * solution - force / unit / scale)  # in units in which coordinates compare
        self.boundary = np.abs(slope).max(axis=1) <= HELD
        """Which coordinates are held where they are."""
        self.active = bool(np.abs(slope - identity).max() > HELD)
        self.freedom = float(np.trace(slope))
        """Directions that the set leaves."""

    def images(self, scores: Vector) -> Vector:
        """What each row of scores, as a change of the operator, moves the solution by, with the other sign."""
        return np.asarray(scores @ self.matrix.T)


def boundary_sentence(names: list[str], feasible: str, others: bool = True) -> str:
    """Which coordinates are on the boundary, in words, and whether others are not.

    Examples
    --------
    >>> print(boundary_sentence(["x[0]", "x[3]"], "NonNegative()"))
    on the boundary of NonNegative(): x[0], x[3]; the other intervals hold given that
    """
    if not others:
        return f"all coordinates are on the boundary of {feasible}, at a vertex: there is no interval for any of them"
    return f"on the boundary of {feasible}: {', '.join(names)}; the other intervals hold given that"
