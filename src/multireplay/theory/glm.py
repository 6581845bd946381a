"""Generalized linear models: constants (Section 6.1's proof) and Corollaries 1 and 2."""

from __future__ import annotations

import math

from multireplay._check import number_in

from .bounds import Bound, theorem_1
from .constants import Constants
from .tracking import theorem_2


def glm_constants(
    D_a: float, L_f: float, mu_f: float, kappa: float, sigma_v: float, D: float, C_TV: float, rho_TV: float
) -> Constants:
    """Constants of y = f(aᵀx*) + v with Markovian covariates, from the proof of corollary:GLM_1.

    μ = μ_f κ, L = L̃_1 = L_f D_a², σ² = 6 D_a² σ_v², ζ² = 12 L_f² D_a⁴, C_M = 0, C_P = 2 L̃_1 C_TV, ρ = ρ_TV.

    Parameters
    ----------
    D_a, kappa : float
        Bound on ‖a_t‖, and smallest eigenvalue of the stationary covariance E[a aᵀ].
    L_f, mu_f : float
        Lipschitz constant and strong monotonicity modulus of the link. Many links (the logistic one, for
        instance) are strongly monotone on bounded sets only.
    sigma_v, D : float
        Standard deviation of the noise, and diameter of the ball of assmp:optimal_ball.
    C_TV, rho_TV : float
        Total variation mixing (assmp:TV_mixing).

    Examples
    --------
    >>> c = glm_constants(D_a=2.0, L_f=0.5, mu_f=0.25, kappa=1.0, sigma_v=1.0, D=2.0, C_TV=1.0, rho_TV=0.5)
    >>> c.mu, c.L, c.L1, c.C_M, c.C_P
    (0.25, 2.0, 2.0, 0.0, 4.0)
    >>> round(c.sigma**2, 9), round(c.zeta**2, 9)
    (24.0, 48.0)
    """
    a = number_in("D_a", D_a, low_open=True)
    L1 = number_in("L_f", L_f, low_open=True) * a**2
    return Constants(
        mu=number_in("mu_f", mu_f, low_open=True) * number_in("kappa", kappa, low_open=True),
        L=L1,
        L1=L1,
        sigma=math.sqrt(6.0) * a * number_in("sigma_v", sigma_v),
        zeta=math.sqrt(12.0) * L1,
        C_M=0.0,
        C_P=2.0 * L1 * number_in("C_TV", C_TV),
        rho=number_in("rho_TV", rho_TV, 0.0, 1.0, low_open=True),
        D=D,
    )


def corollary_1(c: Constants, k: int, B: float, *, printed: bool = False) -> Bound:
    """Bound E‖x_{T_k+1} − x*‖² for a GLM, corollary:GLM_1.

    It is thm:main_error at ``glm_constants``: 16L̄² = 64 L_f² D_a⁴, C_M = 0 removes the bias term, and 3·6 =
    18. Its faults are those of ``theorem_1``, and so is ``printed``.

    Examples
    --------
    >>> c = glm_constants(D_a=1.0, L_f=1.0, mu_f=1.0, kappa=1.0, sigma_v=0.1, D=2.0, C_TV=1.0, rho_TV=0.5)
    >>> print(*(f"{part:.4f}" for part in corollary_1(c, k=12, B=2**30, printed=True)))
    0.0000 0.0000 0.0037 0.0037
    """
    return theorem_1(c, k, B, printed=printed)


def corollary_2(
    c0: float, T: int, *, D_a: float, D_x: float, D_f: float, D_y: float, L_f: float, printed: bool = False
) -> float:
    """Bound |E‖Δ_{T+1}‖ − E‖Δ̃_{T+1}‖| for a GLM at β = log T^{3/2}, corollary:GLM_2.

    √2 · 3 c_0 max(L_f D_a D_x + D_f + D_y, D_a)/(T L_f D_a²).

    Parameters
    ----------
    c0, T
        As in ``theorem_2``.
    D_a, D_x, D_f, D_y : float
        Bounds on ‖a‖, on the diameter of X (the proof uses it as a bound on ‖x‖, so 0 must lie in X), on
        |f(aᵀx)| and on |y|.
    L_f : float
        Lipschitz constant of the link.
    printed : bool
        ``True``: without the √2 of L̃_2 = √2 max(…), which the printed corollary drops.

    Examples
    --------
    >>> bounds = dict(D_a=1.0, D_x=2.0, D_f=1.0, D_y=1.0, L_f=0.5)
    >>> round(corollary_2(1.0, 100, **bounds), 5)
    0.25456
    >>> corollary_2(1.0, 100, **bounds, printed=True)
    0.18
    """
    a = number_in("D_a", D_a, low_open=True)
    link = number_in("L_f", L_f, low_open=True)
    first = link * a * number_in("D_x", D_x) + number_in("D_f", D_f) + number_in("D_y", D_y)
    L2 = max(first, a) * (1.0 if printed else math.sqrt(2.0))
    return theorem_2(c0, link * a**2, L2, T)
