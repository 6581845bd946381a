"""Policy evaluation: constants from bounds on features and rewards, and Corollaries 3 and 4."""

from __future__ import annotations

import math

from multireplay._check import number_in, whole_number
from multireplay.errors import InputError

from .bounds import Bound, theorem_1
from .constants import Constants
from .tracking import theorem_2


def policy_evaluation_constants(
    D_psi: float,
    R_bar: float,
    gamma: float,
    lambda_min: float,
    lambda_max: float,
    D: float,
    rho: float,
    C_TV: float | None = None,
    C_M: float | None = None,
    C_P: float | None = None,
) -> Constants:
    """Constants of policy evaluation with linear features, from the proof of corollary:RL_1.

    μ = (1−γ)λ_min(Q), L = (1+γ)λ_max(Q), L̃_1 = (1+γ)D_ψ², σ² = 48(1+γ)²D_ψ⁴D² + 48 D_ψ²R̄², ζ² =
    12(1+γ)²D_ψ⁴.

    Parameters
    ----------
    D_psi, R_bar : float
        Bounds on ‖ψ(s)‖ and on |R(s, s')| (the paper prints R ≤ R̄ without the absolute value).
    gamma : float
        Discount factor, in [0, 1).
    lambda_min, lambda_max : float
        Extreme eigenvalues of Q. Q must be Π-weighted, Q_ij = Σ_s π(s)ψ_i(s)ψ_j(s); the paper prints ⟨ψ_i,
        ψ_j⟩.
    D, rho, C_M, C_P
        As in ``Constants``.
    C_TV : float, optional
        Total variation constant (assmp:TV_mixing), in place of C_M and C_P.

    Notes
    -----
    The paper does not print C_M and C_P. From total variation, ‖∫g d(π − P)‖ ≤ 2 TV(π, P) sup‖g‖ with g = F̃(θ̄, ·),
    where ‖F̃(θ̄, ξ)‖ ≤ D_ψ((1+γ)D_ψ‖θ̄‖ + R̄) and ‖θ̄‖ ≤ D/2, gives C_M = 2 C_TV D_ψ((1+γ)D_ψ D/2 + R̄); and with
    g = F̃(x, ·) − F̃(y, ·), C_P = 2 L̃_1 C_TV.

    Examples
    --------
    >>> c = policy_evaluation_constants(
    ...     D_psi=1.0, R_bar=1.0, gamma=0.5, lambda_min=0.5, lambda_max=1.0, D=2.0, rho=0.5, C_TV=1.0
    ... )
    >>> c.mu, c.L, c.L1, c.C_M, c.C_P
    (0.25, 1.5, 1.5, 5.0, 3.0)
    >>> round(c.sigma**2, 9), round(c.zeta**2, 9)
    (480.0, 27.0)
    """
    psi = number_in("D_psi", D_psi, low_open=True)
    reward = number_in("R_bar", R_bar)
    g = number_in("gamma", gamma, 0.0, 1.0)
    radius = number_in("D", D) / 2.0
    L1 = (1.0 + g) * psi**2
    largest = number_in("lambda_max", lambda_max, low_open=True)
    smallest = number_in("lambda_min", lambda_min, 0.0, largest, low_open=True, high_open=False)
    if C_TV is not None:
        if C_M is not None or C_P is not None:
            raise InputError("give either C_TV, or C_M and C_P; got both")
        tv = number_in("C_TV", C_TV)
        C_M, C_P = 2.0 * tv * (L1 * radius + psi * reward), 2.0 * tv * L1
    elif C_M is None or C_P is None:
        raise InputError(f"give either C_TV, or both C_M and C_P; got C_TV=None, C_M={C_M!r}, C_P={C_P!r}")
    return Constants(
        mu=(1.0 - g) * smallest,
        L=(1.0 + g) * largest,
        L1=L1,
        sigma=math.sqrt(48.0) * math.hypot(2.0 * L1 * radius, psi * reward),
        zeta=math.sqrt(12.0) * L1,
        C_M=C_M,
        C_P=C_P,
        rho=rho,
        D=2.0 * radius,
    )


def corollary_3(c: Constants, k: int, B: float, *, printed: bool = False) -> Bound:
    """Bound E‖θ_{T_k+1} − θ̄‖² for policy evaluation, corollary:RL_1.

    It is thm:main_error at ``policy_evaluation_constants``, with 16L̄² = 16(1+γ)²(D_ψ² + λ_max(Q))². Its
    faults are those of ``theorem_1``, and so is ``printed``. On the paper's own Markov reward process the step is at
    most 8.04e-6 and the least buffer about 6e10 samples.

    Examples
    --------
    >>> c = policy_evaluation_constants(
    ...     D_psi=1.0, R_bar=1.0, gamma=0.5, lambda_min=0.5, lambda_max=1.0, D=2.0, rho=0.5, C_TV=1.0
    ... )
    >>> print(*(f"{part:.4g}" for part in corollary_3(c, k=20, B=2**40, printed=True)))
    1.55e-59 0 1.595 1.595
    """
    return theorem_1(c, k, B, printed=printed)


def D_theta(d: int, theta_0_norm: float, R_bar: float, gamma: float, D_psi: float, *, printed: bool = False) -> float:
    """Bound ‖θ_T‖ for steps of at most 1/(T(1+γ)D_ψ²), lemma:theta_bound.

    Parameters
    ----------
    d, theta_0_norm
        Number of features, and ‖θ_0‖.
    R_bar, gamma, D_psi
        As in ``policy_evaluation_constants``.
    printed : bool
        ``True``: (1+√d)(‖θ_0‖ + R̄/((1+γ)D_ψ)), whose proof uses that I − ηψψᵀ(1−γ) does not expand the ℓ∞ norm,
        which is false (ψ = (1, 2) expands it). ``False``: e‖θ_0‖ + (e−1)R̄/((1+γ)D_ψ), which follows from
        ‖θ_{t+1}‖ ≤ (1+ηL̃_1)‖θ_t‖ + ηD_ψR̄, and is smaller as soon as d ≥ 3.

    Examples
    --------
    >>> round(D_theta(d=4, theta_0_norm=1.0, R_bar=1.5, gamma=0.5, D_psi=1.0), 4)
    4.4366
    >>> D_theta(d=4, theta_0_norm=1.0, R_bar=1.5, gamma=0.5, D_psi=1.0, printed=True)
    6.0
    """
    features = whole_number("d", d, least=1)
    start = number_in("theta_0_norm", theta_0_norm)
    psi = number_in("D_psi", D_psi, low_open=True)
    drive = number_in("R_bar", R_bar) / ((1.0 + number_in("gamma", gamma, 0.0, 1.0)) * psi)
    if printed:
        return (1.0 + math.sqrt(features)) * (start + drive)
    return math.e * start + math.expm1(1.0) * drive


def corollary_4(
    c0: float, T: int, *, D_psi: float, D_theta: float, R_bar: float, gamma: float, printed: bool = False
) -> float:
    """Bound |E‖Δ_{T+1}‖ − E‖Δ̃_{T+1}‖| for policy evaluation at β = log T^{3/2}, corollary:RL_2.

    3 c_0 L̃_2/(T(1+γ)D_ψ²) with L̃_2 = √3 max((2+γ)D_ψD_θ + R̄, D_ψ), which is what thm:emulate_iid implies.

    Parameters
    ----------
    c0, T
        As in ``theorem_2``.
    D_psi, R_bar, gamma
        As in ``policy_evaluation_constants``.
    D_theta : float
        Bound on the iterates; see ``D_theta``.
    printed : bool
        ``True``: L̃_2 = (2+γ)D_ψD_θ + R̄. The printed corollary drops the √3 of lemma:RL_lipschitz2, and that lemma
        the coefficient D_ψ of the difference of rewards.

    Examples
    --------
    >>> round(corollary_4(1.0, 100, D_psi=1.0, D_theta=2.0, R_bar=1.0, gamma=0.5), 5)
    0.20785
    >>> corollary_4(1.0, 100, D_psi=1.0, D_theta=2.0, R_bar=1.0, gamma=0.5, printed=True)
    0.12
    """
    psi = number_in("D_psi", D_psi, low_open=True)
    g = number_in("gamma", gamma, 0.0, 1.0)
    L2 = (2.0 + g) * psi * number_in("D_theta", D_theta) + number_in("R_bar", R_bar)
    return theorem_2(c0, (1.0 + g) * psi**2, L2 if printed else math.sqrt(3.0) * max(L2, psi), T)
