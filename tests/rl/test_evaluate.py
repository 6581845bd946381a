from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from worlds_rl import Counting, Spoilt, Structured, by_parity, exact_value, under_the_pole, with_momentum

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
    assert np.abs(gap).max() < 1e-6 * np.abs(values).max()


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
    assert "the exact fit of all 25000 samples" in text


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


def test_tiles_that_are_seldom_visited_are_fitted_exactly_too():
    record = mr.rl.collect("MountainCar-v0", with_momentum, 20_000, seed=0)
    found = mr.rl.estimate(record, mr.rl.TileCoding(4, 8), 0.99)
    exact = found.problem.fit_exactly(record.buffer(found.features))
    gap = found.values(record.observations) - found.features.values(record.observations, exact)
    assert np.abs(gap).max() < 1e-5 * np.abs(exact).max()


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

    assert np.abs(found.x - exact)[visits > 0].max() < 1e-6 * spread
    assert np.abs(found.x).max() < 100
    assert found.note == ""
    assert distance(found.x, values) < 0.75 * spread  # a hundred visits a state leave that much noise
    assert abs(np.average(found.x - values, weights=visits)) < 0.2 * spread
    np.testing.assert_allclose(found.x[visits == 0], 0, atol=1e-9)
    env.close()


def test_cliff_walking_far_ahead():
    """Values from -8900 on, and no state of the record above -3000."""
    found = mr.rl.evaluate("CliffWalking-v1", "random", gamma=0.999, steps=30_000, seed=1, check=20)
    record = found.trajectory
    exact = found.problem.fit_exactly(record.buffer(found.features))
    np.testing.assert_allclose(found.values(record.observations), exact[record.observations], rtol=1e-6)
    assert found.values(record.observations).max() < -2000
    assert not any(group.far for group in found.check.groups)


def test_garbage_is_called_garbage():
    """Steps that are far too long for their number: outside of what rewards can add up to."""
    record = mr.rl.collect("CliffWalking-v1", "random", 5000, seed=1)
    found = mr.rl.estimate(record, "one-hot", 0.999, replay=mr.Serial(), x0=np.full(48, 45060.0))
    assert "The estimate is wrong: on" in str(found)
    assert "cannot add up to at gamma 0.999, which is -1e+05 to 0" in found.note
    checked = mr.rl.evaluate(
        "CliffWalking-v1", "random", gamma=0.99, steps=3000, check=10, replay=mr.Serial(), x0=np.full(48, 45060.0)
    )
    assert "The estimate is wrong: on" in checked.check.sentence


def test_without_a_discount_where_episodes_end():
    found = mr.rl.evaluate("FrozenLake-v1", "random", gamma=1, steps=20_000, seed=0)
    values, _ = exact_value(gymnasium.make("FrozenLake-v1"), np.full((16, 4), 0.25), 1.0)
    assert found.value(0) == pytest.approx(values[0], abs=0.006)
    assert found.value(14) == pytest.approx(values[14], abs=0.12)
    assert found.check.horizon == 20_000
    assert not any(group.far for group in found.check.groups)


def test_without_a_discount_where_nothing_ends():
    with pytest.raises(InputError, match="gamma=1 needs episodes that end") as caught:
        mr.rl.evaluate("MountainCar-v0", "random", gamma=1, steps=400, check=5)
    assert len(caught.value.trajectory) == 400


def test_terminal_states_are_worth_nothing():
    found = mr.rl.evaluate("FrozenLake-v1", "random", gamma=0.99, steps=5000, check=0)
    np.testing.assert_allclose(found.value([5, 7, 11, 12, 15]), 0, atol=1e-12)


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
        ({"gamma": 1.01}, "gamma must be a number in"),
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


def place_and_colour(observation):
    assert isinstance(observation, dict)
    return [1.0, *observation["place"], observation["colour"] == 2, observation["both"][0]]


def place_and_colour_of_many(observations):
    return np.column_stack([
        np.ones(len(observations["colour"])), observations["place"], observations["colour"] == 2,
        observations["both"][0],
    ])  # fmt: skip


def test_dictionaries_reach_feature_functions_and_values(tmp_path):
    found = mr.rl.evaluate(Structured(), "random", place_and_colour, gamma=0.5, steps=600, check=10)
    env = Structured()
    seen = [env.reset(seed=seed)[0] for seed in range(5)]
    expected = [float(np.dot(place_and_colour(one), found.x)) for one in seen]
    assert found.value(seen[0]) == pytest.approx(expected[0])
    np.testing.assert_allclose(found.value(seen), expected, rtol=1e-6)
    np.testing.assert_allclose(found.value(tuple(seen)), expected, rtol=1e-6)
    flat = np.array([gymnasium.spaces.flatten(env.observation_space, one) for one in seen])
    np.testing.assert_allclose(found.value(flat), expected, rtol=1e-6)
    fast = mr.rl.estimate(found.trajectory, mr.rl.Batched(place_and_colour_of_many), 0.5)
    np.testing.assert_allclose(fast.x, found.x)
    again = mr.rl.Trajectory.load(found.trajectory.save(tmp_path / "structured"))
    assert again.environment_space == env.observation_space
    np.testing.assert_allclose(mr.rl.estimate(again, place_and_colour, 0.5).x, found.x)
    both = mr.rl.estimate(found.trajectory, mr.rl.Function(place_and_colour) + mr.rl.Polynomial(1), 0.5)
    assert both.value(seen).shape == (5,)
    with pytest.raises(InputError, match="is not an observation of Dict"):
        found.value({"place": [0.0, 0.0]})
    with pytest.raises(InputError, match="feature function raised KeyError: 'colours', for an observation of Dict"):
        mr.rl.estimate(found.trajectory, lambda observation: observation["colours"], 0.5)


def test_tuples_reach_feature_functions_and_values():
    def total(observation):
        hand, dealer, ace = observation
        assert isinstance(observation, tuple)
        return [1.0, hand, dealer, ace]

    found = mr.rl.evaluate("Blackjack-v1", "random", total, gamma=1, steps=3000, check=20)
    assert found.value((12, 5, 0)) == pytest.approx(found.x @ [1, 12, 5, 0])
    np.testing.assert_allclose(
        found.value([(12, 5, 0), (20, 10, 1)]), [found.x @ [1, 12, 5, 0], found.x @ [1, 20, 10, 1]]
    )
    table = mr.rl.estimate(found.trajectory, "auto", 1)
    assert -1 <= table.value((20, 5, 0)) <= 1


class Screen(Counting):
    """Shows its count as the brightness of an image of bytes."""

    def __init__(self):
        super().__init__()
        self.observation_space = gymnasium.spaces.Box(0, 255, (16, 16, 1), np.uint8)

    def observed(self):
        return np.full((16, 16, 1), 30 * self.state[0], dtype=np.uint8)


def test_images_of_bytes():
    found = mr.rl.evaluate(Screen(), "random", gamma=0.9, steps=3000, check=20)
    bright = found.value(np.full((16, 16, 1), 180, dtype=np.uint8))
    assert found.value(np.zeros((16, 16, 1), dtype=np.uint8)) > bright + 5
    assert not any(group.far for group in found.check.groups)


def test_acrobot_with_features_of_a_default_size():
    record = mr.rl.collect("Acrobot-v1", "random", 5000, seed=0)
    for name in ("tiles", "fourier", "polynomial", "rbf"):
        found = mr.rl.estimate(record, name, 0.95)
        assert found.features.dim <= 500
        values = found.values(record.observations)
        assert np.sqrt(np.mean((values + 20) ** 2)) < 1.5  # a random swing is worth -1/(1 - gamma) nearly everywhere
