"""Theorem 2: how closely replay with a large gap follows stochastic approximation on independent samples."""

from __future__ import annotations

import math

from multireplay._check import number_in, whole_number
from multireplay.errors import InputError


def beta_for(T: int) -> float:
    """β = log T^{3/2}, the gap in effective mixing times that makes thm:emulate_iid's difference O(1/T).

    Examples
    --------
    >>> round(beta_for(100), 4)
    6.9078
    """
    return 1.5 * math.log(whole_number("T", T, least=1))


def max_step(L1: float, T: int) -> float:
    """Largest step that thm:emulate_iid allows, 1/(L̃_1 T).

    Such steps follow the independent run closely but do not converge under thm:main_error, which needs μηT → ∞.

    Examples
    --------
    >>> max_step(L1=2.0, T=100)
    0.005
    """
    return 1.0 / (number_in("L1", L1, low_open=True) * whole_number("T", T, least=1))


def theorem_2(c0: float, L1: float, L2: float, T: int, beta: float | None = None) -> float:
    """Bound |E‖Δ_{T+1}‖ − E‖Δ̃_{T+1}‖| by 3 c_0 (L̃_2/L̃_1) √T e^{−β}, thm:emulate_iid (eq:lipschitz_bound).

    Parameters
    ----------
    c0 : float
        Constant of the Wasserstein mixing assumption (assmp:wasserstein_mixing).
    L1, L2 : float
        Lipschitz constants of F̃ in its first (assmp:lipscitz1) and second argument (assmp:lipscitz2).
    T : int
        Number of steps, each at most ``max_step(L1, T)``.
    beta : float, optional
        The gap is β τ_M, with β > 1. ``None`` takes ``beta_for(T)``, which gives corollary:emulate_iid,
        3 c_0 L̃_2/(T L̃_1).

    Notes
    -----
    The paper calls c_0 universal, but its proof uses W_1(law of ξ_{t+βτ_M} given ξ_t, π) ≤ c_0 e^{−β}; so c_0 carries
    the diameter of the sample space. A valid c_0 for a given gap is e^β times the largest of those distances: then
    W_1 between the T samples and T independent ones is at most T c_0 e^{−β} (wasserstein_bound), by replacing the
    samples from the last to the first. The paper replaces one sample at a time between its two neighbours, which can
    cost twice as much. The factor √T is not needed: the proof in the sum metric gives e·c_0 (L̃_2/L̃_1) e^{−β}.

    Examples
    --------
    >>> round(theorem_2(c0=1.0, L1=2.0, L2=3.0, T=100, beta=5.0), 5)
    0.30321
    >>> round(theorem_2(c0=1.0, L1=2.0, L2=3.0, T=100), 5)
    0.045
    """
    steps = whole_number("T", T, least=1)
    scale = 3.0 * number_in("c0", c0) * number_in("L2", L2) / number_in("L1", L1, low_open=True)
    if beta is None:
        return scale / steps
    gap = number_in("beta", beta)
    if gap <= 1.0:
        raise InputError(f"beta must exceed 1 (the gap is beta effective mixing times); got {beta!r}")
    return scale * math.sqrt(steps) * math.exp(-gap)
