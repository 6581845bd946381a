"""GLM constants and Corollaries 1 and 2."""

from __future__ import annotations

import math

import numpy as np
import pytest

from multireplay.errors import InputError
from multireplay.theory import corollary_1, corollary_2, glm_constants

GOOD = {
    "D_a": 2.0,
    "L_f": 0.5,
    "mu_f": 0.25,
    "kappa": 0.8,
    "sigma_v": 0.3,
    "D": 4.0,
    "C_TV": 1.5,
    "rho_TV": 0.7,
}


def test_constants_by_hand() -> None:
    c = glm_constants(**GOOD)
    assert c.mu == pytest.approx(0.2)
    assert (c.L, c.L1, c.L_bar) == (2.0, 2.0, 4.0)  # L_f D_a² = 0.5·4
    assert c.sigma**2 == pytest.approx(6 * 4 * 0.09)
    assert c.zeta**2 == pytest.approx(12 * 0.25 * 16)
    assert (c.C_M, c.C_P, c.rho, c.D, c.F_star_norm) == (0.0, 6.0, 0.7, 4.0, 0.0)


def test_corollary_1_as_printed() -> None:
    k, B = 6, 2**20
    tau_M = math.log(18 * 6 / 0.2) / math.log(1 / 0.7)
    alpha_1 = tau_M / 2**14 + 1
    M, sigma2 = 2 + 24 / 0.2, 6 * 4 * 0.09
    p_log_T = math.log(64) + math.log(0.04 * M * 16 / (18 * sigma2))
    first = M * (1 + 3 * 0.0625 * 0.64 / (alpha_1 * 8 * (48 + 64 * 0.25 * 16))) ** -64 * 17
    last = 18 * (2 + p_log_T) / (0.0625 * 0.64 * 64) * alpha_1 * sigma2
    assert corollary_1(glm_constants(**GOOD), k, B, printed=True) == pytest.approx((first, 0.0, last, first + last))


def test_corollary_2_drops_root_two() -> None:
    bounds = {"D_a": 2.0, "D_x": 3.0, "D_f": 1.0, "D_y": 1.5, "L_f": 0.5}
    # max(0.5·2·3 + 1 + 1.5, 2) = 5.5, over 10·0.5·4
    printed = corollary_2(0.1, 10, **bounds, printed=True)
    assert printed == pytest.approx(3 * 0.1 * 5.5 / 20)
    assert corollary_2(0.1, 10, **bounds) == pytest.approx(math.sqrt(2) * printed)
    small = {"D_a": 2.0, "D_x": 0.0, "D_f": 0.0, "D_y": 0.0, "L_f": 0.5}
    assert corollary_2(0.1, 10, **small, printed=True) == pytest.approx(3 * 0.1 * 2 / 20)


def test_variance_assumption_holds_on_a_simulated_glm() -> None:
    """E‖F̃ − E F̃‖² ≤ σ²/2 + ζ²‖x − x*‖²/2 for a logistic link, whatever the law of the bounded covariates."""
    rng = np.random.default_rng(3)
    a = rng.uniform(-1, 1, size=(20000, 2))
    x_star = np.array([0.5, -0.3])
    noise = 0.2 * rng.choice([-1.0, 1.0], size=20000)
    y = 1 / (1 + np.exp(-a @ x_star)) + noise
    c = glm_constants(D_a=math.sqrt(2), L_f=0.25, mu_f=0.1, kappa=0.3, sigma_v=0.2, D=2.0, C_TV=1.0, rho_TV=0.5)
    for x in rng.uniform(-3, 3, size=(20, 2)):
        values = a * (1 / (1 + np.exp(-a @ x)) - y)[:, None]
        variance = ((values - values.mean(axis=0)) ** 2).sum(axis=1).mean()
        assert variance <= c.sigma**2 / 2 + c.zeta**2 / 2 * ((x - x_star) ** 2).sum()


@pytest.mark.parametrize("field", GOOD)
def test_bad_arguments_are_named(field: str) -> None:
    with pytest.raises(InputError, match=f"^{field} must"):
        glm_constants(**{**GOOD, field: -1.0})


# ---- the paper's logistic experiment against the assumptions of its corollaries ----


def test_logistic_regression_on_the_whole_space_is_not_strongly_monotone() -> None:
    """‖F‖ ≤ E‖a‖, so that ⟨F(x), x − x*⟩/‖x − x*‖² falls to 0 and no μ > 0 serves everywhere; on a ball one does."""
    rng = np.random.default_rng(2)
    a, x_star, u = rng.standard_normal((4000, 4)), np.array([0.5, -0.5, 0.2, 0.0]), np.array([0.6, 0.0, 0.8, 0.0])

    def mean(x: np.ndarray) -> np.ndarray:
        return a / (1 + np.exp(-a @ x))[:, None]

    ratios = []
    for far in (0.1, 1.0, 10.0, 100.0):
        F = (mean(x_star + far * u) - mean(x_star)).mean(axis=0)
        ratios.append(float(F @ u) / far)
        assert ratios[-1] <= np.linalg.norm(a, axis=1).mean() / far
    assert ratios == sorted(ratios, reverse=True)
    assert ratios[0] > 0.15 > 0.01 > ratios[-1]


@pytest.mark.parametrize("steps", [1, 100, 3000])
def test_gaussian_covariates_do_not_mix_uniformly(steps: int) -> None:
    """a_{t+1} = 0.995 a_t + ε: from far enough out the law after any number of steps is almost singular to π."""
    decay = 0.995**steps
    deviation = 0.1 / math.sqrt(1 - 0.995**2)
    start = 10 * deviation / decay

    def above(level: float, mean: float, scale: float) -> float:
        return 0.5 * math.erfc((level - mean) / scale / math.sqrt(2))

    middle, spread = start * decay / 2, deviation * math.sqrt(1 - decay**2)
    assert above(middle, start * decay, spread) - above(middle, 0.0, deviation) > 0.999  # total variation is no less
