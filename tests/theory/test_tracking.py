"""Theorem 2: hand-worked values, and the two errors computed exactly over all paths of a small chain."""

from __future__ import annotations

import math

import numpy as np
import pytest

from multireplay.errors import InputError
from multireplay.theory import beta_for, exact_constants, max_step, theorem_1, theorem_2


def test_values_by_hand() -> None:
    assert beta_for(16) == pytest.approx(math.log(64))  # 16^{3/2} = 64
    assert max_step(4.0, 5) == 0.05
    assert theorem_2(0.5, 2.0, 3.0, 16, 2.0) == pytest.approx(3 * 0.5 * 1.5 * 4 * math.exp(-2))
    assert theorem_2(0.5, 2.0, 3.0, 16) == pytest.approx(3 * 0.5 * 1.5 / 16)
    assert theorem_2(0.5, 2.0, 3.0, 16, beta_for(16)) == pytest.approx(theorem_2(0.5, 2.0, 3.0, 16))


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((-1, 1, 1, 4, 2), "c0"),
        ((1, 0, 1, 4, 2), "L1"),
        ((1, 1, -1, 4, 2), "L2"),
        ((1, 1, 1, 0, 2), "T"),
        ((1, 1, 1, 4, 1), "beta"),
    ],
)
def test_bad_arguments_are_named(arguments: tuple[float, ...], name: str) -> None:
    with pytest.raises(InputError, match=f"^{name} must"):
        theorem_2(*arguments)


P = np.array([[0.8, 0.2], [0.3, 0.7]])
PSI = np.array([1.0, 0.4])
R = np.array([[1.0, 0.5], [-0.5, 0.0]])
GAMMA = 0.5
SAMPLES = np.array([[PSI[s], PSI[t], R[s, t]] for s in range(2) for t in range(2)])


def operator(x: np.ndarray, s: int, t: int) -> np.ndarray:
    return ((PSI[s] - GAMMA * PSI[t]) * x - R[s, t]) * PSI[s]


def mean_error(jump: np.ndarray, pi: np.ndarray, x_1: float, target: float, T: int, eta: float):
    """E‖x_{T+1} − x*‖ over all 4^T paths, and all iterates; ``jump[t, s]`` is the law of the next s."""
    x, weight, last = np.array([x_1]), np.array([1.0]), np.array([-1])
    visited = [x]
    for step in range(T):
        law = np.broadcast_to(pi, (len(x), 2)) if step == 0 else jump[last]
        pairs = [(s, t) for s in range(2) for t in range(2)]
        weight = np.concatenate([weight * law[:, s] * P[s, t] for s, t in pairs])
        new = np.concatenate([x - eta * operator(x, s, t) for s, t in pairs])
        last = np.concatenate([np.full(len(x), t) for _, t in pairs])
        x = new
        visited.append(x)
    assert weight.sum() == pytest.approx(1)
    return float(weight @ np.abs(x - target)), np.concatenate(visited)


@pytest.mark.parametrize("gap", [1, 2, 4, 8])
def test_difference_of_errors_is_below_the_bound(gap: int) -> None:
    T = 7
    exact = exact_constants(P, PSI[:, None], R, GAMMA)
    pi, target, L1 = exact.pi, float(exact.theta_bar[0]), exact.constants.L1
    eta, x_1 = max_step(L1, T), -target
    jump = np.linalg.matrix_power(P, gap - 1)
    dependent, visited = mean_error(jump, pi, x_1, target, T, eta)
    independent, visited_ = mean_error(np.tile(pi, (2, 1)), pi, x_1, target, T, eta)

    points = np.concatenate([visited, visited_])
    values = np.array([operator(points, s, t) for s in range(2) for t in range(2)])
    distance = np.linalg.norm(SAMPLES[:, None] - SAMPLES[None], axis=2)
    np.fill_diagonal(distance, np.inf)
    L2 = float((np.abs(values[:, None] - values[None]).max(axis=2) / distance).max())
    np.fill_diagonal(distance, 0.0)
    # W_1 between the law of the next sample and the stationary one is at most total variation times diameter
    wasserstein = float(np.abs(jump - pi).sum(axis=1).max() / 2 * distance.max())
    beta = 2.0
    c0 = math.exp(beta) * wasserstein
    difference = abs(dependent - independent)
    assert 0 < difference <= theorem_2(c0, L1, L2, T, beta)
    assert difference <= math.e * c0 * L2 / L1 * math.exp(-beta)  # the √T is not needed
    assert theorem_2(c0, L1, L2, T, beta) < 3000 * difference


def test_a_larger_gap_tracks_more_closely() -> None:
    exact = exact_constants(P, PSI[:, None], R, GAMMA)
    target = float(exact.theta_bar[0])
    eta = max_step(exact.constants.L1, 6)
    independent, _ = mean_error(np.tile(exact.pi, (2, 1)), exact.pi, -target, target, 6, eta)
    differences = [
        abs(mean_error(np.linalg.matrix_power(P, gap - 1), exact.pi, -target, target, 6, eta)[0] - independent)
        for gap in (1, 3, 6, 12)
    ]
    assert differences == sorted(differences, reverse=True)
    assert differences[-1] < differences[0] / 20


def test_fault_tracking_steps_do_not_converge() -> None:
    """With η = 1/(L̃_1 T) the factor (1 + ημ)^{−T} stays above e^{−μ/L̃_1}, however large T is."""
    c = exact_constants(P, PSI[:, None], R, GAMMA).constants
    for k in range(1, 40):
        T = 2**k
        assert -T * math.log1p(c.mu * max_step(c.L1, T)) >= -c.mu / c.L1
    assert theorem_1(c, 39, 2.0**60, printed=False).deterministic < math.exp(-c.mu / c.L1)
