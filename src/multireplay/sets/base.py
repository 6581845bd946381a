"""What every feasible set can do, what the built-in ones share, and the whole space."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike

from multireplay._check import Vector, whole_number
from multireplay.buffer.foreign import Array, describe
from multireplay.errors import InputError
from multireplay.sets.projections import WHOLE, project_sparingly

Projection: TypeAlias = Callable[[Array], Array]
"""Takes an array of shape (lanes, dim) to the nearest points of a set, row by row."""


class Set(ABC):
    """A closed convex set X with an exact Euclidean projection.

    Subclass it and write `project` to bring a set of your own. Such a set runs in the Python loop; the
    built-in sets also run in the compiled one, where `spec` stands for them.

    Examples
    --------
    >>> import numpy as np
    >>> class Diagonal(Set):
    ...     def project(self, x):
    ...         x[:] = x.mean()
    >>> Diagonal().projected([1.0, 2.0, 6.0])
    array([3., 3., 3.])
    >>> Diagonal().contains([1.0, 1.0]), Diagonal().contains([1.0, 1.1])
    (True, False)
    >>> Diagonal().spec(3) is None
    True
    """

    @abstractmethod
    def project(self, x: Vector) -> None:
        """Replace x, a contiguous float64 vector, by the point of the set nearest to it."""

    def spec(self, dim: int) -> Vector | None:
        """Encode the set for the compiled loop, as `multireplay.sets.projections` says; None if only Python projects.

        An `InputError` if the set has no points of dimension `dim`.
        """
        return None

    def rowwise(self, dim: int, point: Array) -> Projection:
        """The projection of many points at once, one a row, in arrays of the library, type and device of `point`.

        The built-in sets are written in the operations of the array API standard, so that they run where the points
        lie; a set of the user's is called once a row, which only NumPy allows. As in the projection of one point, nan
        is never projected away. The array given to the projection may be changed or returned as it is.
        """
        self.spec(dim)  # checks the dimension
        if not isinstance(point, np.ndarray):
            raise InputError(
                f"{self!r} is a plain Python set, which projects one NumPy vector at a time; with arrays of "
                f"{describe(point)} use one of the built-in sets, or give the columns as NumPy arrays"
            )
        return lambda X: np.stack([self.projected(row) for row in X]).astype(X.dtype, copy=False)

    def projected(self, x: ArrayLike) -> Vector:
        """Return the point of the set nearest to x and leave x as it is."""
        point = vector(x, f"{type(self).__name__}: x", copy=True)
        returned = cast(object, self.project(point))
        if returned is not None:
            raise InputError(
                f"{type(self).__name__}: project must change x in place (x[:] = ...) and return nothing, "
                f"but it returned {_short(returned)}."
            )
        return point

    def derivative(self, x: Vector) -> Vector:
        """The derivative of the projection at x, one of them at a kink: a symmetric matrix between 0 and 1.

        For x = p − F, where F is the operator at a solution p, its range is what the constraint leaves free there: it
        projects on the face of a polyhedron, and shrinks where the boundary is curved. Built-in sets have it in closed
        form; for a set of the user's it is made of differences, d projections.

        Examples
        --------
        >>> from multireplay.sets import NonNegative
        >>> NonNegative().derivative(np.array([2.0, -1.0]))
        array([[1., 0.],
               [0., 0.]])
        """
        step = 1e-7 * (float(np.abs(x).max()) or 1.0)
        here = self.projected(x)
        moved = np.stack([self.projected(x + step * one) - here for one in np.eye(x.size)]) / step
        return np.asarray((moved + moved.T) / 2)

    def in_units(self, scale: Vector) -> Set | None:
        """The set of all z with scale · z in X, by coordinate, if a projection on that is known; otherwise None."""
        return None

    def check(self, dim: int) -> None:
        """Try the projection on a point of dimension `dim`, so that a mistake in it is found before a run.

        An `InputError` if the set has no points of this dimension, if the projection is not finite, or if projecting a
        second time moves the point by more than 1e-6 of its size.
        """
        point = 10.0 * np.random.default_rng(0).standard_normal(dim)
        once = self.projected(point)
        twice = self.projected(once)
        if not (np.isfinite(once).all() and np.isfinite(twice).all()):
            raise InputError(f"{self!r}: the projection of a finite point must be finite, but is {_short(once)}.")
        moved = np.abs(twice - once).max()
        if moved > 1e-6 * np.abs(once).max() + 1e-14 * np.abs(point).max():  # the latter is the rounding of a 0
            raise InputError(f"{self!r} is not a projection: a second one moves the point again, by {moved:.2g}.")

    def contains(self, x: ArrayLike, tol: float = 1e-9) -> bool:
        """Tell whether x lies in the set, up to rounding; a point that is not finite never does.

        Parameters
        ----------
        x
            The point.
        tol
            How far the projection may move an entry, relative to the largest entry of x or its projection.
        """
        before = vector(x, f"{type(self).__name__}: x")
        after = self.projected(before)
        if not (np.isfinite(before).all() and np.isfinite(after).all()):
            return False
        scale = max(np.abs(before).max(), np.abs(after).max())
        with np.errstate(over="ignore"):
            return bool(np.abs(before - after).max() <= tol * scale)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class BuiltInSet(Set):
    """A set that its constructor arguments describe: immutable, comparable, hashable and picklable.

    A subclass stores its checked arguments, in order and under their names, with ``self._keep(...)``. Its ``spec`` is
    its code and those arguments, unless it says otherwise.
    """

    code: ClassVar[int]

    def spec(self, dim: int) -> Vector:
        whole_number(f"{type(self).__name__}: dim", dim, least=1)
        return np.array([self.code, *self._arguments()], dtype=np.float64)

    def _keep(self, **arguments: Any) -> None:
        vars(self).update(arguments)

    def _arguments(self) -> tuple[Any, ...]:
        return tuple(vars(self).values())

    def _identity(self) -> tuple[Any, ...]:
        values = (tuple(a.tolist()) if isinstance(a, np.ndarray) else a for a in self._arguments())
        return (type(self), *values)

    def project(self, x: Vector) -> None:
        fit = isinstance(x, np.ndarray) and x.dtype == np.float64 and x.ndim == 1
        if not (fit and x.flags.c_contiguous and x.flags.writeable):
            raise InputError(
                f"{type(self).__name__}: x must be a writeable, contiguous float64 vector to be projected in place; "
                f"use projected(x) for a projected copy."
            )
        self._project(x)

    def _project(self, x: Vector) -> None:
        """Project a vector that is known to be fit for it, by the code that is compiled for the loops.

        A set whose projection NumPy gives to the last bit writes it in NumPy: compiling takes seconds.
        """
        project_sparingly(x, self.spec(x.size))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable; make a new one to change {name}.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable; {name} cannot be deleted.")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BuiltInSet):
            return NotImplemented
        return self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), self._arguments())

    def __repr__(self) -> str:
        shown = (
            f"{name}={np.array2string(value, separator=', ', threshold=8, edgeitems=2)}"
            if isinstance(value, np.ndarray)
            else f"{name}={value!r}"
            for name, value in vars(self).items()
            if value is not None
        )
        return f"{type(self).__name__}({', '.join(shown)})"


class WholeSpace(BuiltInSet):
    """All of R^d: no constraint.

    Examples
    --------
    >>> WholeSpace().projected([3.0, -4.0])
    array([ 3., -4.])
    """

    code = WHOLE

    def _project(self, x: Vector) -> None:
        self.check(x.size)

    def derivative(self, x: Vector) -> Vector:
        return np.eye(x.size)

    def in_units(self, scale: Vector) -> Set:
        return self

    def check(self, dim: int) -> None:
        """There is nothing to try, only the dimension."""
        whole_number("WholeSpace: dim", dim, least=1)

    def rowwise(self, dim: int, point: Array) -> Projection:
        self.check(dim)
        return lambda X: X


def vector(values: ArrayLike, what: str, *, copy: bool = False) -> Vector:
    """Return a contiguous float64 vector with at least one entry, or say what is wrong with it."""
    try:
        array = np.array(values, dtype=np.float64, order="C", copy=True if copy else None)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} must be a vector of numbers, but is {_short(values)}.") from error
    if array.ndim != 1 or array.size == 0:
        raise InputError(f"{what} must be a vector with at least one entry, but has shape {array.shape}.")
    return array


def frozen_vector(values: ArrayLike, what: str, *, finite: bool = False) -> Vector:
    """Return a read-only copy of a vector without nan, and all finite if asked, or say what is wrong with it."""
    array = vector(values, what, copy=True)
    missing, infinite = np.flatnonzero(np.isnan(array)), np.flatnonzero(np.isinf(array))
    if missing.size:
        raise InputError(f"{what} must not contain nan, but {what.split()[-1]}[{missing[0]}] is nan.")
    if finite and infinite.size:
        at = infinite[0]
        raise InputError(f"{what} must be finite, but {what.split()[-1]}[{at}] is {array[at]}.")
    array.flags.writeable = False
    return array


def number(
    value: object, what: str, kind: Literal["number", "finite number", "positive finite number"] = "number"
) -> float:
    """Return a real number of that kind as a float, or say what is wrong with it."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if not isinstance(value, int | float | np.integer | np.floating) or isinstance(value, bool) or value != value:
        raise InputError(f"{what} must be a number, but is {_short(value)}.")
    try:
        real = float(value)
    except OverflowError:  # an int beyond the floating-point range
        real = math.inf if value > 0 else -math.inf
    if (kind != "number" and math.isinf(real)) or (kind == "positive finite number" and real <= 0):
        raise InputError(f"{what} must be a {kind}, but is {_short(value)}.")
    return real


def same_dimension(dim: int, own: int, what: str) -> None:
    """Refuse a dimension that is not the set's own."""
    if whole_number(f"{what}: dim", dim, least=1) != own:
        raise InputError(f"{what} lives in dimension {own}, but the points have dimension {dim}.")


def _short(value: object) -> str:
    """Return the repr of a value, cut so that it fits in an error message."""
    text = str(value) if isinstance(value, np.generic) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
