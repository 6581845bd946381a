"""Constants of a finite chain: every inequality of the assumptions is checked on the chain itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from multireplay.errors import InputError
from multireplay.theory import exact_constants, stationary_law


def paper_chain(m: float = 0.9, S: int = 30, d: int = 16):
    P = np.full((S, S), (1 - m) / ((S - 1) * m))
    np.fill_diagonal(P, (2 * m - 1) / m)
    Psi = np.zeros((S, d))
    Psi[np.arange(S), np.minimum(np.arange(S), d - 1)] = 1
    return P, Psi, (np.arange(1, S + 1) >= d).astype(float), 0.8


def check_assumptions(P, Psi, rewards, gamma, steps=60, points=5, seed=0) -> None:
    exact = exact_constants(P, Psi, rewards, gamma)
    c, theta_bar = exact.constants, exact.theta_bar
    S, d = Psi.shape
    R = rewards if rewards.ndim == 2 else np.repeat(rewards[:, None], S, axis=1)
    A_xi = np.array([[np.outer(Psi[s], Psi[s] - gamma * Psi[t]) for t in range(S)] for s in range(S)])
    b_xi = R[:, :, None] * Psi[:, None, :]
    A = np.einsum("s,st,stij->ij", exact.pi, P, A_xi)
    assert np.allclose(exact.pi @ P, exact.pi)
    assert np.allclose(A, exact.A)
    assert np.allclose(A @ theta_bar, np.einsum("s,st,sti->i", exact.pi, P, b_xi))
    assert exact.mu_paper <= c.mu * (1 + 1e-9) + 1e-12
    assert np.linalg.norm(A_xi[P > 0], 2, axis=(1, 2)).max() * (1 - 1e-12) <= c.L1
    rng = np.random.default_rng(seed)
    thetas = theta_bar + rng.normal(size=(points, d)) * rng.exponential(3.0, size=(points, 1))
    rounding = max(1e-13, 2 * np.finfo(float).eps * (np.abs(A_xi) @ np.abs(theta_bar)).max())
    power = np.eye(S)
    for n in range(steps):
        law = power[:, :, None] * P[None]  # law of ξ_{t+n} given s_t: row s_t of Pⁿ, then one transition
        at_solution = np.einsum("rst,sti->ri", law, A_xi @ theta_bar - b_xi)
        assert np.linalg.norm(at_solution, axis=1).max() <= c.C_M * c.rho**n * (1 + 1e-9) + rounding
        mean = np.einsum("rst,stij->rij", law, A_xi)
        assert np.linalg.norm(mean - A, 2, axis=(1, 2)).max() <= c.C_P * c.rho**n * (1 + 1e-9) + 1e-13
        for theta in thetas:
            values = A_xi @ theta - b_xi
            centre = np.einsum("rst,sti->ri", law, values)
            variance = np.einsum("rst,sti->r", law, values**2) - (centre**2).sum(axis=1)
            size = ((theta - theta_bar) ** 2).sum()
            assert variance.max() <= c.sigma**2 / 2 + c.zeta**2 / 2 * size + 1e-12
            assert (theta - theta_bar) @ A @ (theta - theta_bar) >= c.mu * size - 1e-12
        power = power @ P


def test_two_states_by_hand() -> None:
    exact = exact_constants([[0.9, 0.1], [0.2, 0.8]], [[1.0], [0.5]], [1.0, 0.0], 0.5)
    # π = (2/3, 1/3); E[ψ'|s] = 0.95, 0.6; A(s) = 1 − 0.475 = 0.525, 0.5(0.5 − 0.3) = 0.1; A = 0.35 + 1/30
    A = 0.35 + 1 / 30
    c = exact.constants
    assert exact.pi == pytest.approx([2 / 3, 1 / 3])
    assert exact.theta_bar == pytest.approx([(2 / 3) / A])
    assert (c.mu, c.L) == pytest.approx((A, A))
    assert pytest.approx(0.75) == c.L1  # ψ = 1 → 0.5: 1 − 0.25; larger than 0.5 (1 → 1), 0 and 0.125
    assert pytest.approx(A - 0.1) == c.C_P  # largest at n = 0: max(0.525 − A, A − 0.1)
    assert pytest.approx(0.1 * (2 / 3) / A) == c.C_M  # h = (0.525θ̄ − 1, 0.1θ̄); π-mean 0, the second is larger
    assert pytest.approx(2 * (2 / 3) / A) == c.D
    assert 0.7 < c.rho <= 0.7 + 0.02 * 0.3 + 1e-9  # second eigenvalue 0.9 + 0.8 − 1


def test_stationary_law() -> None:
    assert stationary_law([[0.5, 0.5, 0], [0, 0.5, 0.5], [1, 0, 0]]) == pytest.approx([0.4, 0.4, 0.2])
    with pytest.raises(InputError, match=r"^P must be ergodic"):
        stationary_law(np.eye(3))


def test_paper_chain() -> None:
    exact = exact_constants(*paper_chain())
    assert exact.pi == pytest.approx(np.full(30, 1 / 30))
    second = 1 - 30 * 0.1 / (29 * 0.9)
    assert second < exact.constants.rho <= second + 0.02 * (1 - second)
    assert exact.mu_paper == pytest.approx(0.2 / 30)
    assert np.diag(exact.Q) == pytest.approx([1 / 30] * 15 + [0.5])
    assert np.linalg.norm(exact.theta_bar) == pytest.approx(5.200577, rel=1e-6)
    # The features represent the value function exactly, so the bias at θ̄ is zero whatever the history.
    assert exact.constants.C_M < 1e-12


def test_assumptions_hold_on_the_paper_chain() -> None:
    check_assumptions(*paper_chain(S=8, d=4), steps=40)


def test_assumptions_hold_on_a_chain_that_is_not_diagonalizable() -> None:
    """Eigenvalues 1, 0.4, 0.4 with a Jordan block (n·0.4ⁿ): the rate must stay above 0.4."""
    P = np.array([[0.7, 0.3, 0.0], [0.1, 0.5, 0.4], [0.2, 0.2, 0.6]])
    rng = np.random.default_rng(1)
    check_assumptions(P, rng.normal(size=(3, 2)), rng.normal(size=(3, 3)), 0.7)


def test_independent_samples() -> None:
    P = np.tile([0.2, 0.3, 0.5], (3, 1))
    rng = np.random.default_rng(2)
    check_assumptions(P, rng.normal(size=(3, 2)), rng.normal(size=3), 0.9, steps=5)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), S=st.integers(2, 5), stickiness=st.floats(0, 0.95))
@example(seed=362881, S=2, stickiness=0.0)  # a solution of size 2000, and rounding of that size
def test_assumptions_hold_on_random_chains(seed: int, S: int, stickiness: float) -> None:
    rng = np.random.default_rng(seed)
    P = (1 - stickiness) * rng.dirichlet(np.full(S, 0.7), size=S) + stickiness * np.eye(S)
    P = 0.98 * P + 0.02 / S
    d = int(rng.integers(1, S + 1))
    check_assumptions(P, rng.normal(size=(S, d)), rng.normal(size=(S, S)), float(rng.uniform(0, 0.95)), steps=40)


def test_less_slack_gives_a_smaller_rate() -> None:
    problem = paper_chain(S=6, d=3)
    rates = [exact_constants(*problem, slack=slack).constants.rho for slack in (0.2, 0.02, 0.002)]
    assert rates == sorted(rates, reverse=True)


def test_given_diameter_is_kept() -> None:
    assert exact_constants([[0.5, 0.5], [0.5, 0.5]], [[1.0], [2.0]], [0.0, 0.0], 0.5, D=7.0).constants.D == 7.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"P": np.ones((2, 3))}, "P must be square"),
        ({"P": [[0.5, 0.4], [0.5, 0.5]]}, r"row 0 \(counting from 0\) of P sums to 0.9"),
        ({"P": np.eye(2)}, "P must be ergodic"),
        ({"P": [[0.0, 1.0], [1.0, 0.0]]}, "P must be ergodic"),
        ({"P": [[0.5, 0.5], [0.0, 1.0]]}, "P must be ergodic"),
        ({"P": [[0.5, np.nan], [0.5, 0.5]]}, "P must be finite"),
        ({"Psi": [1.0, 2.0]}, "Psi must have 2 dimensions"),
        ({"Psi": np.eye(3)}, "Psi must have shape"),
        ({"Psi": [[1.0, 2.0], [2.0, 4.0]]}, "Psi must have linearly independent"),
        ({"rewards": [1.0]}, "rewards must have shape"),
        ({"gamma": 1.0}, "gamma must"),
        ({"slack": 0.0}, "slack must"),
    ],
)
def test_bad_inputs_are_named(change: dict[str, object], message: str) -> None:
    good = {"P": [[0.9, 0.1], [0.2, 0.8]], "Psi": [[1.0], [0.5]], "rewards": [1.0, 0.0], "gamma": 0.5}
    with pytest.raises(InputError, match=f"^{message}"):
        exact_constants(**{**good, **change})
