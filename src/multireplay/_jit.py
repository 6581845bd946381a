"""The one way this package compiles a function, so that every compiled loop behaves alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])

FAST = {"reassoc", "contract", "arcp", "nsz"}
"""What the loops over steps allow: sums may be reordered, NaN and infinity keep their meaning."""
LOOP: dict[str, Any] = {"fastmath": FAST, "nogil": True, "error_model": "numpy"}


def jit(function: F) -> F:
    """Compile a function with Numba at its first call; the machine code is kept on disk for the next process.

    Floating-point arithmetic stays IEEE: no reordering of sums, and a division by zero gives inf or nan as it
    does in NumPy. The global interpreter lock is released while the function runs.

    Parameters
    ----------
    function
        A function within Numba's nopython subset, defined in a file.

    Returns
    -------
    callable
        The compiled function, with the signature of the one given.
    """
    compiled: F = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    return compiled


def jit_borrowing(function: F) -> F:
    """Compile like :func:`jit` a function that borrows the arrays given to it and makes none of its own.

    Arrays are then passed without counting references, which costs about 30 ns a call otherwise: more than a
    whole step in ten dimensions. Slices are fine; a function that allocates an array fails to compile.

    Parameters
    ----------
    function
        A function within Numba's nopython subset, defined in a file. It and all compiled functions it calls
        must allocate nothing.

    Returns
    -------
    callable
        The compiled function, with the signature of the one given.
    """
    compiled: F = kernel(function, nogil=True, error_model="numpy")
    return compiled


def kernel(function: Any = None, **options: Any) -> Any:
    """Compile a loop over steps, or with options of its own a part of one, for the built-in problems.

    It is kept on disk, and borrows its arrays as those of :func:`jit_borrowing`.
    """
    if function is None:
        return lambda function: kernel(function, **options)
    return numba.njit(cache=True, _nrt=False, **(options or LOOP))(function)


def users_kernel(function: F) -> F:
    """Compile a loop that calls a user's own function, which may allocate: anew in every process."""
    compiled: F = numba.njit(**LOOP)(function)
    return compiled
