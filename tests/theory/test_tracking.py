"""Theorem 2: hand-worked values, and the two errors computed exactly over all paths of a small chain."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import linprog

from multireplay.errors import InputError
from multireplay.theory import beta_for, exact_constants, max_step, stationary_law, theorem_1, theorem_2


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
    assert theorem_1(c, 39, 2.0**60).deterministic < math.exp(-c.mu / c.L1)


# ---- lemma wasserstein_bound: from the T samples Z to T independent ones Z̃ ----


def law_of(kernel: np.ndarray, pi: np.ndarray, T: int) -> np.ndarray:
    """The law of Z, an array with an axis a sample."""
    law = pi
    for _ in range(T - 1):
        law = law[..., None] * kernel
    return law


def replaced(law: np.ndarray, pi: np.ndarray, i: int) -> np.ndarray:
    """The law of the paper's Z̃_i: sample i is independent of all others, which are as they were."""
    rest = law.sum(axis=i, keepdims=True)
    shape = [1] * law.ndim
    shape[i] = len(pi)
    return rest * pi.reshape(shape)


def wasserstein(first: np.ndarray, second: np.ndarray) -> float:
    """W_1 for the number of samples that differ: states as corners of a simplex with edges of length 1."""
    places = np.array(list(np.ndindex(first.shape)))
    cost = (places[:, None] != places[None]).sum(axis=2).ravel()
    n = len(places)
    rows, columns = np.kron(np.eye(n), np.ones(n)), np.kron(np.ones(n), np.eye(n))
    equal = np.concatenate([first.ravel(), second.ravel()])
    plan = linprog(cost, A_eq=np.vstack([rows, columns])[1:], b_eq=equal[1:])  # one equation follows from the others
    return float(plan.fun)


@pytest.mark.parametrize("seed", range(5))
def test_the_lemma_holds_by_replacing_from_the_end(seed: int) -> None:
    """Each link of (ξ_1, …, ξ_i, ξ̃_{i+1}, …) costs sup_x W_1(δ_x P^gap, π) at most; the paper's sum bounds W too."""
    T, rng = 3, np.random.default_rng(seed)
    kernel = rng.dirichlet([0.4] * 3, size=3)
    pi = stationary_law(kernel)
    most = float(np.abs(kernel - pi).sum(axis=1).max() / 2)
    law, free = law_of(kernel, pi, T), law_of(np.tile(pi, (3, 1)), pi, T)
    chain = [law, law.sum(axis=2, keepdims=True) * pi, free]
    links = [wasserstein(before, after) for before, after in pairwise(chain)]
    assert max(links) <= most + 1e-9
    whole = wasserstein(law, free)
    assert whole <= sum(links) + 1e-9 <= T * most + 2e-9
    assert whole <= sum(wasserstein(law, replaced(law, pi, i)) for i in range(T)) + 1e-9


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.9])
def test_fault_one_sample_between_its_neighbours_costs_more(kept: float) -> None:
    """On the paper's own chain, 30 states kept with probability λ: W_1(Z, Z̃_2) > sup_x W_1(δ_x P^gap, π)."""
    S = 30
    pi = np.full(S, 1 / S)
    kernel = kept * np.eye(S) + (1 - kept) * pi
    most = float(np.abs(kernel - pi).sum(axis=1).max() / 2)
    assert most == pytest.approx(kept * (1 - 1 / S))
    law = law_of(kernel, pi, 3)
    total_variation = float(np.abs(law - replaced(law, pi, 1)).sum() / 2)  # W_1 is never below it
    assert total_variation >= 2 * kept - kept**2 - 2 / S
    if kept < 0.9:
        assert total_variation > 1.2 * most
    assert total_variation <= 2 * most


def test_fault_the_assumption_alone_is_no_mixing() -> None:
    """A chain that never moves obeys assmp:wasserstein_mixing with c_0 = 1, and never comes nearer to π."""
    pi, still = np.array([0.5, 0.5]), np.eye(2)
    distances = [float(np.abs(np.linalg.matrix_power(still, gap) - pi).sum(axis=1).max() / 2) for gap in (1, 10, 1000)]
    assert distances == [0.5] * 3
    assert wasserstein(law_of(still, pi, 3), law_of(np.tile(pi, (2, 1)), pi, 3)) > 0.7
