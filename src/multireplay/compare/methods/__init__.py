"""The methods of the bench."""

from __future__ import annotations

from multireplay.compare.methods import (
    ctd,
    extrapolation,
    library,
    multilevel,
    orders,
    recursive,
    sgd,
    variance_reduced,
)
from multireplay.compare.methods.base import GRID, Answer, Case, Method

_MODULES = (library, orders, ctd, extrapolation, variance_reduced, multilevel, recursive, sgd)
METHODS: dict[str, Method] = {method.name: method for module in _MODULES for method in module.METHODS}
"""All methods, in the order of the tables."""

__all__ = ["GRID", "METHODS", "Answer", "Case", "Method"]
