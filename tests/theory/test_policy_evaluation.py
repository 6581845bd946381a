"""Policy evaluation constants, Corollaries 3 and 4 and the lemma on the iterates."""

from __future__ import annotations

import math

import numpy as np
import pytest

from multireplay.errors import InputError
from multireplay.theory import D_theta, corollary_3, corollary_4, exact_constants, policy_evaluation_constants

GOOD = {
    "D_psi": 2.0,
    "R_bar": 3.0,
    "gamma": 0.5,
    "lambda_min": 0.4,
    "lambda_max": 1.2,
    "D": 5.0,
    "rho": 0.6,
    "C_TV": 0.5,
}


def test_constants_by_hand() -> None:
    c = policy_evaluation_constants(**GOOD)
    assert c.mu == pytest.approx(0.2)
    assert pytest.approx(1.8) == c.L
    assert pytest.approx(6) == c.L1  # 1.5·4
    assert c.sigma**2 == pytest.approx(48 * 2.25 * 16 * 25 + 48 * 4 * 9)
    assert c.zeta**2 == pytest.approx(12 * 2.25 * 16)
    assert pytest.approx(2 * 0.5 * 2 * (1.5 * 2 * 2.5 + 3)) == c.C_M  # 2·C_TV·sup‖F̃(θ̄, ·)‖ = 21
    assert pytest.approx(6) == c.C_P


def test_corollary_3_as_printed() -> None:
    k, B = 10, 2**12
    C = 21 / 40 + 6
    tau_M = math.log(18 * C / 0.2) / math.log(1 / 0.6)
    alpha_1 = tau_M / 4 + 1
    M, sigma2, zeta2 = max(2 + 4 * C / 0.2, 40 * 21 / 0.2), 43200 + 1728, 432.0
    p_log_T = math.log(1024 * 0.04 * M * 25 / (18 * sigma2))
    first = M * (1 + 3 * 0.25 * 0.16 / (alpha_1 * 8 * (zeta2 + 16 * 2.25 * (4 + 1.2) ** 2))) ** -1024 * 26
    second = 20 * 21 * 0.6 ** (tau_M + 3) / 0.2 * (1 + 3 / (128 * alpha_1))
    third = 3 * (2 + p_log_T) / (0.25 * 0.16 * 1024) * alpha_1 * (6 * sigma2 + 25 * 441 * 0.6**6)
    bound = corollary_3(policy_evaluation_constants(**GOOD), k, B, printed=True)
    assert bound == pytest.approx((first, second, third, first + second + third))


def test_bounds_dominate_the_exact_constants() -> None:
    P = np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.3, 0.3, 0.4]])
    Psi = np.array([[1.0, 0.2], [0.1, 1.0], [-0.7, 0.6]])
    exact = exact_constants(P, Psi, [1.0, -1.0, 0.5], 0.4)
    eigenvalues = np.linalg.eigvalsh(exact.Q)
    total_variation = [np.abs(np.linalg.matrix_power(P, n) - exact.pi).sum(axis=1).max() / 2 for n in range(30)]
    C_TV = max(tv / exact.constants.rho**n for n, tv in enumerate(total_variation))
    c = policy_evaluation_constants(
        float(np.linalg.norm(Psi, axis=1).max()), 1.0, 0.4, eigenvalues[0], eigenvalues[-1],
        exact.constants.D, exact.constants.rho, C_TV=C_TV,
    )  # fmt: skip
    assert c.mu <= exact.constants.mu
    for name in ("L", "L1", "sigma", "zeta", "C_M", "C_P"):
        assert getattr(c, name) >= getattr(exact.constants, name)


def test_corollary_4_drops_root_three_and_a_coefficient() -> None:
    bounds = {"D_psi": 2.0, "D_theta": 1.5, "R_bar": 1.0, "gamma": 0.5}
    printed = corollary_4(0.2, 10, **bounds, printed=True)
    assert printed == pytest.approx(3 * 0.2 * (2.5 * 2 * 1.5 + 1) / (10 * 1.5 * 4))
    assert corollary_4(0.2, 10, **bounds) == pytest.approx(math.sqrt(3) * printed)
    quiet = {"D_psi": 2.0, "D_theta": 0.01, "R_bar": 0.01, "gamma": 0.5}
    assert corollary_4(0.2, 10, **quiet) == pytest.approx(math.sqrt(3) * 3 * 0.2 * 2 / 60)


def test_fault_lipschitz_lemma_forgets_the_rewards() -> None:
    """Samples that differ in the reward only: ‖F̃ − F̃'‖ = D_ψ|r − r'|, above lemma:RL_lipschitz2."""
    D_psi, R_bar, gamma = 2.0, 0.1, 0.5
    bound = D_theta(1, 0.0, R_bar, gamma, D_psi, printed=True)
    lemma = math.sqrt(3) * ((2 + gamma) * D_psi * bound + R_bar)
    assert lemma < D_psi


def test_D_theta() -> None:
    assert D_theta(9, 2.0, 3.0, 0.5, 0.5, printed=True) == pytest.approx(4 * (2 + 4))
    assert D_theta(9, 2.0, 3.0, 0.5, 0.5) == pytest.approx(math.e * 2 + (math.e - 1) * 4)


def test_fault_step_matrix_expands_the_max_norm() -> None:
    psi = np.array([1.0, 2.0])
    for gamma in (0.0, 0.5):
        matrix = np.eye(2) - 0.01 * (1 - gamma) * np.outer(psi, psi)
        assert np.abs(matrix).sum(axis=1).max() > 1


def test_iterates_stay_below_D_theta() -> None:
    rng = np.random.default_rng(5)
    for d in (1, 2, 5):
        Psi = rng.normal(size=(6, d))
        R = rng.uniform(-1, 1, size=(6, 6))
        size, T, gamma = float(np.linalg.norm(Psi, axis=1).max()), 50, 0.9
        for _ in range(20):
            theta_0 = rng.normal(size=d)
            theta = theta_0
            for _ in range(T):
                s, t = rng.integers(6, size=2)
                difference = (Psi[s] - gamma * Psi[t]) @ theta - R[s, t]
                theta = theta - difference * Psi[s] / (T * (1 + gamma) * size**2)
            for printed in (True, False):
                bound = D_theta(d, float(np.linalg.norm(theta_0)), 1.0, gamma, size, printed=printed)
                assert np.linalg.norm(theta) <= bound


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("D_psi", 0),
        ("R_bar", -1),
        ("gamma", 1),
        ("lambda_min", 1.3),
        ("lambda_max", 0),
        ("D", -1),
        ("rho", 1),
        ("C_TV", -1),
    ],
)
def test_bad_arguments_are_named(field: str, value: float) -> None:
    with pytest.raises(InputError, match=f"^{field} must"):
        policy_evaluation_constants(**{**GOOD, field: value})


def test_mixing_constants_are_given_one_way() -> None:
    with pytest.raises(InputError, match="got both"):
        policy_evaluation_constants(**GOOD, C_M=1.0)
    with pytest.raises(InputError, match="both C_M and C_P"):
        policy_evaluation_constants(**{**GOOD, "C_TV": None}, C_M=1.0)
    assert policy_evaluation_constants(**{**GOOD, "C_TV": None}, C_M=1.0, C_P=2.0).C_M == 1.0
