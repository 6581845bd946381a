"""How many iterations Theorem 1 asks for a given error."""

from __future__ import annotations

import math
from typing import NamedTuple

from multireplay._check import number_in

from .bounds import Bound, noise_level, theorem_1
from .constants import LAST_EPOCH, Constants, gap_of


class Iterations(NamedTuple):
    """The first epoch whose bound reaches the target, its number of steps T_k = 2^k, and that bound."""

    epoch: int
    steps: int
    bound: Bound


class ComplexityOrder(NamedTuple):
    """The two entries of the paper's order expression (no constant factor); ``total`` is their maximum."""

    deterministic: float
    stochastic: float
    total: float


def iterations_for(c: Constants, eps: float, B: float, *, printed: bool = False) -> Iterations | None:
    """Find the first epoch of a buffer of B samples whose bound (thm:main_error) is at most ``eps``.

    Parameters
    ----------
    c : Constants
        The constants of the assumptions.
    eps : float
        Target for E‖x − x*‖².
    B : float
        Buffer size; epochs k = 1 … ⌊log2 B⌋ are tried in turn.
    printed : bool
        Passed to ``theorem_1``. The default here is the form that follows from the proof, because the
        printed one may be negative, and would then "reach" any target.

    Returns
    -------
    Iterations or None
        ``None`` when no epoch of this buffer is promised to reach ``eps``.

    Examples
    --------
    >>> c = Constants(mu=1.0, L=1.0, L1=1.0, sigma=1.0, zeta=0.0, C_M=1.0, C_P=0.5, rho=0.5, D=2.0)
    >>> found = iterations_for(c, eps=0.1, B=2**20)
    >>> found.epoch, found.steps, round(found.bound.total, 5)
    (12, 4096, 0.05231)
    >>> iterations_for(c, eps=1e-9, B=2**20) is None
    True
    """
    target = number_in("eps", eps, low_open=True)
    size = number_in("B", B, 2.0)
    last = min(math.frexp(size)[1] - 1, LAST_EPOCH)  # frexp is exact where log2 rounds
    for k in range(1, last + 1):
        bound = theorem_1(c, k, size, printed=printed)
        if bound.total <= target:
            return Iterations(k, 2**k, bound)
    return None


def complexity_order(c: Constants, eps: float, k: int, B: float) -> ComplexityOrder:
    """Evaluate the paper's order of the iteration complexity, max of two terms, in epoch k.

    The text after corollary:GLM_1 and corollary:RL_1, in the constants of thm:main_error: (α_k+1)(L̄²/μ²)
    log((D²+1)/ε) and (α_k+1)(σ̄²/(μ²ε)) log(1/(μ²ε)), with σ̄² = 6σ² + 25 C_M² ρ^{2(τ_k−1)} + 4‖F(x*)‖².
    Only the order is meant: constants, ζ and the bias term are left out. The GLM text prints μ_f² where
    μ_f²κ² is meant, and log(1/ε) in the second term. A logarithm below 0 counts as 0.

    Examples
    --------
    >>> c = Constants(mu=1.0, L=1.0, L1=1.0, sigma=1.0, zeta=0.0, C_M=0.0, C_P=0.5, rho=0.5, D=2.0)
    >>> order = complexity_order(c, eps=0.1, k=5, B=2**20)
    >>> round(order.deterministic, 2), round(order.stochastic, 2)
    (15.65, 138.17)
    """
    target = number_in("eps", eps, low_open=True)
    tau = gap_of(k, B)
    alpha_1 = c.alpha(k, B) + 1.0
    condition = c.L_bar / c.mu
    log_size = 2.0 * math.log(math.hypot(c.D, 1.0)) - math.log(target)
    deterministic = alpha_1 * condition * condition * max(0.0, log_size)
    log_target = 2.0 * math.log(c.mu) + math.log(target)
    stochastic = alpha_1 * noise_level(c, tau) / c.mu / c.mu / target * max(0.0, -log_target)
    return ComplexityOrder(deterministic, stochastic, max(deterministic, stochastic))
