"""The methods of the comparison, by name."""

from __future__ import annotations

from multireplay.bench.method import Method
from multireplay.bench.methods import library, others, rivals

_MODULES = (library, rivals, others)
METHODS: dict[str, Method] = {method.name: method for module in _MODULES for method in module.METHODS}
"""All methods, in the order of the tables."""
