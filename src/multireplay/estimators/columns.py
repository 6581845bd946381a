"""From what scikit-learn hands over to what a buffer's column can be."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from multireplay.errors import InputError

LARGEST = 2**30
"""Bytes beyond which a sparse matrix is not made dense."""


def as_column(rows: Any) -> NDArray[Any]:
    """A dense array as it is, a sparse one made dense.

    Raises
    ------
    InputError
        If the dense one would need more than 1 GB.
    """
    if not sparse.issparse(rows):
        return np.asarray(rows)
    count, width = rows.shape
    size = count * width * rows.dtype.itemsize
    if size > LARGEST:
        raise InputError(
            f"X is sparse with {count} rows and {width} columns, and would need {size / 2**30:.1f} GB as a dense "
            "array; that is done only up to 1 GB. Use fewer columns, float32, or partial_fit with blocks of rows"
        )
    return np.asarray(rows.toarray())  # NATIVE CSR: `return rows.tocsr()` once Buffer and the loops take it


def stacked(blocks: list[Any]) -> Any:
    """Blocks of rows one after the other: sparse where all are, arrays of numbers or of rows otherwise."""
    if all(sparse.issparse(block) for block in blocks):
        return sparse.vstack(blocks, format="csr")
    return np.concatenate([block.toarray() if sparse.issparse(block) else block for block in blocks])


def owned(rows: Any) -> Any:
    """A copy, because the caller may use the memory of a block for the next one."""
    return rows.copy()
