"""The methods of the comparison, by name."""

from __future__ import annotations

from multireplay.bench.method import Method
from multireplay.bench.methods import library, rivals

METHODS: dict[str, Method] = {method.name: method for method in (*library.METHODS, *rivals.METHODS)}
"""All methods, in the order of the tables."""
