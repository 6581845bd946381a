"""The constants of the assumptions, every quantity the paper derives from them, and how arguments are checked."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from multireplay._check import number_in, whole_number
from multireplay.errors import InputError

LAST_EPOCH = 1000
LOG_2 = math.log(2.0)


@dataclass(frozen=True)
class Constants:
    r"""Constants of a problem and its Markov chain (Section "Assumptions and shorthand notation").

    Parameters
    ----------
    mu : float
        Strong monotonicity modulus of F, eq:monotonicity; in (0, L].
    L, L1 : float
        Lipschitz constants of F (eq:F_lipschitz) and of F̃ in its first argument (assmp:lipscitz1).
    sigma, zeta : float
        Conditional variance ≤ σ²/2 + (ζ²/2)‖x − x*‖² (assmp:state_dependent_noise).
    C_M, C_P : float
        Multipliers of ρ^{t'−t} in the bias at x* (assmp:optimal_condition) and in the bias of a difference
        (assmp:mixing_norm_revised). Zero is allowed: generalized linear models have C_M = 0.
    rho : float
        The common mixing parameter, in (0, 1).
    D : float
        x* and every starting point lie in the ball of radius D/2 (assmp:optimal_ball).
    F_star_norm : float
        ‖F(x*)‖; zero when x* is an interior solution.

    Examples
    --------
    >>> c = Constants(mu=1.0, L=1.0, L1=1.0, sigma=1.0, zeta=0.0, C_M=1.0, C_P=0.5, rho=0.5, D=2.0)
    >>> c.C, c.L_bar, c.M
    (0.525, 2.0, 40.0)
    >>> round(c.effective_mixing_time, 4)
    3.2403
    >>> round(c.step_cap, 6), round(c.step_size(20), 8)
    (0.00293, 1.53e-05)
    """

    mu: float
    L: float
    L1: float
    sigma: float
    zeta: float
    C_M: float
    C_P: float
    rho: float
    D: float
    F_star_norm: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            name, value = field.name, getattr(self, field.name)
            high = 1.0 if name == "rho" else math.inf
            checked = number_in(name, value, 0.0, high, low_open=name in ("mu", "L", "L1", "rho"))
            object.__setattr__(self, name, checked)
        if self.mu > self.L * (1.0 + 1e-12):
            raise InputError(f"mu must be a number in (0, L] = (0, {self.L:g}], not {self.mu!r}")

    @property
    def C(self) -> float:
        """C = C_M/40 + C_P, eq:C_defn."""
        return self.C_M / 40.0 + self.C_P

    @property
    def effective_mixing_time(self) -> float:
        """``mixing_time()``: τ_M, and at least 1."""
        return self.mixing_time()

    def mixing_time(self, printed: bool = False) -> float:
        """τ_M = log(18C/μ)/log(1/ρ), eq:surrogate_mixing_time, and at least 1 unless `printed`.

        The paper sets no floor: as printed τ_M is below 1 for a chain that mixes fast, and -inf for C = 0.
        """
        if self.C == 0.0:
            return -math.inf if printed else 1.0
        tau = (math.log(18.0) + math.log(self.C) - math.log(self.mu)) / -math.log(self.rho)
        return tau if printed else max(1.0, tau)

    @property
    def L_bar(self) -> float:
        """L̄ = L + L̃_1, eq:definitions."""
        return self.L + self.L1

    @property
    def M(self) -> float:
        """M = max{2 + 4C/μ, 40 C_M/μ}, eq:definitions."""
        return max(2.0 + 4.0 * self.C / self.mu, 40.0 * self.C_M / self.mu)

    @property
    def curvature(self) -> float:
        """ζ² + 16 L̄², which the paper repeats without a name."""
        return self.zeta * self.zeta + 16.0 * self.L_bar * self.L_bar

    @property
    def step_cap(self) -> float:
        """3μ/(16(ζ² + 16L̄²)), the first entry of eq:step_size: 8.04e-6 on the paper's own Markov reward process."""
        return 3.0 * self.mu / (16.0 * self.curvature)

    @property
    def log_ratio(self) -> float:
        """log(μ² M max{1, D²} / (3(6σ² + 4‖F(x*)‖²))) of eq:definitions, by logarithms; inf without noise."""
        logs = [
            math.log(weight) + 2.0 * math.log(value)
            for weight, value in ((6.0, self.sigma), (4.0, self.F_star_norm))
            if value > 0.0
        ]
        if not logs:
            return math.inf
        noise = max(logs) + math.log1p(math.exp(min(logs) - max(logs))) if len(logs) == 2 else logs[0]
        size = 2.0 * max(0.0, math.log(self.D)) if self.D > 0.0 else 0.0
        return 2.0 * math.log(self.mu) + math.log(self.M) + size - math.log(3.0) - noise

    def p_log_T(self, k: int) -> float:
        """p_k log T_k = log T_k + ``log_ratio``, as printed: may be negative, inf without noise."""
        return epoch_number(k) * LOG_2 + self.log_ratio

    def p(self, k: int) -> float:
        """p_k of eq:definitions as printed.

        It is negative for small k when the noise is large, and then *increases* to 1: the proof's "p_k ≤ p_1" holds
        only when p_1 ≥ 1. Without noise it is infinite.
        """
        return self.p_log_T(k) / (epoch_number(k) * LOG_2)

    def q(self, k: int) -> float:
        """q_k = max(log T_k, p_k log T_k), the value used where p_k log T_k would be useless."""
        return max(epoch_number(k) * LOG_2, self.p_log_T(k))

    def step_size(self, k: int, printed: bool = False) -> float:
        """η_k of eq:step_size in epoch k, from 1.

        As printed it is min{cap, p_k log T_k/(μ T_k)}, which is negative when p_k is; by default q_k takes the place
        of p_k log T_k. Without noise both give the cap.
        """
        q = self.p_log_T(k) if printed else self.q(k)
        return min(self.step_cap, math.ldexp(q / self.mu, -epoch_number(k)))

    def alpha(self, k: int, B: float, printed: bool = False) -> float:
        """α_k = τ_M/τ_k, eq:alpha_definition, for a buffer of B samples (τ_k = B/2^k ≥ 1)."""
        return self.mixing_time(printed) / gap_of(k, B)

    def buffer_lower_bound(self, printed: bool = False) -> float:
        """Smallest B that thm:main_error accepts: z log z with z = 32 p_1 τ_M (ζ² + 16L̄²)/(3μ²).

        With p_1 and τ_M as printed it is nan when either is not positive, where the statement means nothing; by default
        max(1, p_1) = q_1/log 2 takes the place of p_1, which belongs to the safe step and restores "p_k ≤ p_1". Both
        are inf without noise: no buffer makes the cap small enough for epochs with τ_k < τ_M.
        """
        p_1 = self.p(1) if printed else self.q(1) / LOG_2
        tau = self.mixing_time(printed)
        if p_1 <= 0.0 or tau <= 0.0:
            return math.nan
        z = 32.0 * p_1 * tau * self.curvature / 3.0 / self.mu / self.mu
        return z * math.log(z) if z < math.inf else math.inf


def epoch_number(k: object) -> int:
    """Return the epoch number k, from 1 to 1000, beyond which T_k = 2^k is no finite float."""
    n = whole_number("k", k, least=1)
    if n > LAST_EPOCH:
        raise InputError(f"k must be a whole number from 1 to {LAST_EPOCH}, not {k!r}")
    return n


def gap_of(k: object, B: object) -> float:
    """Return the replay gap τ_k = B/2^k of epoch k, which must be at least 1."""
    n = epoch_number(k)
    size = number_in("B", B, 1.0)
    if size < math.ldexp(1.0, n):
        raise InputError(f"B must be at least 2^k = {2**n} for epoch k = {n} to exist (gap B/2^k >= 1); got {B!r}")
    return math.ldexp(size, -n)
