from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from worlds_rl import Counting, Spoilt, by_parity, exact_value, under_the_pole, with_momentum

import multireplay as mr
from multireplay.errors import InputError


def standard_errors(record, values, transitions, gamma):
    """Of the exact fit with one-hot features, by the delta method: TD errors at the true values are uncorrelated."""
    then = np.where(record.terminated, 0.0, values[record.next_observations])
    errors = record.rewards + gamma * then - values[record.observations]
    count = np.bincount(record.observations, minlength=len(values))
    square = np.bincount(record.observations, weights=errors**2, minlength=len(values))
    variance = np.divide(square, count**2, out=np.zeros(len(values)), where=count > 0)
    spread = np.linalg.inv(np.eye(len(values)) - gamma * transitions)
    return np.sqrt((spread**2) @ variance), count > 0


def cautious():
    """CliffWalking: mostly right, sometimes up, now and then down."""
    table = np.full((48, 4), 0.1)
    table[:, 1] = 0.45
    table[:, 0] = 0.35
    return table


@pytest.mark.parametrize(
    ("name", "policy", "table", "gamma"),
    [
        ("FrozenLake-v1", "random", np.full((16, 4), 0.25), 0.95),
        ("FrozenLake-v1", np.full(16, 2), np.eye(4)[np.full(16, 2)], 0.99),
        ("CliffWalking-v1", cautious(), cautious(), 0.9),
    ],
)
def test_toy_text_against_its_exact_value_function(name, policy, table, gamma):
    env = gymnasium.make(name)
    values, transitions = exact_value(env, table, gamma)
    found = mr.rl.evaluate(env, policy, mr.rl.OneHot(), gamma, steps=20_000, seed=1, check=0)
    errors, visited = standard_errors(found.trajectory, values, transitions, gamma)
    apart = np.abs(found.value(np.arange(len(values))) - values)
    seen = visited & (np.bincount(found.trajectory.observations, minlength=len(values)) >= 20)
    assert seen.sum() > len(values) / 3
    assert (apart[seen] <= 4.5 * errors[seen] + 1e-9).all()
    assert found.value(found.trajectory.observations[0]) == pytest.approx(found.x[found.trajectory.observations[0]])
    exact = found.problem.fit_exactly(found.trajectory.buffer(found.features))
    gap = found.values(found.trajectory.observations) - exact[found.trajectory.observations]
    assert np.sqrt(np.mean(gap**2)) < 0.02 * np.abs(values).max()


def test_treating_truncation_as_an_end_would_be_seen():
    """FrozenLake cut after 8 steps: the value is still that without the limit, and far from that with ends for cuts."""
    env = gymnasium.make("FrozenLake-v1", max_episode_steps=8)
    values, _ = exact_value(env, np.full((16, 4), 0.25), 0.99)
    found = mr.rl.evaluate(env, "random", gamma=0.99, steps=20_000, seed=0, check=0)
    record = found.trajectory
    assert record.truncated.sum() > 1000
    mistaken = mr.Buffer(**{**record.buffer("one-hot").columns, "terminated": record.terminated | record.truncated})
    wrong = found.problem.fit_exactly(mistaken)
    visits = np.bincount(record.observations, minlength=16)

    def error(x):
        return np.sqrt(np.average((x - values) ** 2, weights=visits))

    assert error(found.x) < 0.5 * error(wrong)


def test_mountain_car():
    found = mr.rl.evaluate("MountainCar-v0", with_momentum, "rbf", gamma=0.99, steps=25_000, seed=0, check=40)
    exact = found.problem.fit_exactly(found.trajectory.buffer(found.features))
    rows = found.features(found.trajectory.observations)
    spread = (rows @ exact).std()
    assert spread > 15
    assert np.sqrt(np.mean((rows @ (found.x - exact)) ** 2)) < 0.01 * spread  # to LSTD
    assert all(abs(group.difference) < 4 * group.error + 0.1 * spread for group in found.check.groups)
    assert len(found.check.groups) == 4
    assert found.check.start.monte_carlo == pytest.approx(-76, abs=4)
    estimates = [group.estimate for group in found.check.groups[1:]]
    assert estimates == sorted(estimates)
    text = str(found)
    assert "Value on MountainCar-v0 at gamma 0.99, from 25000 steps" in text
    assert "Monte Carlo: 40 fresh rollouts" in text
    assert "Newton corrections in passes over all 25000 in order" in text
    assert found.result.passes < 6


def test_cartpole():
    found = mr.rl.evaluate("CartPole-v1", under_the_pole, gamma=0.95, steps=20_000, seed=0, check=40)
    exact = found.problem.fit_exactly(found.trajectory.buffer(found.features))
    rows = found.features(found.trajectory.observations)
    assert np.sqrt(np.mean((rows @ (found.x - exact)) ** 2)) < 0.05 * (rows @ exact).std()
    assert all(abs(group.difference) < 4 * group.error + 0.5 for group in found.check.groups)
    values = found.value(found.trajectory.observations)
    assert values[found.trajectory.starts].mean() > values[found.trajectory.terminated].mean() + 6
    assert found.value(found.trajectory.observations[0]) == pytest.approx(values[0])
    with pytest.raises(InputError, match=r"array of shape \(3,\) is neither an observation of Box"):
        found.value([1.0, 2.0, 3.0])


def test_vector_environment_and_its_check():
    parts = gymnasium.make_vec("CartPole-v1", 4, vectorization_mode="sync")
    found = mr.rl.evaluate(parts, "random", mr.rl.Polynomial(2), gamma=0.9, steps=4000, check=20)
    assert found.check.rollouts == 20
    assert found.trajectory.name == "CartPole-v1"
    fast = gymnasium.make_vec("CartPole-v1", 4, vectorization_mode="vector_entry_point")
    without = mr.rl.evaluate(fast, "random", mr.rl.Polynomial(2), gamma=0.9, steps=1000)
    assert without.check is None
    assert "No Monte Carlo check: it needs one environment" in str(without)
    given = mr.rl.evaluate(fast, "random", mr.rl.Polynomial(2), gamma=0.9, steps=1000, check=5, check_env="CartPole-v1")
    assert given.check.rollouts == 5


def test_states_that_are_seldom_seen_are_worth_the_mean_and_not_zero():
    """Mountain Car at random is worth −1/(1 − γ) nearly everywhere; steps from 0 would leave the rim at half of it."""
    record = mr.rl.collect("MountainCar-v0", "random", 5000, seed=0)
    rounds = {"update": mr.VarianceReduced(rounds=10, precondition=None)}
    found, by_steps, from_zero = (
        mr.rl.estimate(record, "rbf", 0.99, **options) for options in ({}, rounds, {**rounds, "x0": np.zeros(100)})
    )
    assert found.value(record.observations).max() < -99.9
    assert by_steps.value(record.observations).max() < -98
    assert from_zero.value(record.observations).max() > -90


def test_where_newton_cannot_be_used_there_are_ten_rounds():
    """Some tiles are not in the coarse epoch; the answer is still close to LSTD."""
    record = mr.rl.collect("MountainCar-v0", with_momentum, 20_000, seed=0)
    found = mr.rl.estimate(record, mr.rl.TileCoding(4, 8), 0.99)
    assert found.result.standard_error is None
    assert found.result.passes == 21
    rows = found.features(record.observations)
    exact = found.problem.fit_exactly(record.buffer(found.features))
    assert np.sqrt(np.mean((rows @ (found.x - exact)) ** 2)) < 0.02 * (rows @ exact).std()


def test_taxi_against_its_exact_values_and_its_exact_fit():
    """500 states, about 400 of which the record leaves: as a table, its columns are whole numbers."""
    env = gymnasium.make("Taxi-v4")
    found = mr.rl.evaluate(env, "random", gamma=0.9, steps=50_000, seed=0, check=0)
    buffer = found.trajectory.buffer(found.features)
    assert "features" not in buffer
    assert buffer["states"].dtype.kind == "i"
    visits = np.bincount(found.trajectory.observations, minlength=500)
    values, _ = exact_value(env, np.full((500, 6), 1 / 6), 0.9)
    spread = np.sqrt(np.cov(values, aweights=visits))

    exact = found.problem.fit_exactly(buffer)

    def distance(x, y):
        return np.sqrt(np.average((x - y) ** 2, weights=visits))

    assert np.median(np.abs(found.x - exact)[visits > 0]) < 0.001 * spread
    assert distance(found.x, exact) < 0.15 * spread  # ten rounds are few for states that were seldom seen
    assert distance(found.x, values) < 0.75 * spread  # a hundred visits a state leave that much noise
    assert abs(np.average(found.x - values, weights=visits)) < 0.2 * spread
    assert (found.x[visits == 0] == 0).all()
    env.close()


def test_terminal_states_are_worth_nothing():
    found = mr.rl.evaluate("FrozenLake-v1", "random", gamma=0.99, steps=5000, check=0)
    assert (found.value([5, 7, 11, 12, 15]) == 0).all()


def test_options_go_to_the_solver():
    record = mr.rl.collect("FrozenLake-v1", "random", 4096, seed=0)
    found = mr.rl.estimate(record, "one-hot", 0.9, replay=mr.Multiscale(), step=0.5)
    assert len(found.result.epochs) == 12
    again = mr.rl.estimate(record, found.features, 0.9)  # features that are bound already
    assert again.features is found.features


def test_no_warning_of_features_that_are_seldom_active(recwarn):
    mr.rl.evaluate("FrozenLake-v1", "random", gamma=0.9, steps=3000, check=2)
    assert [str(warning.message) for warning in recwarn if "size" in str(warning.message)] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"gamma": 1.0}, "gamma must be a number in"),
        ({"features": "one-hot"}, "OneHot is for discrete observations"),
        ({"features": "wavelets"}, "no features 'wavelets'"),
        ({"check": -1}, "check must be a whole number of at least 0"),
    ],
)
def test_bad_input_is_refused_before_anything_is_collected(arguments, message):
    env = Spoilt(0, error=AssertionError("a step was taken"))
    with pytest.raises(InputError, match=message):
        mr.rl.evaluate(env, by_parity, **{"features": "rbf", "gamma": 0.9, "steps": 100, **arguments})


@pytest.mark.parametrize(("error", "kind"), [(KeyboardInterrupt(), KeyboardInterrupt), (ValueError("oh"), InputError)])
def test_what_was_collected_survives_a_failing_check(error, kind):
    with pytest.raises(kind) as caught:
        mr.rl.evaluate(Spoilt(100, error=error), by_parity, "polynomial(1)", gamma=0.5, steps=100)
    assert len(caught.value.trajectory) == 100


def test_gamma_zero_is_the_mean_reward():
    found = mr.rl.evaluate(Counting(), by_parity, mr.rl.Function(lambda state: 1.0), gamma=0.0, steps=500, check=10)
    assert found.value([1.0, 0.0]) == pytest.approx(found.trajectory.rewards.mean(), rel=1e-3)
    assert found.check.horizon == 1
