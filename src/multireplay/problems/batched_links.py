"""The built-in links on arrays of any library."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Any

import array_api_compat as compat
from scipy import special

from multireplay.buffer.foreign import Array, Namespace, describe
from multireplay.errors import InputError, OperatorError
from multireplay.problems.links import LEAK, Link

Applied = Callable[[Namespace, Array], Array]


def _logistic(xp: Namespace, z: Array) -> Array:
    return 1.0 / (1.0 + xp.exp(-z))  # 1/∞ = 0 far out


def _probit(xp: Namespace, z: Array) -> Array:
    return 0.5 * _erfc_of(z)(-z / math.sqrt(2.0))


def _erfc_of(z: Array) -> Callable[[Array], Array]:
    """erfc is not in the standard: where each library has it."""
    if compat.is_numpy_array(z):
        return special.erfc  # type: ignore[no-any-return]
    if compat.is_cupy_array(z):
        return importlib.import_module("cupyx.scipy.special").erfc  # type: ignore[no-any-return]
    found = getattr(compat.array_namespace(z), "erfc", None)
    if found is None:
        raise InputError(f"the probit link needs erfc, which {describe(z)} does not have; use NumPy, PyTorch or CuPy")
    return found  # type: ignore[no-any-return]


def _softplus(xp: Namespace, z: Array) -> Array:
    return xp.where(z > 0, z, xp.zeros_like(z)) + xp.log1p(xp.exp(-xp.abs(z)))


_BUILT_IN: dict[str, Applied] = {
    "identity": lambda xp, z: z,
    "logistic": _logistic,
    "probit": _probit,
    "exp": lambda xp, z: xp.exp(z),
    "softplus": _softplus,
    "leaky_relu": lambda xp, z: xp.where(z > 0, z, LEAK * z),
}


def on_arrays(link: Link, argument: Any) -> Applied:
    """f on a whole array: a formula for a built-in link, and the user's own function as it is.

    On NumPy that is called number by number, as it is written for; on another library it gets the array.
    """
    if isinstance(argument, str):
        return _BUILT_IN[link.name]

    def users(xp: Namespace, z: Array) -> Array:
        if compat.is_numpy_array(z):
            return link.function(z).astype(z.dtype, copy=False)
        try:
            value = argument(z)
        except Exception as error:
            what = f"{type(error).__name__}: {_first_line(error)}"
            raise OperatorError(
                f"the link {link.name} failed on an array of {describe(z)} ({what}): "
                "write it in operations that work on whole arrays, or give the columns as NumPy arrays"
            ) from error
        if getattr(value, "shape", None) != z.shape:
            raise OperatorError(f"the link {link.name} must return an array of the shape it was given, {z.shape}")
        return value

    return users


def _first_line(error: Exception) -> str:
    """What Numba has to say goes on for twenty lines."""
    return (str(error).splitlines() or [""])[0]
