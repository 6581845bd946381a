"""The worlds are what they claim: laws, transitions and solutions."""

from __future__ import annotations

import numpy as np
import pytest

import multireplay as mr
from multireplay.simulate import AutoregressiveLogistic, MarkovRewardProcess, SimplexGame, paper_mrp


@pytest.mark.parametrize("m", [0.5, 0.9, 0.95])
def test_paper_mrp_is_the_printed_one(m):
    process = paper_mrp(m)
    assert process.transitions.shape == (30, 30)
    assert np.allclose(process.transitions.sum(axis=1), 1)
    assert process.transitions[3, 3] == pytest.approx((2 * m - 1) / m)
    assert process.transitions[3, 4] == pytest.approx((1 - m) / (29 * m))
    assert np.allclose(process.stationary, 1 / 30)
    second = np.sort(np.linalg.eigvalsh(process.transitions))[-2]
    assert 1 - second == pytest.approx(30 * (1 - m) / (29 * m))  # the spectral gap of the text
    assert process.rewards.sum() == 15
    assert np.array_equal(process.features[20], np.eye(16)[15])
    # the features represent the value function exactly here
    value = np.linalg.solve(np.eye(30) - 0.8 * process.transitions, process.rewards)
    assert np.allclose(process.features @ process.solution, value)


def test_solution_of_a_misspecified_process_solves_the_projected_bellman_equation():
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(8), size=8)
    process = MarkovRewardProcess(P, rng.standard_normal((8, 3)), rng.standard_normal(8), gamma=0.9)
    pi = process.stationary
    assert np.allclose(pi @ P, pi)
    v = process.features @ process.solution
    assert np.allclose(process.features.T @ (pi * (v - process.rewards - 0.9 * P @ v)), 0, atol=1e-12)
    assert np.allclose(process.exact.theta_bar, process.solution)


def test_trajectories_have_the_right_law():
    process = paper_mrp(0.9)
    states = process.states(200_000, seed=1)
    stays = (states[1:] == states[:-1]).mean()
    assert stays == pytest.approx(0.8 / 0.9, abs=0.005)
    assert np.bincount(states, minlength=30) / 200_000 == pytest.approx(np.full(30, 1 / 30), abs=0.01)
    moved = states[1:][states[1:] != states[:-1]]
    assert len(set(moved.tolist())) == 30


def test_buffers():
    process = paper_mrp(0.9)
    buffer = process.buffer(1000, seed=3)
    assert np.array_equal(buffer["features"][1:], buffer["next_features"][:-1])  # one trajectory
    assert np.array_equal(process.buffer(1000, seed=3)["rewards"], buffer["rewards"])
    fresh = process.independent_buffer(50_000, seed=3)
    assert not np.array_equal(fresh["features"][1:], fresh["next_features"][:-1])
    same = (fresh["features"][1:] == fresh["features"][:-1]).all(axis=1).mean()
    assert same == pytest.approx(15 / 30**2 + 0.25, abs=0.01)  # two independent features coincide
    columns = process.problem.columns(fresh)
    assert np.allclose(process.problem.fit_exactly(fresh), process.solution, atol=0.2)
    assert np.abs(process.problem.mean_operator(process.solution, columns)).max() < 0.01


@pytest.mark.parametrize("actions", [2, 5])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_game_is_a_strongly_monotone_vi_with_that_solution_and_no_gradient(actions, seed):
    game = SimplexGame(actions=actions, seed=seed)
    z = game.solution
    assert game.problem.constraint.contains(z)
    every_table_once = mr.Buffer(samples=game.tables)
    columns = game.problem.columns(every_table_once)

    def mean(point):
        return game.problem.mean_operator(point, columns)

    rng = np.random.default_rng(0)
    for _ in range(100):
        other = game.problem.constraint.projected(rng.standard_normal(2 * actions))
        assert mean(z) @ (other - z) >= -1e-12
        assert (mean(other) - mean(z)) @ (other - z) == pytest.approx((other - z) @ (other - z))  # modulus exactly 1
    jacobian = np.column_stack([mean(z + e) - mean(z) for e in np.eye(2 * actions)])
    assert not np.allclose(jacobian, jacobian.T)  # so F is not a gradient
    if actions > 2:
        assert np.abs(mean(z)).max() > 0.1  # the solution is on the boundary, where F does not vanish


def test_the_game_is_solved_from_a_dependent_record():
    game = SimplexGame(stay=0.98, seed=2)
    errors = {}
    for name, replay in {"dyadic": mr.Dyadic(), "serial": mr.Serial(), "MER": mr.Multiscale()}.items():
        gaps = []
        for seed in range(3):
            result = mr.solve(game.problem, game.buffer(2**16, seed=seed), replay=replay, step=0.01)
            answer = result.epochs[-4 if name == "MER" else 0].answer
            gaps.append(np.sum((answer - game.solution) ** 2))
        errors[name] = np.mean(gaps)
    assert errors["dyadic"] < 0.01
    assert errors["dyadic"] < errors["serial"] / 2
    assert errors["MER"] < errors["serial"]


def test_game_regimes_are_sticky():
    game = SimplexGame(stay=0.9, regimes=4, seed=0)
    samples = game.buffer(50_000, seed=0)["samples"]
    stays = (samples[1:] == samples[:-1]).all(axis=1).mean()
    assert stays == pytest.approx(0.9, abs=0.01)


CHAIN = {"transitions": [[0.9, 0.1], [0.3, 0.7]], "features": np.eye(2), "rewards": [1.0, 0.0], "gamma": 0.5}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"transitions": np.ones((2, 3)) / 3}, r"transitions must be square, but its shape is \(2, 3\)"),
        ({"transitions": [[0.9, 0.2], [0.3, 0.7]]}, r"row 0 \(counting from 0\) of transitions sums to 1.1"),
        ({"transitions": [[0.9, 0.1], [1.3, -0.3]]}, "transitions holds -0.3 at row 1, column 1"),
        ({"transitions": [1.0, 0.0]}, "transitions must have 2 dimensions"),
        ({"transitions": [[np.nan, 0.1], [0.3, 0.7]]}, "transitions must be finite"),
        ({"features": np.eye(3)}, "features has 3 rows, but the chain has 2 states"),
        ({"features": [[1, 2], [3]]}, "features must be a regular array of numbers"),
        ({"rewards": [1.0]}, "rewards has 1 rows, but the chain has 2 states"),
        ({"rewards": [[1.0], [0.0]]}, r"rewards must have 1 dimension, but its shape is \(2, 1\)"),
        ({"gamma": 1.0}, "gamma must be"),
    ],
)
def test_bad_processes(change, message):
    with pytest.raises(mr.InputError, match=message):
        MarkovRewardProcess(**{**CHAIN, **change})


@pytest.mark.parametrize("m", [0.4, 1.0, "a", np.nan])
def test_paper_mrp_names_m(m):
    with pytest.raises(mr.InputError, match=r"m must be a number in \[0.5, 1\), not"):
        paper_mrp(m)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: paper_mrp(0.9, states=3, dim=4), "dim must be at most the number of states, 3, not 4"),
        (lambda: SimplexGame(regimes=1), "regimes must be a whole number of at least 2"),
        (lambda: SimplexGame(stay=1.5), r"stay must be a number in \[0, 1\), not 1.5"),
        (lambda: AutoregressiveLogistic(dim=3, slow=4), "slow must be at most dim, 3, not 4"),
        (lambda: AutoregressiveLogistic(dim=3, slow=1, response="normal"), "response must be 'bernoulli' or"),
        (lambda: AutoregressiveLogistic(dim=3, slow=1, burn_in=-1), "burn_in must be a whole number"),
    ],
)
def test_bad_worlds(make, message):
    with pytest.raises(mr.InputError, match=message):
        make()


@pytest.mark.parametrize(
    ("world", "text"),
    [
        (paper_mrp(0.9), "MarkovRewardProcess(30 states, 16 features, gamma=0.8)"),
        (SimplexGame(), "SimplexGame(actions=5, regimes=4, stay=0.95)"),
        (AutoregressiveLogistic(4, 2), "AutoregressiveLogistic(dim=4, slow=2, response='bernoulli')"),
    ],
)
def test_every_world(world, text):
    assert repr(world) == text
    for make in (world.buffer, world.independent_buffer):
        assert len(make(1, seed=0)) == 1
        for length in (0, -1, 2.5):
            with pytest.raises(mr.InputError, match="length must be a whole number of at least 1"):
                make(length, seed=0)
