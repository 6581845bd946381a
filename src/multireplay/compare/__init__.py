"""A bench of algorithms for dependent records: problems × methods, error as a ratio to the exact fit."""

from multireplay.compare.runner import compare, total_cost
from multireplay.compare.worlds import SUITES

__all__ = ["SUITES", "compare", "total_cost"]
