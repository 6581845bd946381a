"""The exact squared error of TD on a small chain against a plain simulation."""

from __future__ import annotations

import numpy as np
import pytest

from multireplay.bench import table
from multireplay.bench.bounds import exact_squared_error, three_states

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
