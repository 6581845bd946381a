"""Sample weights: checked, without the rows that do not count, and in units of their mean."""

from __future__ import annotations

from numbers import Number
from typing import Any

import numpy as np
from sklearn.utils import check_array

from multireplay._check import Vector
from multireplay.errors import InputError


def as_weights(sample_weight: Any, rows: int) -> Vector | None:
    """One weight of at least 0 a row, not all 0; None stays None, and a number is the weight of every row.

    Raises
    ------
    InputError
        If the weights are negative, all zero or not as many as there are rows.
    """
    if sample_weight is None:
        return None
    if isinstance(sample_weight, Number):
        sample_weight = np.full(rows, sample_weight)
    weights: Vector = check_array(sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
    if weights.shape != (rows,):
        raise InputError(f"sample_weight has shape {weights.shape}, but X has {rows} rows: it needs ({rows},)")
    if (weights < 0).any():
        bad = int(np.flatnonzero(weights < 0)[0])
        raise InputError(f"sample_weight is {weights[bad]:g} at row {bad} (counting from 0); it must be at least 0")
    if not weights.any():
        raise InputError("all values of sample_weight are zero, so that no row counts; at least one weight must not be")
    return weights
