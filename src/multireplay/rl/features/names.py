"""Features by their name, as the command line takes them."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

from multireplay.errors import InputError
from multireplay.rl.features.base import BoundFeatures, Features
from multireplay.rl.features.bases import Fourier, Polynomial
from multireplay.rl.features.function import Function
from multireplay.rl.features.local import RBF, OneHot, TileCoding
from multireplay.rl.policies import named_object
from multireplay.rl.spaces import Array, sizes_of


@dataclass(frozen=True)
class Automatic(Features):
    """`OneHot` for discrete observations of at most 2000 kinds, `RBF` for all others."""

    def bind(self, space: Any, observations: Array) -> BoundFeatures:
        sizes = sizes_of(space)
        few = sizes is not None and float(sizes[0].prod()) <= 2000
        return (OneHot() if few else RBF()).bind(space, observations)


NAMES: dict[str, Callable[..., Features]] = {
    "auto": Automatic,
    "one-hot": OneHot,
    "rbf": RBF,
    "tiles": TileCoding,
    "fourier": Fourier,
    "polynomial": Polynomial,
}


def features_from_name(name: str) -> Features:
    """The features of that name.

    Parameters
    ----------
    name : str
        "one-hot", "rbf", "tiles", "fourier", "polynomial" or "auto" (one-hot for discrete observations, RBF for
        others), with arguments in brackets where the defaults do not suit: "fourier(order=5)", "rbf(200)". Or a
        function of yours as "module:function". Several are put side by side by a plus: "rbf+polynomial(1)".

    Examples
    --------
    >>> import multireplay as mr
    >>> mr.rl.features_from_name("fourier(order=5)")
    Fourier(order=5, bounds=None)
    >>> mr.rl.features_from_name("rbf+polynomial(1)")
    RBF(centres=100, width=0.75, bounds=None) + Polynomial(degree=1, bounds=None)
    """
    return reduce(add, (_one(part.strip()) for part in name.split("+")))


def _one(name: str) -> Features:
    start, bracket, rest = name.partition("(")
    if start.strip() in NAMES:
        given, named = _arguments(name, f"f({rest}") if bracket else ([], {})
        try:
            return NAMES[start.strip()](*given, **named)
        except TypeError as error:
            raise InputError(f"the features {name!r} cannot be made: {error}") from None
    where, colon, attribute = name.rpartition(":")
    if colon and where and attribute:
        found = named_object(where, attribute, "features")
        return found if isinstance(found, Features) else Function(found)
    raise InputError(f"no features {name!r}; there are {', '.join(NAMES)}, or a function of yours as 'module:function'")


def _arguments(name: str, call: str) -> tuple[list[Any], dict[str, Any]]:
    """The arguments in the call "f(1, key=2)", which must be plain values."""
    try:
        found = ast.parse(call, mode="eval").body
        assert isinstance(found, ast.Call)
        named = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in found.keywords}
        return [ast.literal_eval(value) for value in found.args], named
    except (SyntaxError, ValueError, AssertionError):
        raise InputError(f"{name!r} cannot be read; write features as 'fourier(order=5)'") from None


def as_features(features: Any) -> Features:
    """A description of features from one, from a name, or from a function."""
    if isinstance(features, str):
        return features_from_name(features)
    if isinstance(features, Features):
        return features
    if callable(features) and not isinstance(features, type):
        return Function(features)
    raise InputError(f"features must be an object such as mr.rl.RBF(), a name or a function, not {features!r}")


def bound_to(features: Any, space: Any, observations: Array) -> BoundFeatures:
    """Features for these observations; those that are bound already stay as they are."""
    if isinstance(features, BoundFeatures):
        return features
    return as_features(features).bind(space, observations)
