"""Theorem 1: the error of one epoch of multiscale replay, and how many iterations a given error takes."""

from __future__ import annotations

import math
from typing import NamedTuple

from multireplay._check import number_in

from .constants import LAST_EPOCH, Constants, gap_of


class Bound(NamedTuple):
    """An upper bound on E‖x_{T_k+1} − x*‖² and its three parts, in the order of eq:main_bound."""

    deterministic: float
    bias: float
    stochastic: float
    total: float


def provable_share(c: Constants, alpha: float) -> float:
    r"""Share of claim:eta's step 3μ/(8(α_k + 1)(ζ² + 16L̄²)) with which the proof of thm:main_error goes through.

    "Verifying A_t ≥ G_{t+1}" writes η²E for the 2η²E of its own G_{t+1}, E = ζ² + 8L̄². With the 2, and with
    C ρ^{τ_M + τ_k − 1} ≤ μ/18, it needs

    .. math::

        \frac{\mu}{2} \ge \eta\bar L^2 + 2\eta E(\alpha_k+1)\Gamma + \frac{\mu}{18}\Gamma
        + 4\eta\bar L^2\alpha_k\Gamma, \qquad \Gamma = e^{3\mu^2/(8(\zeta^2+16\bar L^2))} \ge (1+\eta\mu)^{\alpha_k+1}.

    The share is 16/27 = 0.59 where ζ is much larger than L̄. Without ζ it is 1 for α_k ≤ 1 and falls to 0.95 for large
    α_k. With ζ² = 3L̄², as for a GLM, it is 0.92 at α_k = 1 and falls to 0.87.

    Examples
    --------
    >>> c = Constants(mu=0.01, L=1.0, L1=1.0, sigma=1.0, zeta=0.0, C_M=1.0, C_P=0.5, rho=0.5, D=2.0)
    >>> provable_share(c, alpha=1.0), round(provable_share(c, alpha=1e6), 3)
    (1.0, 0.948)
    """
    a = number_in("alpha", alpha)
    growth = math.exp(2.0 * c.step_cap * c.mu)
    lipschitz = c.L_bar * c.L_bar / c.curvature
    noise = 0.75 * growth * (1.0 - 8.0 * lipschitz)  # (ζ² + 8L̄²)/(ζ² + 16L̄²) = 1 − 8L̄²/(ζ² + 16L̄²)
    return min(1.0, (0.5 - growth / 18.0) / (noise + lipschitz * (0.375 + 1.5 * a * growth) / (a + 1.0)))


def step_is_covered(c: Constants, k: int, B: float) -> bool:
    """Whether the safe step obeys η_k ≤ s·3μ/(8(α_k + 1)(ζ² + 16L̄²)), with s = ``provable_share``.

    This is all that the proof of thm:main_error asks of the step, once its missing factor 2 is restored; claim:eta has
    s = 1. For ζ ≤ 2L̄, which a Lipschitz constant L̃_1 always allows, it holds in every epoch when B ≥
    ``c.buffer_lower_bound()``. With a larger ζ the cap itself can be too large for some epochs with α_k below 1.

    Examples
    --------
    >>> c = Constants(mu=1.0, L=1.0, L1=1.0, sigma=1.0, zeta=0.0, C_M=1.0, C_P=0.5, rho=0.5, D=2.0)
    >>> step_is_covered(c, k=3, B=2**10), step_is_covered(c, k=10, B=2**10)
    (True, False)
    """
    alpha = c.alpha(k, B)
    return c.step_size(k) <= provable_share(c, alpha) * 2.0 * c.step_cap / (alpha + 1.0) * (1.0 + 1e-12)  # rounding


def theorem_1(c: Constants, k: int, B: float, *, printed: bool = False) -> Bound:
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
        Buffer size, at least 2^k. Below ``c.buffer_lower_bound()`` the printed formula promises nothing (see
        ``step_is_covered``).
    printed : bool
        ``True``: the statement as printed, nan where its τ_M is so far below 0 that α_k ≤ −1. ``False``: the three
        terms the proof reaches before it brings in p_k, with the safe step η_k itself: M(1+η_kμ)^{−T_k}(D²+1),
        (20 C_M ρ^{τ_M+τ_k−1}/μ)(1+η_kμ) and (3η_k/μ)(α_k+1)(6σ²+…); all inf where ``step_is_covered`` is false, since
        nothing is promised there.

    Notes
    -----
    In both forms ρ^{τ_M} = μ/(18C), so that the bias does not vanish when τ_k ≈ 1. Faults of the printed one: the
    proof drops a factor 2 (see ``provable_share``); the stochastic term is negative when p_k is negative enough, and
    infinite without noise unless C_M = 0; the proof uses (1 + p log T/T)^{−T} ≤ T^{−p}, which goes the other way; for
    α_k < 1 the rate earned is 3μ²/(16(…)), not 3μ²/(8(α_k+1)(…)), so that with hardly any noise and L > 2μ the bound
    falls below the true error for some T_k.

    Examples
    --------
    >>> c = Constants(mu=1.0, L=1.0, L1=1.0, sigma=1.0, zeta=0.0, C_M=1.0, C_P=0.5, rho=0.5, D=2.0)
    >>> print(*(f"{part:.5f}" for part in theorem_1(c, k=12, B=2**20)))
    0.00557 0.00000 0.04674 0.05231
    >>> print(*(f"{part:.5f}" for part in theorem_1(c, k=12, B=2**20, printed=True)))
    0.00000 0.00000 0.05564 0.05564
    """
    tau = gap_of(k, B)
    alpha_1 = c.alpha(k, B, printed) + 1.0
    if alpha_1 <= 0.0:
        return Bound(math.nan, math.nan, math.nan, math.nan)
    T = math.ldexp(1.0, k)
    bias = 20.0 * c.C_M / c.mu * math.pow(c.rho, c.mixing_time(printed) + tau - 1.0)
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
    bias = c.C_M * math.pow(c.rho, tau - 1.0)
    return 6.0 * c.sigma * c.sigma + 25.0 * bias * bias + 4.0 * c.F_star_norm * c.F_star_norm


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

    It is None when no epoch k = 1 … ⌊log2 B⌋ is promised to reach it.

    Parameters
    ----------
    eps : float
        Target for E‖x − x*‖².
    c, B, printed
        As in ``theorem_1``. The printed form may be negative, and would then "reach" any target.

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
