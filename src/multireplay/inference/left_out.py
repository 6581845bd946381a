"""What the answer would be without one batch: images of the batches that know how much each of them holds x itself."""

from __future__ import annotations

import numpy as np
from scipy.linalg import get_lapack_funcs

from multireplay._check import Vector

HELD = 0.04
"""With more features than this active at once for each independent row, a batch holds x by more than a little: its F̂ at
x is too small, and so are standard errors of plain images."""
LONGER, SEVERAL, FULL = 10, 1.5, 2.0
"""Batches where features have few visits, from how many active at once, and to how many a visit, see `left_out`."""
WIDEST_HELD, MULTIPLICATIONS = 256, 2e9
"""Coordinates up to which the Jacobians of all batches are kept, and multiplications that working them out may take."""
SMALL = 24
"""Coordinates up to which all systems are solved by one call, which is faster than Cholesky's factors of each."""
LARGEST = 1e8
"""An answer that moves by more standard errors than this without a batch does not exist without it."""


def left_out(matrices: Vector, scores: Vector, rows: Vector, penalty: Vector, symmetric: bool = False) -> Vector:
    """(B − 1)(x₍₋b₎ − x), with x₍₋b₎ the answer without batch b: exact for a linear problem, one Newton step otherwise.

    The fit adapts to every batch, so that F̂_b at x is smaller than it would be at the truth, by as much as the batch
    knows of x: with few independent rows to a coordinate, standard errors of J⁻¹F̂_b are far too small. Leaving the
    batch out undoes that (the jackknife, Miller 1974; the CR3 of cluster-robust standard errors, Bell and McCaffrey
    2002). With n rows, n_b in the batch, sums S_b of Jacobians over its rows, S = Σ S_b, and the penalty's Λ::

        x₍₋b₎ − x = [S − S_b + (n − n_b)Λ]⁻¹ n_b F̂_b

    because F̂ is 0 at x. Images of many independent rows are those of J⁻¹ times B/(B − 1) or so.

    A batch shorter than a visit of the features is known to its neighbours too: the fit without it still has the slow
    noise around it in x. Then ten long batches are left out, with t of 9 degrees of freedom: few groups that are nearly
    independent (Ibragimov and Müller 2010; Bester, Conley and Hansen 2011); but not where more than two features are
    active for each visit, as the rest of the record then hardly holds x, and 32 say enough.

    Parameters
    ----------
    matrices, scores : arrays of shape (B, d, d) and (B, d)
        S_b, without the penalty, and F̂_b, with it.
    rows : array of shape (B,)
        n_b.
    penalty : array of shape (d, d)
        Λ.
    symmetric : bool
        Whether all of these matrices are, as those of a gradient, so that Cholesky's factors will do.

    Returns
    -------
    array of shape (B, d)
        NaN for a batch without which there is no answer.

    Examples
    --------
    >>> import numpy as np
    >>> from multireplay.inference.left_out import left_out
    >>> y = np.array([1.0, 2.0, 6.0])  # the mean of numbers, a batch each: F̂_b = x − y_b
    >>> left_out(np.ones((3, 1, 1)), (y.mean() - y)[:, None], np.ones(3), np.zeros((1, 1)))[:, 0]
    array([ 2.,  1., -3.])
    """
    count, others = len(rows), rows.sum() - rows
    if count < 2:  # nothing is left
        return np.full(scores.shape, np.nan)
    total, right = np.add.reduce(matrices, axis=0), scores * rows[:, None]
    found = by_cholesky(total, matrices, right, (others, penalty)) if symmetric and len(total) > SMALL else None
    if found is None:
        whole = total - matrices
        if penalty.any():
            whole += others[:, None, None] * penalty
        found = by_elimination(whole, right)
    return np.asarray((count - 1) * found)


def by_cholesky(total: Vector, parts: Vector, right: Vector, added: tuple[Vector, Vector]) -> Vector | None:
    """The solution of each system of what symmetric `parts` leave of their total, with so many penalties `added`.

    None where a matrix is not positive definite. They are made one after the other where the last one was, for to take
    new memory for all of them costs as much as to solve them.
    """
    (solver,), found, left = get_lapack_funcs(("posv",), (total,)), np.empty_like(right), np.empty_like(total)
    (counts, penalty), penalized = added, added[1].any()
    for place, part in enumerate(parts):
        np.subtract(total, part, out=left)
        if penalized:
            left += counts[place] * penalty
        _, found[place], fault = solver(left.T, right[place], lower=True, overwrite_a=True)  # in LAPACK's order
        if fault:
            return None
    return found


def by_elimination(matrices: Vector, right: Vector) -> Vector:
    """The solution of each of these systems, in units in which they are well scaled; NaN where there is none."""
    size = np.sqrt(np.abs(np.diagonal(matrices, axis1=1, axis2=2).mean(axis=0)))
    scale = 1 / np.where(size > 0, size, 1.0)
    matrices, right = matrices * np.outer(scale, scale), scale * right
    try:
        found = np.linalg.solve(matrices, right[:, :, None])[:, :, 0]
    except np.linalg.LinAlgError:  # of one of them
        if len(right) == 1:
            return np.full(right.shape, np.nan)
        found = np.concatenate([by_elimination(matrices[b : b + 1], right[b : b + 1]) for b in range(len(right))])
    return np.asarray(scale * found)


def in_place_of(found: Vector, plain: Vector) -> Vector:
    """Images with batches left out; the plain ones of batches without which there is no answer."""
    with np.errstate(invalid="ignore", over="ignore"):
        held = np.abs(found) <= LARGEST * np.abs(plain).max(axis=0)
    return found if held.all() else np.where(held.all(axis=1)[:, None], found, plain)
