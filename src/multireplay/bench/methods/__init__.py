"""The methods of the comparison, by name."""

from __future__ import annotations

from multireplay.bench.method import Method
from multireplay.bench.methods import extrapolation, library, multilevel, orders, others, variance_reduced

_RIVALS = (extrapolation, variance_reduced, multilevel, others)
METHODS: dict[str, Method] = {
    method.name: method for module in (library, orders, *_RIVALS) for method in module.METHODS
}
"""All methods, in the order of the tables."""
