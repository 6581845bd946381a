"""The stationary law of a finite ergodic chain."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multireplay.errors import InputError

Array = NDArray[np.float64]


def transition_matrix(P: ArrayLike) -> Array:
    """Return P as an array after checking that its rows are probabilities."""
    P_ = np.asarray(P, dtype=np.float64)
    if P_.ndim != 2 or P_.shape[0] != P_.shape[1] or P_.shape[0] == 0:
        raise InputError(f"P must be a square matrix; got shape {P_.shape}")
    if not np.isfinite(P_).all():
        raise InputError("P must be finite; it holds nan or inf")
    if (P_ < 0.0).any() or not np.allclose(P_.sum(axis=1), 1.0, rtol=0.0, atol=1e-9):
        raise InputError("P must have rows that are probabilities: none negative, each row summing to 1")
    return P_


def stationary_law(P: ArrayLike) -> Array:
    """Return the law π with πP = π of an ergodic chain.

    Parameters
    ----------
    P : array_like, shape (S, S)
        Transition matrix. It must have one class of states, no period and no transient state, as the paper
        assumes for policy evaluation.

    Examples
    --------
    >>> stationary_law([[0.9, 0.1], [0.2, 0.8]]).round(4).tolist()
    [0.6667, 0.3333]
    """
    return _stationary(transition_matrix(P))


def _stationary(P: Array) -> Array:
    S = len(P)
    system = np.vstack([P.T - np.eye(S), np.ones((1, S))])
    pi = np.linalg.lstsq(system, np.append(np.zeros(S), 1.0), rcond=None)[0]
    modulus = float(np.abs(np.linalg.eigvals(P - pi[None, :])).max())
    if modulus > 1.0 - 1e-10 or (pi <= 1e-14).any():
        raise InputError(
            "P must be ergodic (one class of states, no period, every state recurrent); the second largest"
            f" modulus of its eigenvalues is {modulus:g}, its least probability {float(pi.min()):g}"
        )
    law: Array = pi / pi.sum()
    return law
