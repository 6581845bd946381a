"""Feasible sets of a variational inequality, each with its exact Euclidean projection.

Every set projects in place (``project``) or on a copy (``projected``), tells membership (``contains``) and
encodes itself as one array for the compiled loop (``spec``). Subclass :class:`Set` to bring your own.

Examples
--------
>>> from multireplay.sets import Ball, Simplex
>>> Ball(1.0).projected([3.0, 4.0])
array([0.6, 0.8])
>>> Simplex().contains([0.25, 0.75])
True
"""

from multireplay.sets.base import Set, WholeSpace
from multireplay.sets.elementary import Ball, Box, Halfspace, L1Ball, NonNegative, Simplex
from multireplay.sets.product import Product

__all__ = ["Ball", "Box", "Halfspace", "L1Ball", "NonNegative", "Product", "Set", "Simplex", "WholeSpace"]
