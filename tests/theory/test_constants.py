"""Constants: hand-worked values, the step size's safe and printed forms, input errors."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multireplay.errors import InputError
from multireplay.theory import Constants, policy_evaluation_constants

GOOD = {
    "mu": 0.5,
    "L": 2.0,
    "L1": 3.0,
    "sigma": 2.0,
    "zeta": 4.0,
    "C_M": 8.0,
    "C_P": 1.0,
    "rho": 0.25,
    "D": 3.0,
    "F_star_norm": 1.0,
}


def test_derived_quantities_by_hand() -> None:
    c = Constants(**GOOD)
    assert c.C == 8 / 40 + 1  # 1.2
    assert c.L_bar == 5
    assert c.M == 640  # max(2 + 4·1.2/0.5, 40·8/0.5) = max(11.6, 640)
    assert c.effective_mixing_time == pytest.approx(math.log(43.2) / math.log(4))  # 18·1.2/0.5 = 43.2
    assert c.step_cap == pytest.approx(3 * 0.5 / (16 * (16 + 16 * 25)))  # 1.5/6656
    # ratio: 0.25·640·9 / (3(24 + 4)) = 1440/84
    assert c.p_log_T(3) == pytest.approx(math.log(8) + math.log(1440 / 84))
    assert c.p(3) == pytest.approx(1 + math.log(1440 / 84) / math.log(8))
    assert c.step_size(1) == c.step_cap
    assert c.step_size(20) == pytest.approx((20 * math.log(2) + math.log(1440 / 84)) / (0.5 * 2**20))
    assert c.alpha(3, 80) == pytest.approx(math.log(43.2) / math.log(4) / 10)
    z = 32 * (1 + math.log(1440 / 84) / math.log(2)) * (math.log(43.2) / math.log(4)) * 416 / (3 * 0.25)
    assert c.buffer_lower_bound() == pytest.approx(z * math.log(z))
    assert c.buffer_lower_bound(printed=True) == c.buffer_lower_bound()


def test_mixing_time_is_at_least_one() -> None:
    assert Constants(**{**GOOD, "C_M": 0.0, "C_P": 0.0}).effective_mixing_time == 1.0
    assert Constants(**{**GOOD, "C_M": 0.0, "C_P": 1e-6}).effective_mixing_time == 1.0


def test_negative_p_printed_and_safe() -> None:
    c = Constants(**{**GOOD, "sigma": 100.0, "F_star_norm": 0.0})
    # ratio 1440/(18·10^4) = 0.008: p_1 = 1 + log(0.008)/log 2 < 0
    assert c.p(1) == pytest.approx(1 + math.log(0.008) / math.log(2))
    assert c.p(1) < 0 < c.p(10)
    assert c.p(1) < c.p(2) < c.p(30) < 1  # increasing, where the proof says p_k ≤ p_1
    assert c.step_size(2, printed=True) == pytest.approx(math.log(4 * 0.008) / (0.5 * 4))
    assert c.step_size(2, printed=True) < 0
    assert c.step_size(20) == pytest.approx(20 * math.log(2) / (0.5 * 2**20))
    assert math.isnan(c.buffer_lower_bound(printed=True))
    z = 32 * c.effective_mixing_time * 416 / (3 * 0.25)  # p_1 replaced by 1
    assert c.buffer_lower_bound() == pytest.approx(z * math.log(z))


def test_no_noise_gives_the_cap() -> None:
    c = Constants(**{**GOOD, "sigma": 0.0, "F_star_norm": 0.0})
    assert c.p(5) == math.inf
    assert c.step_size(900) == c.step_size(900, printed=True) == c.step_cap
    assert c.buffer_lower_bound() == math.inf


def test_nothing_overflows() -> None:
    c = Constants(**{**GOOD, "sigma": 1e-200, "D": 1e200, "F_star_norm": 0.0})
    expected = math.log(0.25 * 640 / 18) + 800 * math.log(10)  # D² = 1e400 over σ² = 1e-400
    assert c.log_ratio == pytest.approx(expected)
    assert 0 < c.step_size(1000) < c.step_cap


def test_paper_markov_reward_process() -> None:
    """η ≈ 8e-6, B ≈ 6e10, p_k negative for small k, at m = 0.9, γ = 0.8, 30 states, d = 16."""
    gap = 30 * 0.1 / (29 * 0.9)
    theta_bar_norm = 5.200577  # from the projected Bellman equation
    c = policy_evaluation_constants(
        D_psi=1,
        R_bar=1,
        gamma=0.8,
        lambda_min=1 / 30,
        lambda_max=0.5,
        D=2 * theta_bar_norm,
        rho=1 - gap,
        C_TV=29 / 30,
    )
    # μ = 0.2/30, L̄ = 1.8(1 + 0.5) = 2.7, ζ² = 12·3.24 = 38.88: cap = 3μ/(16(38.88 + 16·7.29))
    assert c.step_cap == pytest.approx(3 * (0.2 / 30) / (16 * 155.52))
    assert c.step_cap == pytest.approx(8.04e-6, rel=1e-3)
    assert c.buffer_lower_bound() == pytest.approx(6.18e10, rel=2e-3)
    assert [c.p(k) < 0 for k in range(1, 13)] == [True] * 9 + [False] * 3
    assert c.step_size(9, printed=True) < 0 < c.step_size(9)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("mu", 0.0),
        ("mu", 2.5),
        ("L", math.inf),
        ("L1", -1.0),
        ("sigma", -1.0),
        ("zeta", math.nan),
        ("C_M", -0.1),
        ("C_P", "1"),
        ("rho", 1.0),
        ("rho", 0.0),
        ("D", -1.0),
        ("F_star_norm", True),
    ],
)
def test_bad_fields_are_named(field: str, value: object) -> None:
    with pytest.raises(InputError, match=rf"^{field} must .*(at least|[\[(]).*, not {value!r}".replace("'", ".")):
        Constants(**{**GOOD, field: value})


@pytest.mark.parametrize("k", [0, -1, 1.5, True, 1001])
def test_bad_epoch(k: object) -> None:
    with pytest.raises(InputError, match=r"^k must be a whole number"):
        Constants(**GOOD).p(k)


def test_epoch_must_fit_in_the_buffer() -> None:
    with pytest.raises(InputError, match=r"^B must be at least 2\^k = 16"):
        Constants(**GOOD).alpha(4, 15)


positive = st.floats(1e-3, 1e3)


@given(mu=positive, ratio=st.floats(1, 1e3), sigma=positive, zeta=positive, C=positive, rho=st.floats(0.01, 0.99))
def test_safe_step_and_bound_properties(
    mu: float, ratio: float, sigma: float, zeta: float, C: float, rho: float
) -> None:
    c = Constants(mu, mu * ratio, mu * ratio, sigma, zeta, C_M=C, C_P=C, rho=rho, D=1.0)
    steps = [c.step_size(k) for k in range(1, 60)]
    assert all(0 < s <= c.step_cap for s in steps)
    assert all(c.step_size(k, printed=True) <= s for k, s in enumerate(steps, 1))
    assert steps[5:] == sorted(steps[5:], reverse=True)
    slower = Constants(mu, mu * ratio, mu * ratio, sigma, zeta, C_M=C, C_P=C, rho=(1 + rho) / 2, D=1.0)
    assert slower.effective_mixing_time >= c.effective_mixing_time
    assert slower.buffer_lower_bound() >= c.buffer_lower_bound()
