"""The worlds' solutions against direct linear algebra, and their records against their own statistics."""

import numpy as np
import pytest

import multireplay as mr
from multireplay.bench.worlds import SUITES, WORLDS, make_world, worlds_of
from multireplay.bench.worlds.chains import boyan_chain, boyan_features, relaxation_time

GYM = {"Mountain Car", "CartPole", "Mountain Car, wide RBF"}


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("references")


@pytest.mark.parametrize("name", [name for name in WORLDS if name not in GYM])
def test_every_world(name, cache):
    if "CO2" in name:
        pytest.importorskip("statsmodels")
    world = make_world(name, "small", cache)
    record, again = world.record((1, 2)), world.record((1, 2))
    assert all((record[column] == again[column]).all() for column in record)
    assert world.error(world.solution) == 0
    assert world.mu > 0
    assert world.condition >= 1
    if name == "misspecified m=0.99":
        return  # a small record is shorter than 50 mixing times: no fit is good there
    fits = [world.fit(world.record(seed), world.ridges[len(world.ridges) // 2]) for seed in range(4)]
    assert np.mean([world.error(x) for x in fits]) < 0.7 * world.error(np.zeros_like(world.solution))
    assert world.error(np.full_like(world.solution, np.nan)) == np.inf


@pytest.mark.parametrize("name", ["misspecified m=0.9", "Boyan chain", "reflecting walk, RBF", "paper MRP m=0.5"])
def test_chains_against_the_long_record(name, cache):
    """The mean operator vanishes at the solution, up to noise, and the record's derivative is the jacobian."""
    world = make_world(name, "small", cache)
    columns = [world.problem.columns(world.record(seed)) for seed in range(20)]
    sums = [world.problem.moments(part) for part in columns]
    rows = sum(len(part["rewards"]) for part in columns)
    matrix, vector = sum(matrix for matrix, _ in sums) / rows, sum(vector for _, vector in sums) / rows
    spread = np.std([world.problem.mean_operator(world.solution, part) for part in columns], axis=0) / np.sqrt(20)
    assert np.abs(matrix @ world.solution - vector).max() < 5 * spread.max()
    np.testing.assert_allclose(matrix, world.jacobian, atol=0.1 * np.abs(world.jacobian).max())


def test_boyan_table():
    """With 13 states the features are Boyan's own."""
    table = boyan_features(13)
    assert table[0].tolist() == [1, 0, 0, 0]
    assert table[1].tolist() == [0.75, 0.25, 0, 0]
    assert table[6].tolist() == [0, 0.5, 0.5, 0]
    assert table[12].tolist() == [0, 0, 0, 1]
    chain = boyan_chain()
    np.testing.assert_allclose(chain.transitions.sum(axis=1), 1)
    assert chain.rewards.tolist() == [-3.0] * 12 + [-2.0, 0.0]
    assert np.linalg.matrix_rank(chain.features) == 4
    # the values without function approximation, from the Bellman equation, and their projection's equation
    residual = chain.features @ chain.solution - chain.rewards
    residual -= chain.gamma * chain.transitions @ chain.features @ chain.solution
    np.testing.assert_allclose(chain.features.T @ (chain.stationary * residual), 0, atol=1e-12)


def test_relaxation_time():
    assert relaxation_time(mr.simulate.paper_mrp(0.99).transitions) == pytest.approx(
        -1 / np.log(0.98 / 0.99 - 0.01 / 0.99 / 29)
    )
    assert relaxation_time(np.full((3, 3), 1 / 3)) == 0


@pytest.mark.parametrize("name", ["logistic ρ=0", "Poisson ρ=0", "linear ρ=0"])
def test_slope_of_a_regression(name, cache):
    world = make_world(name, "small", cache)
    total = np.zeros_like(world.weight)
    for seed in range(8):
        features = world.record(seed)["features"]
        slopes = world.problem.link.derivative(features @ world.solution)
        total += features.T @ (slopes[:, None] * features) / len(features) / 8
    np.testing.assert_allclose(total, world.jacobian, atol=0.1 * np.abs(world.jacobian).max())


def test_vector_autoregression_predicts_the_next_state(cache):
    world = make_world("vector autoregression", "small", cache)
    record = world.record(0)
    np.testing.assert_array_equal(record["targets"][:-1], record["features"][1:, 0])
    np.testing.assert_allclose(np.var(record["targets"] - record["features"] @ world.solution), 1, atol=0.1)


def test_game_equilibrium(cache):
    """The exact fit of a record whose mean is the true mean game is the equilibrium."""
    world = make_world("simplex game", "small", cache)
    tables = mr.simulate.SimplexGame().tables
    np.testing.assert_allclose(world.fit(mr.Buffer(samples=tables), 0.0), world.solution, atol=1e-8)


def test_mountain_car(cache):
    pytest.importorskip("gymnasium")
    world = make_world("Mountain Car", "small", cache)
    record = world.record(5)
    ended = record["terminated"].astype(bool)
    assert ended.any()
    same = np.flatnonzero(~ended[:-1])
    np.testing.assert_array_equal(record["next_features"][same], record["features"][same + 1])
    assert world.error(world.fit(record, 0.0)) < 0.1 * world.error(np.zeros_like(world.solution))


def test_suites():
    assert {listing.suite for listing in WORLDS.values()} == set(SUITES)
    assert worlds_of("all") == list(WORLDS.values())
    with pytest.raises(mr.InputError, match="no suite"):
        worlds_of("best")
