"""Theorem 1: the error of one epoch of multiscale replay."""

from __future__ import annotations

import math
from typing import NamedTuple

from .constants import Constants, gap_of


class Bound(NamedTuple):
    """An upper bound on E‖x_{T_k+1} − x*‖² and its three parts, in the order of eq:main_bound."""

    deterministic: float
    bias: float
    stochastic: float
    total: float


def step_is_covered(c: Constants, k: int, B: float) -> bool:
    """Whether the safe step obeys η_k ≤ 3μ/(8(α_k + 1)(ζ² + 16L̄²)), claim:eta.

    This is all that the proof of thm:main_error asks of the step. It holds in every epoch with τ_k ≥ τ_M,
    and in every epoch when B ≥ ``c.buffer_lower_bound()``.

    Examples
    --------
    >>> c = Constants(mu=1.0, L=1.0, L1=1.0, sigma=1.0, zeta=0.0, C_M=1.0, C_P=0.5, rho=0.5, D=2.0)
    >>> step_is_covered(c, k=3, B=2**10), step_is_covered(c, k=10, B=2**10)
    (True, False)
    """
    # The cap is reached with equality at α_k = 1, where rounding must not decide.
    return c.step_size(k) <= 2.0 * c.step_cap / (c.alpha(k, B) + 1.0) * (1.0 + 1e-12)


def theorem_1(c: Constants, k: int, B: float, *, printed: bool = True) -> Bound:
    r"""Bound E‖x_{T_k+1} − x*‖² after epoch k on a buffer of B samples, thm:main_error (eq:main_bound).

    .. math::

        M\Big(1+\tfrac{3\mu^2}{8(\alpha_k+1)(\zeta^2+16\bar L^2)}\Big)^{-T_k}(D^2+1)
        + \tfrac{20C_M\rho^{\tau_M+\tau_k-1}}{\mu}\Big(1+\tfrac{3}{128(\alpha_k+1)}\Big)
        + \tfrac{3(2+p_k\log T_k)}{\mu^2T_k}(\alpha_k+1)
        \big(6\sigma^2+25C_M^2\rho^{2(\tau_k-1)}+4\|F(x^*)\|^2\big)

    Parameters
    ----------
    c : Constants
        The constants of the assumptions.
    k : int
        Epoch, from 1; T_k = 2^k steps.
    B : float
        Buffer size, at least 2^k. It may be below ``c.buffer_lower_bound()``: the printed formula is
        evaluated all the same, and then promises nothing (see ``step_is_covered``).
    printed : bool
        ``True``: the statement as printed. ``False``: the three terms the proof reaches before it brings in
        p_k, with the safe step η_k itself: M(1+η_kμ)^{−T_k}(D²+1), (20 C_M ρ^{τ_M+τ_k−1}/μ)(1+η_kμ) and
        (3η_k/μ)(α_k+1)(6σ²+…); all inf where ``step_is_covered`` is false, since nothing is promised there.

    Returns
    -------
    Bound
        The three terms and their sum.

    Notes
    -----
    Known faults of the printed statement, which ``printed=False`` avoids where it can:

    * ρ^{τ_M} = μ/(18C), so the bias term is (10/9)(C_M/C) ρ^{τ_k−1} times its last factor: it does not decay
      with τ_M and does not vanish when τ_k ≈ 1. (Both forms.)
    * The proof uses (1 + p log T/T)^{−T} ≤ T^{−p}; the inequality goes the other way.
    * 2 + p_k log T_k, and with it the stochastic term, is negative when p_k is negative enough; without
      noise p_k is infinite, and the term is then 0 if C_M = 0 and inf otherwise.
    * The proof puts an *upper* bound on η_k into (1 + η_kμ)^{−T_k}. The step never exceeds the cap, so for
      α_k < 1 the rate earned is 3μ²/(16(…)), not 3μ²/(8(α_k+1)(…)), up to a factor 2 in the exponent.
      With hardly any noise, α_k → 0 and L > 2μ the printed bound falls below the true error for some T_k.
    * "Verifying A_t ≥ G_{t+1}" drops the 2 of 2η_k²E. With it, the last line needs about half the printed
      cap. (Both forms.)
    * (α_k + 1)/T_k = τ_M/B + 1/T_k: fewer iterations for the same error, never a final error below serial
      SA's.

    Examples
    --------
    >>> c = Constants(mu=1.0, L=1.0, L1=1.0, sigma=1.0, zeta=0.0, C_M=1.0, C_P=0.5, rho=0.5, D=2.0)
    >>> print(*(f"{part:.5f}" for part in theorem_1(c, k=12, B=2**20)))
    0.00000 0.00000 0.05564 0.05564
    >>> print(*(f"{part:.5f}" for part in theorem_1(c, k=12, B=2**20, printed=False)))
    0.00557 0.00000 0.04674 0.05231
    """
    tau = gap_of(k, B)
    alpha_1 = c.alpha(k, B) + 1.0
    T = math.ldexp(1.0, k)
    bias = 20.0 * c.C_M / c.mu * _power(c.rho, c.effective_mixing_time + tau - 1.0)
    noise = noise_level(c, tau)
    if printed:
        rate = 2.0 * c.step_cap * c.mu / alpha_1  # 3μ²/(8(α_k+1)(ζ²+16L̄²))
        bias *= 1.0 + 3.0 / (128.0 * alpha_1)
        factor = 3.0 * (2.0 + c.p_log_T(k)) / T / c.mu / c.mu * alpha_1
        stochastic = factor * noise if noise > 0.0 else 0.0  # p log T · noise → 0 with the noise
    else:
        if not step_is_covered(c, k, B):
            return Bound(math.inf, math.inf, math.inf, math.inf)
        eta = c.step_size(k)
        rate = eta * c.mu
        bias *= 1.0 + rate
        stochastic = 3.0 * eta / c.mu * alpha_1 * noise
    log_error = math.log(c.M) + 2.0 * math.log(math.hypot(c.D, 1.0)) - T * math.log1p(rate)
    deterministic = math.exp(log_error) if log_error < 709.0 else math.inf
    return Bound(deterministic, bias, stochastic, deterministic + bias + stochastic)


def noise_level(c: Constants, tau: float) -> float:
    """σ̄² = 6σ² + 25 C_M² ρ^{2(τ_k−1)} + 4‖F(x*)‖², the noise of one step in eq:main_bound."""
    bias = c.C_M * _power(c.rho, tau - 1.0)
    return 6.0 * c.sigma * c.sigma + 25.0 * bias * bias + 4.0 * c.F_star_norm * c.F_star_norm


def _power(rho: float, exponent: float) -> float:
    """ρ^exponent; underflows to 0 instead of failing."""
    return math.exp(exponent * math.log(rho))
