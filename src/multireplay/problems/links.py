"""Link functions f of generalized linear models: what is needed of one, and the built-in ones, on any arrays."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import array_api_compat as compat
import numpy as np
from numba.core.dispatcher import Dispatcher
from scipy import special

from multireplay._check import Vector
from multireplay._jit import jit_borrowing
from multireplay.buffer.foreign import Array, Namespace, describe
from multireplay.errors import InputError, OperatorError

IDENTITY, LOGISTIC, PROBIT, EXP, SOFTPLUS, LEAKY_RELU = range(6)
LEAK = 0.01


@dataclass(frozen=True)
class Link:
    """A monotone link function: f and f' on NumPy arrays, and what else is known of it."""

    name: str
    function: Callable[[Any], Any]
    derivative: Callable[[Vector], Vector]
    lipschitz: float
    """L_f, the largest slope; infinite where there is none."""
    compiled: Any
    """A code for a built-in link, the user's Numba-jitted function, or None for a plain one: it runs in Python."""
    integral: Callable[[Vector], Vector] | None = None
    """∫f from 0, up to a constant; None for a user's own link."""


@jit_borrowing
def apply(code: int, z: float) -> float:
    """f(z) of the built-in link with that code, in the compiled loop."""
    if code == LOGISTIC:
        return 1.0 / (1.0 + math.exp(-z))  # 1/∞ = 0 far out
    if code == PROBIT:
        return 0.5 * math.erfc(-z / math.sqrt(2.0))
    if code == EXP:
        return np.exp(z)  # type: ignore[no-any-return]  # infinite where math.exp would raise
    if code == SOFTPLUS:
        return max(z, 0.0) + math.log1p(math.exp(-abs(z)))
    if code == LEAKY_RELU:
        return z if z > 0.0 else LEAK * z
    return z


def _exp(z: Vector) -> Vector:
    with np.errstate(over="ignore"):
        return np.exp(z)


def _leak(z: Vector) -> Vector:
    return np.where(z > 0.0, 1.0, LEAK)


def _softplus_integral(z: Vector) -> Vector:
    """∫ log(1 + e^z) = −Li_2(−e^z), and z²/2 + π²/6 − that at −z where z is positive, so that nothing overflows."""
    tail = -special.spence(1 + np.exp(-np.abs(z)))
    return np.asarray(np.where(z > 0, z**2 / 2 + math.pi**2 / 6 - tail, tail))


def _bell(z: Any) -> Vector:
    return np.asarray(np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi))


def _expit(z: Any) -> Any:
    """1/(1 + e^(−z)): three times as fast as SciPy's, which is the same to rounding."""
    found = np.asarray(np.negative(z))
    with np.errstate(over="ignore"):
        np.exp(found, out=found)
    found += 1.0
    return np.reciprocal(found, out=found)


def _expit_slope(z: Vector) -> Vector:
    p = _expit(z)
    return np.asarray(p * (1.0 - p))


BUILT_IN = {
    link.name: link
    for link in (
        Link("identity", np.asarray, np.ones_like, 1.0, IDENTITY, lambda z: z**2 / 2),
        Link("logistic", _expit, _expit_slope, 0.25, LOGISTIC, lambda z: np.logaddexp(0.0, z)),
        Link("probit", special.ndtr, _bell, float(_bell(0.0)), PROBIT, lambda z: z * special.ndtr(z) + _bell(z)),
        Link("exp", _exp, _exp, math.inf, EXP, _exp),
        Link("softplus", lambda z: np.logaddexp(0.0, z), special.expit, 1.0, SOFTPLUS, _softplus_integral),
        Link("leaky_relu", lambda z: _leak(z) * z, _leak, 1.0, LEAKY_RELU, lambda z: _leak(z) * z**2 / 2),
    )
}


def _erfc(z: Array) -> Array:
    """erfc is not in the standard of arrays: each library has it elsewhere, or not at all."""
    if compat.is_numpy_array(z):
        return special.erfc(z)
    if compat.is_cupy_array(z):
        return importlib.import_module("cupyx.scipy.special").erfc(z)
    found = getattr(compat.array_namespace(z), "erfc", None)
    if found is None:
        raise InputError(f"the probit link needs erfc, which {describe(z)} does not have; use NumPy, PyTorch or CuPy")
    return found(z)


Over: TypeAlias = Callable[[Namespace, Array], Array]
"""A function of arrays of any library, given that library."""


def _logistic(xp: Namespace, z: Array) -> Array:
    at_once = getattr(xp, "sigmoid", None)  # PyTorch's
    return 1.0 / (1.0 + xp.exp(-z)) if at_once is None else at_once(z)


def _softplus(xp: Namespace, z: Array) -> Array:
    return xp.logaddexp(z, xp.zeros_like(z))


def _probit(xp: Namespace, z: Array) -> Array:
    return 0.5 * _erfc(-z / math.sqrt(2.0))


def _gauss(xp: Namespace, z: Array) -> Array:
    return xp.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)


def _exponential(xp: Namespace, z: Array) -> Array:
    return xp.exp(z)


def _leaks(xp: Namespace, z: Array) -> Array:
    return xp.where(z > 0, xp.ones_like(z), LEAK * xp.ones_like(z))


class OnArrays(NamedTuple):
    """f, f' and, where it is made of what every library has, ∫f."""

    function: Over
    derivative: Over
    integral: Over | None


OVER = {
    "identity": OnArrays(lambda xp, z: z, lambda xp, z: xp.ones_like(z), lambda xp, z: z**2 / 2),
    "logistic": OnArrays(_logistic, lambda xp, z: _logistic(xp, z) * _logistic(xp, -z), _softplus),
    "probit": OnArrays(_probit, _gauss, lambda xp, z: z * _probit(xp, z) + _gauss(xp, z)),
    "exp": OnArrays(_exponential, _exponential, _exponential),
    "softplus": OnArrays(_softplus, _logistic, None),
    "leaky_relu": OnArrays(lambda xp, z: _leaks(xp, z) * z, _leaks, lambda xp, z: _leaks(xp, z) * z**2 / 2),
}
"""The built-in links in operations of any array library."""


MEANT = {
    **{name: (name, "in small letters") for name in OVER},
    **dict.fromkeys(("linear", "gaussian", "normal"), ("identity", "linear regression")),
    **dict.fromkeys(("logit", "sigmoid", "expit", "binomial", "bernoulli"), ("logistic", "outcomes 0 and 1")),
    **dict.fromkeys(("poisson", "log", "count", "counts"), ("exp", "Poisson: counts")),
}
"""Other names that people have for a link: how it is called here, and what it is for."""


def as_link(link: str | Callable[[float], float], lipschitz: float | None = None) -> Link:
    """The built-in link of that name, or the user's own function of one number."""
    if isinstance(link, str):
        if link not in BUILT_IN:
            name, use = MEANT.get(link.lower(), ("", ""))
            meant = f"did you mean {name!r} ({use})? The" if name else "the"
            raise InputError(f"no link {link!r}; {meant} built-in ones are {', '.join(BUILT_IN)}, or give a function")
        return BUILT_IN[link]
    if not callable(link):
        raise InputError(f"link must be a name or a function of one number, not {link!r}")
    by_number = np.vectorize(link, otypes=[np.float64])

    def slope(z: Vector) -> Vector:
        h = 1e-6 * np.maximum(1.0, np.abs(z))
        return np.asarray((by_number(z + h) - by_number(z - h)) / (2 * h))

    name = getattr(link, "__name__", type(link).__name__)
    compiled = link if isinstance(link, Dispatcher) else None
    return Link(name, by_number, slope, math.inf if lipschitz is None else float(lipschitz), compiled)


def on_arrays(link: Link, xp: Namespace, z: Array) -> Array:
    """f on a whole array of any library, the user's own function as it is.

    On NumPy that is called number by number, as it is written for; on another library it gets the array.
    """
    if isinstance(link.compiled, int):
        return OVER[link.name].function(xp, z)
    if compat.is_numpy_array(z):
        return link.function(z).astype(z.dtype, copy=False)
    try:
        value = link.function.pyfunc(z)  # type: ignore[attr-defined]
    except Exception as error:
        first_line = (str(error).splitlines() or [""])[0]  # what Numba has to say goes on for twenty
        raise OperatorError(
            f"the link {link.name} failed on an array of {describe(z)} ({type(error).__name__}: {first_line}): "
            "write it in operations that work on whole arrays, or give the columns as NumPy arrays"
        ) from error
    if getattr(value, "shape", None) != z.shape:
        raise OperatorError(f"the link {link.name} must return an array of the shape it was given, {z.shape}")
    return value
