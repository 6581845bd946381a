"""Exact fits with sparse matrices: dense algebra while d is small, iteration beyond."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from scipy.sparse.linalg import LinearOperator, cg, lsmr, svds

from multireplay._check import Vector
from multireplay.errors import InputError
from multireplay.problems.features import is_sparse

DENSE = 2000
"""Up to this many features a d × d matrix is made dense."""
PATIENCE = 50_000
CLOSE = 1e-9
"""An equation counts as solved when each row is, up to this share of the size of its terms."""


def is_wide(rows: Any) -> bool:
    """Whether these are sparse rows or a sparse matrix with more features than are made dense."""
    return is_sparse(rows) and rows.shape[1] > DENSE


def dense_unless_wide(matrix: Any) -> Any:
    """A d × d matrix as it is used: dense, but sparse for so many sparse features that it must stay so."""
    return matrix.toarray() if is_sparse(matrix) and not is_wide(matrix) else matrix


def spectral_norm(matrix: Any) -> float:
    """The largest singular value."""
    if not scipy.sparse.issparse(matrix):
        return float(np.linalg.norm(matrix, 2))
    top = svds(matrix, k=1, v0=np.ones(min(matrix.shape)), return_singular_vectors=False)
    return float(top[0])


def least_norm(matrix: Any, vector: Vector) -> Vector:
    """The shortest solution of a linear system: least squares, or LSMR where the matrix is sparse.

    Rows are scaled to one length first. That changes no solution, and takes out of the condition number how often
    each state is visited.

    Raises
    ------
    InputError
        If the iteration does not come to a solution.
    """
    if not scipy.sparse.issparse(matrix):
        return np.asarray(np.linalg.lstsq(matrix, vector, rcond=None)[0])
    sizes = np.sqrt(np.asarray((matrix.multiply(matrix)).sum(axis=1)).ravel())
    scale = 1 / np.where(sizes > 0, sizes, 1.0)
    scaled = scipy.sparse.diags_array(scale).tocsr() @ matrix
    x = lsmr(scaled, scale * vector, atol=1e-14, btol=1e-14, conlim=0, maxiter=PATIENCE)[0]
    wrong = np.abs(matrix @ x - vector)
    terms = abs(matrix) @ np.abs(x) + np.abs(vector)
    if not (wrong <= CLOSE * np.maximum(terms, terms.max() * 1e-6)).all():
        raise InputError(
            f"no exact fit was found: {matrix.shape[0]} sparse features are solved by iteration, and {PATIENCE} steps "
            "did not do; a small ridge=... makes the system better conditioned"
        )
    return np.asarray(x)


def conjugate_gradients(matrix: LinearOperator, vector: Vector) -> Vector:
    """A solution of a positive semidefinite system as well as it can be had: Newton's steps check themselves."""
    return np.asarray(cg(matrix, vector, rtol=1e-13, maxiter=PATIENCE)[0])
