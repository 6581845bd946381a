"""The exact squared error of TD and the coupled runs of `tracking`, against plain simulations."""

from __future__ import annotations

import numpy as np
import pytest

from multireplay.bench import table
from multireplay.bench.theorems import (
    STEPS_TAKEN,
    exact_squared_error,
    logistic_pairs,
    policy_evaluation_setting,
    regression_setting,
    three_states,
)
from multireplay.simulate import paper_mrp

CHAINS = 40_000


def simulated(process, step, gap, k, seed):
    """TD at a gap, chain by chain side by side: mean of ‖x − θ̄‖² after 2^k steps, and its standard error."""
    rng = np.random.default_rng(seed)
    cumulative = process.transitions.cumsum(axis=1)

    def move(states):
        return (rng.random(CHAINS)[:, None] > cumulative[states]).sum(axis=1)

    states = rng.choice(3, size=CHAINS, p=process.stationary)
    x = np.zeros((CHAINS, 2))
    for _ in range(2**k):
        after = move(states)
        psi, psi_after = process.features[states], process.features[after]
        value, value_after = (psi * x).sum(axis=1), (psi_after * x).sum(axis=1)
        x -= step * psi * (value - process.rewards[states] - process.gamma * value_after)[:, None]
        states = after
        for _ in range(gap - 1):
            states = move(states)
    squares = ((x - process.solution) ** 2).sum(axis=1)
    return squares.mean(), squares.std() / CHAINS**0.5


@pytest.mark.parametrize(("step", "gap", "k"), [(0.3, 1, 4), (0.3, 6, 4), (0.1, 2, 5), (0.5, 1, 1)])
def test_against_simulation(step, gap, k):
    process = three_states()
    mean, error = simulated(process, step, gap, k, seed=gap + 10 * k)
    assert abs(exact_squared_error(process, step, gap, k) - mean) < 4 * error


def test_the_gap_matters_more_than_the_noise():
    """Otherwise the comparison above could not see a wrong gap."""
    process = three_states()
    _, error = simulated(process, 0.3, 1, 4, seed=0)
    serial, spaced = (exact_squared_error(process, 0.3, gap, 4) for gap in (1, 6))
    assert abs(serial - spaced) > 10 * error


def test_theorem_1_is_above_the_exact_error_in_every_epoch(everything):
    rows = [row for row in table.read(everything / "theory.csv") if row.panel == "three states"]
    errors = {method: [row.error_mean for row in rows if row.method == method] for method in {r.method for r in rows}}
    parts = np.sum([errors[name] for name in ("deterministic", "bias", "stochastic")], axis=0)
    assert np.allclose(parts, errors["total"], rtol=1e-4)
    assert (np.array(errors["measured"]) < errors["total"]).all()
    assert errors["measured"][-1] < 1e-3 * errors["measured"][0]


PAIRS, T, STEP = 6000, 24, 0.4
PROCESS = paper_mrp(0.9)


def far(values, others):
    """Distance of two means in standard errors."""
    return abs(values.mean() - others.mean()) / np.sqrt(values.var() / len(values) + others.var() / len(others))


def td(gap, rng):
    """‖Δ‖ of TD on every gap-th transition of the chain itself, moved by P; gap None: independent transitions."""
    cumulative = PROCESS.transitions.cumsum(axis=1)
    cumulative[:, -1] = 1.0

    def move(states):
        return (rng.random(PAIRS)[:, None] > cumulative[states]).sum(axis=1)

    x = np.zeros((PAIRS, 16))
    states = rng.integers(30, size=PAIRS)
    for _ in range(T):
        after = move(states)
        psi, psi_after = PROCESS.features[states], PROCESS.features[after]
        error = (psi * x).sum(axis=1) - PROCESS.rewards[states] - 0.8 * (psi_after * x).sum(axis=1)
        x -= STEP * psi * error[:, None]
        states = after
        for _ in range((gap or 1) - 1):
            states = move(states)
        if gap is None:
            states = rng.integers(30, size=PAIRS)
    return np.linalg.norm(x - PROCESS.solution, axis=1)


@pytest.mark.parametrize("gap", [1, 2, 6])
def test_td_pairs_are_the_chain_and_independent_samples(gap):
    setting = policy_evaluation_setting(0.9)
    runs = setting.simulate(T, STEP, setting.rho**gap, PAIRS, gap)
    chain, free = (td(which, np.random.default_rng((gap, 1))) for which in (gap, None))
    assert far(runs[:, 0], chain) < 4
    assert far(runs[:, 1], free) < 4
    difference = (runs[:, 0] - runs[:, 1]).mean()
    spread = np.sqrt((runs[:, 0] - runs[:, 1]).var() / PAIRS + (chain.var() + free.var()) / PAIRS)
    assert abs(difference - (chain.mean() - free.mean())) < 4 * spread
    if gap == 1:  # the comparison can tell the two apart
        assert far(runs[:, 0], free) > 10


def logistic(kept, covariates, solution, rng):
    """‖Δ‖ of projected logistic regression on a chain that keeps its state with probability `kept`."""
    x = np.zeros((PAIRS, len(solution)))
    states = rng.integers(len(covariates), size=PAIRS)
    for _ in range(T):
        a = covariates[states]
        y = rng.random(PAIRS) < 1 / (1 + np.exp(-a @ solution))
        x -= STEP * (1 / (1 + np.exp(-(a * x).sum(axis=1))) - y)[:, None] * a
        x /= np.maximum(1, np.linalg.norm(x, axis=1))[:, None]
        states = np.where(rng.random(PAIRS) < kept, states, rng.integers(len(covariates), size=PAIRS))
    return np.linalg.norm(x - solution, axis=1)


@pytest.mark.parametrize("kept", [0.95, 0.8])
def test_logistic_pairs_are_the_chain_and_independent_samples(kept):
    rng = np.random.default_rng(3)
    covariates, solution = np.eye(4), np.full(4, 0.49)
    uniforms, fresh = rng.random((PAIRS, T, 2)), rng.integers(4, size=(PAIRS, T))
    runs = logistic_pairs(uniforms, fresh, kept, STEP, covariates, solution)
    chain, free = logistic(kept, covariates, solution, rng), logistic(0.0, covariates, solution, rng)
    assert far(runs[:, 0], chain) < 4
    assert far(runs[:, 1], free) < 4
    assert far(runs[:, 0], free) > 6  # the comparison can tell the two apart


@pytest.mark.parametrize("setting", [policy_evaluation_setting(0.9), regression_setting()], ids=["td", "logistic"])
def test_runs_are_identical_where_nothing_is_kept(setting):
    for kept, same in ((0.0, True), (0.5, False)):
        runs = setting.simulate(T, STEP, kept, 50, 0)
        assert (runs[:, 0] == runs[:, 1]).all() == same


def test_differences_fall_with_the_gap_and_stay_below_theorem_2(everything):
    rows = table.read(everything / "tracking.csv")
    for setting in ("policy evaluation", "logistic regression"):
        found = {(row.panel, row.method, row.iterations): row.error_mean for row in rows}
        for steps in STEPS_TAKEN:
            for beta in ("1.05", "1.4"):
                panel = f"{setting}, beta={beta}"
                assert found[panel, "measured difference", steps] < found[panel, "Theorem 2", steps]
        near, wide = (
            np.mean([found[f"{setting}, beta={beta}", "measured difference", steps] for steps in STEPS_TAKEN])
            for beta in ("0.05", "1.4")
        )
        assert wide < near / 5
