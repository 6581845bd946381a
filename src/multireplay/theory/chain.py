"""A finite Markov chain itself: its stationary law, and the constants of policy evaluation, not from bounds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from multireplay._check import Vector, number_in
from multireplay.errors import InputError

from .constants import Constants

LONGEST_HORIZON = 2**17


def finite_array(name: str, values: ArrayLike, *dimensions: int) -> Vector:
    """Return the values as a new array of finite numbers with one of these numbers of dimensions."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a regular array of numbers") from None
    if array.ndim not in dimensions or array.size == 0:
        allowed = " or ".join(f"{ndim} dimension{'s' * (ndim > 1)}" for ndim in dimensions)
        raise InputError(f"{name} must have {allowed}, but its shape is {array.shape}")
    if not np.isfinite(array).all():
        raise InputError(f"{name} must be finite; it holds nan or inf")
    return array


def transition_matrix(name: str, values: ArrayLike) -> Vector:
    """Return a square array, each of whose rows is a distribution."""
    P = finite_array(name, values, 2)
    if P.shape[0] != P.shape[1]:
        raise InputError(f"{name} must be square, but its shape is {P.shape}")
    if (P < 0).any():
        row, column = np.argwhere(P < 0)[0]
        raise InputError(
            f"{name} holds {P[row, column]:g} at row {row}, column {column} (counting from 0); "
            "probabilities cannot be negative"
        )
    sums = P.sum(axis=1)
    wrong = np.flatnonzero(np.abs(sums - 1) > 1e-9)
    if wrong.size:
        raise InputError(
            f"row {wrong[0]} (counting from 0) of {name} sums to {sums[wrong[0]]:.12g}; every row must sum to 1"
        )
    return P


def stationary_law(P: ArrayLike) -> Vector:
    """Return the law π with πP = π of a chain with one class of states, no period and no transient state.

    Examples
    --------
    >>> stationary_law([[0.9, 0.1], [0.2, 0.8]]).round(4).tolist()
    [0.6667, 0.3333]
    """
    P = transition_matrix("P", P)
    S = len(P)
    system = np.vstack([P.T - np.eye(S), np.ones((1, S))])
    pi = np.linalg.lstsq(system, np.append(np.zeros(S), 1.0), rcond=None)[0]
    modulus = float(np.abs(np.linalg.eigvals(P - pi[None, :])).max())
    if modulus > 1.0 - 1e-10 or (pi <= 1e-14).any():
        raise InputError(
            "P must be ergodic (one class of states, no period, every state recurrent); the second largest"
            f" modulus of its eigenvalues is {modulus:g}, its least probability {float(pi.min()):g}"
        )
    law: Vector = pi / pi.sum()
    return law


class ExactConstants(NamedTuple):
    """What ``exact_constants`` returns.

    ``constants`` are valid in all assumptions of thm:main_error; ``theta_bar`` solves the projected Bellman
    equation; ``pi`` is the stationary law; ``Q`` = Ψᵀ Π Ψ; ``A`` = Ψᵀ Π (I − γP) Ψ; ``mu_paper`` =
    (1−γ)λ_min(Q), the paper's smaller modulus.
    """

    constants: Constants
    theta_bar: Vector
    pi: Vector
    Q: Vector
    A: Vector
    mu_paper: float


def exact_constants(
    P: ArrayLike, Psi: ArrayLike, rewards: ArrayLike, gamma: float, D: float | None = None, *, slack: float = 0.02
) -> ExactConstants:
    """Compute constants for which every assumption of thm:main_error really holds on a finite chain.

    Parameters
    ----------
    P, Psi : array_like, shape (S, S) and (S, d)
        Transition matrix of an ergodic chain, and ψ(s) in row s; the columns must be linearly independent.
    rewards, gamma : array_like, shape (S,) or (S, S), float
        r(s), or R(s, s'), and the discount factor in [0, 1).
    D : float, optional
        Diameter of the ball of assmp:optimal_ball; by default 2‖θ̄‖, the smallest possible.
    slack : float
        ρ is at most λ + slack·(1 − λ), with λ the second largest modulus of the eigenvalues of P. A smaller
        slack gives a smaller ρ and takes longer.

    Notes
    -----
    μ is the smallest eigenvalue of the symmetric part of A, L = ‖A‖, and L̃_1 the largest ‖ψ(s)‖‖ψ(s) − γψ(s')‖ over
    transitions that can happen.

    Conditioning on F_{t−1} means knowing s_t, since ξ_{t−1} = (s_{t−1}, s_t); then ξ_{t+n} = (s_{t+n}, s_{t+n+1}) with
    s_{t+n} drawn from row s_t of Pⁿ. So the bias at θ̄ is row s_t of Pⁿh, h(s) = E[F̃(θ̄, ξ) | s], and that of a
    difference is row s_t of Pⁿ(A(·) − A), A(s) = E[ψ(s)(ψ(s) − γψ(s'))ᵀ | s]. Write E = P − 1πᵀ. With N such that
    ‖E^N‖_∞ ≤ ρ^N, and C_M (or C_P) the largest bias/ρⁿ over n < N, the inequality holds for all n, because
    ‖E^{jN+r}h‖ ≤ ‖E^N‖_∞^j ‖E^r h‖ ≤ C ρ^{jN+r}. N is found by squaring, and ρ is then lowered to ‖E^N‖_∞^{1/N}.

    The variance of F̃(θ̄, ξ) + A_ξ(θ − θ̄) is at most twice the sum of the two variances, and each is at most the mean
    square about any fixed centre, hence at most its largest value given s_{t+n} = s, whatever n is: σ² = 4 max_s
    E[‖F̃(θ̄, ξ)‖² | s] and ζ² = 4 max_s λ_max(E[(A_ξ − c)ᵀ(A_ξ − c) | s]), for c = 0 or A, the better.

    Examples
    --------
    >>> exact = exact_constants([[0.9, 0.1], [0.2, 0.8]], [[1.0], [0.5]], [1.0, 0.0], gamma=0.5)
    >>> exact.pi.round(4).tolist(), exact.theta_bar.round(4).tolist()
    ([0.6667, 0.3333], [1.7391])
    >>> c = exact.constants
    >>> round(c.mu, 4), round(c.L1, 4), round(c.C_P, 4)
    (0.3833, 0.75, 0.2833)
    >>> 0.7 < c.rho < 0.707
    True
    """
    P_, Psi_, R = transition_matrix("P", P), finite_array("Psi", Psi, 2), finite_array("rewards", rewards, 1, 2)
    S = len(P_)
    if len(Psi_) != S:
        raise InputError(f"Psi must have shape (S, d) with S = {S} states and d >= 1; got shape {Psi_.shape}")
    if R.shape not in ((S,), (S, S)):
        raise InputError(f"rewards must have shape ({S},) or ({S}, {S}); got shape {R.shape}")
    R = R if R.ndim == 2 else np.repeat(R[:, None], S, axis=1)
    g = number_in("gamma", gamma, 0.0, 1.0)
    share = number_in("slack", slack, 0.0, 1.0, low_open=True)
    pi = stationary_law(P_)

    step = Psi_[:, None, :] - g * Psi_[None, :, :]  # ψ(s) − γψ(s')
    A_s = Psi_[:, :, None] * np.einsum("st,std->sd", P_, step)[:, None, :]
    A = np.einsum("s,sde->de", pi, A_s)
    Q = (Psi_ * pi[:, None]).T @ Psi_
    lowest = float(np.linalg.eigvalsh(Q)[0])
    if lowest <= 1e-12 * float(np.trace(Q)):
        raise InputError(f"Psi must have linearly independent columns; the smallest eigenvalue of ΨᵀΠΨ is {lowest:g}")
    theta_bar = np.linalg.solve(A, Psi_.T @ (pi * (P_ * R).sum(axis=1)))
    residual = step @ theta_bar - R  # F̃(θ̄, ξ) = residual · ψ(s)
    h = Psi_ * (P_ * residual).sum(axis=1)[:, None]

    length = np.linalg.norm(Psi_, axis=1)
    lipschitz = length[:, None] * np.linalg.norm(step, axis=2)
    second = length[:, None, None] ** 2 * np.einsum("st,std,ste->sde", P_, step, step)  # E[A_ξᵀ A_ξ | s]
    cross = np.einsum("sji,jk->sik", A_s, A)
    about_A = second - cross - cross.transpose(0, 2, 1) + A.T @ A
    spread = min(float(np.linalg.eigvalsh(m)[:, -1].max()) for m in (second, about_A))

    rho, horizon = _rate(P_ - pi[None, :], share)
    deviation = A_s - A
    L = float(np.linalg.norm(A, 2))
    constants = Constants(
        mu=min(float(np.linalg.eigvalsh((A + A.T) / 2.0)[0]), L),  # equal up to rounding when d = 1
        L=L,
        L1=float(lipschitz[P_ > 0.0].max()),
        sigma=2.0 * float((length**2 * (P_ * residual**2).sum(axis=1)).max()) ** 0.5,
        zeta=2.0 * max(0.0, spread) ** 0.5,
        C_M=_multiplier(P_, pi, h[:, :, None], rho, horizon),
        C_P=_multiplier(P_, pi, deviation, rho, horizon),
        rho=rho,
        D=2.0 * float(np.linalg.norm(theta_bar)) if D is None else D,
    )
    return ExactConstants(constants, theta_bar, pi, Q, A, (1.0 - g) * lowest)


def _rate(E: Vector, share: float) -> tuple[float, int]:
    """Find ρ and N with ‖E^N‖_∞ ≤ ρ^N, ρ at most λ + share·(1 − λ)."""
    modulus = float(np.abs(np.linalg.eigvals(E)).max())
    target = modulus + share * (1.0 - modulus)
    N, log_norm, power = 1, 0.0, E
    while True:
        size = float(np.abs(power).sum(axis=1).max())
        log_norm += np.log(size) if size > 0.0 else -np.inf  # power is kept at norm 1, its size in log_norm
        if log_norm <= N * np.log(target):
            # The floor keeps ρⁿ representable; the slack covers rounding in E^N.
            return float(max(np.exp(log_norm / N) * (1.0 + 1e-12), 0.5 * target)), N
        if N >= LONGEST_HORIZON:
            raise InputError(f"slack must be larger for so slow a chain (second modulus {modulus:g}); got {share:g}")
        power = power / size
        power, log_norm, N = power @ power, 2.0 * log_norm, 2 * N


def _multiplier(P: Vector, pi: Vector, values: Vector, rho: float, horizon: int) -> float:
    """Largest ‖(Pⁿ values)_s‖₂ / ρⁿ over states s and n < horizon; ``values[s]`` are matrices of π-mean 0."""
    largest, scale = 0.0, 1.0
    for _ in range(horizon):
        bound = np.sqrt((values**2).sum(axis=(1, 2))) / scale  # Frobenius, never below the spectral norm
        for s in np.flatnonzero(bound > largest):
            largest = max(largest, float(np.linalg.norm(values[s], 2)) / scale)
        values = np.tensordot(P, values, axes=1)
        values = values - np.tensordot(pi, values, axes=1)  # rounding must not leave a mean that never decays
        scale *= rho
        if scale < 1e-250:
            values, scale = values / scale, 1.0
    return largest
