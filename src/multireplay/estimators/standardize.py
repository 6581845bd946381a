"""Features brought to mean 0 and standard deviation 1 with a column of ones beside them, and the way back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.preprocessing import StandardScaler

from multireplay._check import Vector
from multireplay.errors import InputError
from multireplay.problems.base import row_blocks

Columns = dict[str, Any]

ROWS = 2**14
LARGEST = 2**30
"""Bytes beyond which a sparse matrix is not made dense."""


@dataclass(frozen=True, eq=False)
class Standardization:
    """a = ((x − mean)/scale, 1): what the loops learn from, given the rows x that the user has.

    Mean and scale are 0 and 1 where a feature is left as it is; the 1 is appended only where there is an intercept.
    """

    mean: Vector
    scale: Vector
    intercept: bool

    def columns(self, given: Columns) -> Columns:
        """Columns of a record with their features as the loops learn from them."""
        return {name: self.design(rows) if "features" in name else rows for name, rows in given.items()}

    def design(self, rows: Any) -> NDArray[Any]:
        """The rows as the loops learn from them, in the dtype of the rows."""
        if sparse.issparse(rows):  # never centred, see `measured`
            scaled = rows @ sparse.diags_array(1 / self.scale).astype(rows.dtype)
            ones = [np.ones((rows.shape[0], 1), dtype=rows.dtype)] if self.intercept else []
            return made_dense(sparse.hstack([scaled, *ones], format="csr"))
        if not self.intercept and not self.mean.any() and (self.scale == 1).all():
            return np.asarray(rows)
        count, width = rows.shape
        out = np.ones((count, width + self.intercept), dtype=rows.dtype)
        for source, target in zip(row_blocks(rows, ROWS), row_blocks(out, ROWS), strict=True):
            np.subtract(source, self.mean, out=target[:, :width], casting="same_kind")
            target[:, :width] /= self.scale
        return out

    def undone(self, x: Vector) -> tuple[Vector, float]:
        """Coefficients and intercept for the user's own rows."""
        width = len(self.scale)
        coefficients = x[:width] / self.scale
        constant = float(x[width]) if self.intercept else 0.0
        return coefficients, constant - float(coefficients @ self.mean)

    def way_back(self) -> Any:
        """The sparse matrix that makes coefficients, and the intercept where there is one, for the user's own rows.

        Mean and scale are of the rows, and so is their error, but with no penalty it is in none of these: the fit is
        the same whatever they are.
        """
        scales = sparse.diags_array(1 / self.scale)
        if not self.intercept:
            return scales.tocsr()
        last = sparse.csr_array((-self.mean / self.scale)[None, :])
        return sparse.block_array([[scales, None], [last, sparse.csr_array([[1.0]])]], format="csr")


def measured(rows: Any, weights: Vector | None, *, standardize: bool, intercept: bool) -> Standardization:
    """The standardization of these rows, in one pass over blocks of them, by scikit-learn's `StandardScaler`.

    A feature that does not vary is not scaled, and is exactly 0 when centred. Features are centred only where there is
    an intercept to make up for it and the rows are not sparse, since centred they would not be.
    """
    width = rows.shape[1]
    if not standardize:
        return Standardization(np.zeros(width), np.ones(width), intercept)
    centred = intercept and not sparse.issparse(rows)
    scaler = StandardScaler(with_mean=centred)
    for start in range(0, rows.shape[0], ROWS):
        part = slice(start, start + ROWS)
        scaler.partial_fit(rows[part], sample_weight=None if weights is None else weights[part])
    scale = np.asarray(scaler.scale_, dtype=np.float64)
    if not centred:
        return Standardization(np.zeros(width), scale, intercept)
    constant = (scale == 1) & (scaler.var_ < 0.5)  # how StandardScaler marks it
    return Standardization(np.where(constant, rows[0], scaler.mean_), scale, intercept)


def made_dense(rows: Any) -> NDArray[Any]:
    """Sparse rows made dense, unless that needs too much: what the loops learn from with weights and a ridge."""
    count, width = rows.shape
    size = count * width * rows.dtype.itemsize
    if size > LARGEST:
        raise InputError(
            f"X is sparse with {count} rows and {width} columns, and would need {size / 2**30:.1f} GB as a dense "
            "array; that is done only up to 1 GB. Use fewer columns, float32, or partial_fit with blocks of rows"
        )
    return np.asarray(rows.toarray())
