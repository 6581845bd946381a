from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from gymnasium import spaces
from worlds_rl import with_momentum

import multireplay as mr
from multireplay.errors import InputError
from multireplay.rl.features.scaled import covering
from multireplay.rl.spaces import scaling_of

BOX = spaces.Box(np.array([-2.0, -np.inf], dtype=np.float32), np.array([2.0, np.inf], dtype=np.float32))
STATES = np.random.default_rng(0).normal(0, [0.5, 3.0], (400, 2)).astype(np.float32)
UNIT = (np.zeros(2), np.ones(2))

DESCRIPTIONS = [
    mr.rl.RBF(20),
    mr.rl.RBF((4, 3)),
    mr.rl.TileCoding(4, 3),
    mr.rl.Fourier(2),
    mr.rl.Polynomial(3),
    mr.rl.Function(lambda state: [1.0, state[0]]),
    mr.rl.Function(mr.rl.Batched(lambda states: states[:, 1])),
    mr.rl.LastLayer(torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))),
    mr.rl.RBF(10) + mr.rl.Polynomial(1) + mr.rl.Fourier(1),
]
NAMES = ["rbf", "rbf grid", "tiles", "fourier", "polynomial", "function", "batched", "last layer", "joined"]


@pytest.mark.parametrize("description", DESCRIPTIONS, ids=NAMES)
def test_rows_are_finite_repeatable_and_each_by_itself(description):
    bound = description.bind(BOX, STATES)
    rows = bound(STATES)
    assert rows.shape == (400, bound.dim)
    assert np.isfinite(rows).all()
    assert np.isfinite(bound(1e6 * STATES)).all()  # far outside of what was seen
    np.testing.assert_allclose(np.vstack([bound(STATES[i : i + 1]) for i in (0, 7, 399)]), rows[[0, 7, 399]], rtol=1e-5)
    assert bound(STATES[:0]).shape == (0, bound.dim)
    with pytest.raises(InputError, match="are not rows of Box"):
        bound(STATES[0])


@pytest.mark.parametrize("description", [*DESCRIPTIONS, mr.rl.OneHot()], ids=[*NAMES, "one-hot"])
def test_values_and_totals_are_those_of_the_rows(description, monkeypatch):
    monkeypatch.setattr("multireplay.rl.features.base.NUMBERS", 1000)  # several blocks
    discrete = isinstance(description, mr.rl.OneHot)
    space, states = (spaces.Discrete(7), np.arange(400) % 7) if discrete else (BOX, STATES)
    bound = description.bind(space, states)
    rows = np.vstack([bound.rows(states[i : i + 1]) for i in range(400)])
    np.testing.assert_allclose(bound(states), rows, rtol=1e-5, atol=1e-12)
    np.testing.assert_allclose(bound.total(states), rows.sum(axis=0), rtol=1e-4, atol=1e-9)
    for x in (np.arange(bound.dim) + 1.0, np.random.default_rng(0).normal(size=(bound.dim, 3))):
        np.testing.assert_allclose(bound.values(states, x), rows @ x, rtol=1e-4, atol=1e-6)


def test_parts_say_what_they_are():
    bound = (mr.rl.Function(lambda state: state) + mr.rl.Fourier(2) + mr.rl.RBF(5)).bind(BOX, STATES)
    assert str(bound) == "2 given features and 9 Fourier features and 5 RBF features"


def test_radial_features_by_their_formula():
    bound = mr.rl.RBF((3, 2), width=0.5, bounds=UNIT).bind(BOX, STATES)
    centres = np.array(list(itertools.product([0, 0.5, 1], [0, 1])))
    nearest = np.mean([min(np.linalg.norm(a - b) for b in centres if b is not a and (b != a).any()) for a in centres])
    for state in STATES[:20]:
        weights = np.exp(-((state - centres) ** 2).sum(axis=1) / (2 * (0.5 * nearest) ** 2))
        np.testing.assert_allclose(bound(state[None])[0], weights / weights.sum(), rtol=1e-9, atol=1e-12)


def test_each_next_centre_is_the_farthest_from_those_before():
    units = STATES.astype(float)
    centres = covering(units, 12)
    for count in range(1, 12):
        gaps = np.linalg.norm(units[:, None] - centres[:count], axis=2).min(axis=1)
        np.testing.assert_allclose(np.linalg.norm(centres[count] - centres[:count], axis=1).min(), gaps.max())
    assert len(covering(np.zeros((5, 2)), 12)) == 1  # all the same


def test_tiles_by_a_plain_loop():
    bound = mr.rl.TileCoding(tilings=4, tiles=(5, 3), bounds=UNIT).bind(BOX, STATES)
    rows = bound(STATES)

    def tiles(state):
        units = np.clip(state.astype(float), 0, 1) * (5, 3)
        found = []
        for tiling in range(4):
            shifted = [units[i] + (tiling * (2 * i + 1) / 4) % 1 for i in range(2)]
            last = (5, 3) if tiling else (4, 2)
            found.append((tiling, *(min(int(place), most) for place, most in zip(shifted, last, strict=True))))
        return set(found)

    sets = [tiles(state) for state in STATES]
    assert bound.dim == len(set.union(*sets))
    common = np.array([[len(one & other) for other in sets[:60]] for one in sets[:60]]) / 4
    np.testing.assert_allclose(rows[:60] @ rows[:60].T, common, atol=1e-12)


def test_unseen_tiles_have_no_feature():
    bound = mr.rl.TileCoding(tilings=2, tiles=10, bounds=UNIT).bind(BOX, np.array([[0.01, 0.01]]))
    assert bound.dim == 2
    assert bound(np.array([[0.99, 0.99]])).sum() == 0


def test_cosines_by_their_formula():
    bound = mr.rl.Fourier(2, bounds=UNIT).bind(BOX, STATES)
    inside = np.array([[0.25, 0.5], [1.0, 0.1]])
    expected = [[np.cos(np.pi * (a * x + b * y)) for a in range(3) for b in range(3)] for x, y in inside]
    np.testing.assert_allclose(bound(inside), expected)


def test_polynomials_show_what_monomials_show():
    bound = mr.rl.Polynomial(3).bind(BOX, STATES)
    inside = scaling_of(BOX, STATES, None)
    states = STATES[(np.abs(inside.unit(STATES) - 0.5) < 0.5).all(axis=1)]
    monomials = np.array([states[:, 0] ** a * states[:, 1] ** b for a in range(4) for b in range(4 - a)]).T
    rows = bound(states)
    assert rows.shape[1] == monomials.shape[1] == 10
    assert np.linalg.matrix_rank(rows) == 10
    fitted = rows @ np.linalg.lstsq(rows, monomials, rcond=None)[0]
    np.testing.assert_allclose(fitted, monomials, atol=1e-3)
    assert np.abs(rows).max() <= 1 + 1e-12
    assert (rows[:, 0] == 1).all()


def test_one_hot_of_rows_of_integers():
    space = spaces.MultiDiscrete([3, 4], start=[1, 0])
    every = np.array(list(itertools.product([1, 2, 3], range(4))))
    bound = mr.rl.OneHot().bind(space, every)
    np.testing.assert_array_equal(bound(every), np.eye(12))
    np.testing.assert_array_equal(bound(every.astype(float)), np.eye(12))
    with pytest.raises(InputError, match=r"observation \[0 0\] is not in MultiDiscrete"):
        bound([[0, 0]])
    with pytest.raises(InputError, match="whole numbers"):
        bound([[1.5, 0]])


def test_last_layer_is_what_the_network_itself_computes():
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Linear(2, 16), torch.nn.Dropout(0.5), torch.nn.Tanh(), torch.nn.Linear(16, 1)
    )
    bound = mr.rl.LastLayer(network).bind(BOX, STATES)
    weights = np.append(network[-1].weight.detach().numpy()[0], network[-1].bias.detach().numpy())
    expected = network.eval()(torch.as_tensor(STATES)).detach().numpy()[:, 0]
    np.testing.assert_allclose(bound(STATES) @ weights, expected, rtol=1e-4, atol=1e-5)
    network.train()
    torch.nn.init.zeros_(network[0].weight)  # training goes on, the features stay
    np.testing.assert_allclose(bound(STATES) @ weights, expected, rtol=1e-4, atol=1e-5)


def test_last_layer_of_discrete_observations():
    network = torch.nn.Sequential(torch.nn.Embedding(16, 5), torch.nn.Linear(5, 1))
    bound = mr.rl.LastLayer(network).bind(spaces.Discrete(16), np.arange(16))
    np.testing.assert_allclose(bound(np.arange(16))[:, :5], network[0].weight.detach().numpy(), rtol=1e-6)


def test_parts_side_by_side_are_as_long_as_each_other():
    bound = (mr.rl.Fourier(3) + mr.rl.RBF(30)).bind(BOX, STATES)
    rows = bound(STATES)
    for part in (rows[:, :16], rows[:, 16:]):
        assert np.sqrt((part**2).sum(axis=1).max()) == pytest.approx(1.0)


def test_range_is_the_visited_one_without_its_tails_or_the_given_one():
    scaling = scaling_of(BOX, STATES, None)
    np.testing.assert_allclose([scaling.low, scaling.high], np.quantile(STATES.astype(float), [0.001, 0.999], axis=0))
    bounded = spaces.Box(-3, 5, (2,))
    np.testing.assert_allclose(scaling_of(bounded, STATES[:0], None).high, 5)
    np.testing.assert_allclose(scaling_of(BOX, STATES, (-1, [2, 3])).high, [2, 3])
    np.testing.assert_allclose(scaling_of(spaces.Discrete(9, start=1), np.array([2, 3]), None).low, 1)
    still = scaling_of(BOX, np.ones((5, 2)), None)
    assert np.isfinite(still.unit(np.ones((5, 2)))).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mr.rl.OneHot().bind(BOX, STATES), "OneHot is for discrete observations, not for Box"),
        (lambda: mr.rl.Fourier(200).bind(BOX, STATES), "makes 40401 features of 2 numbers an observation; use a lower"),
        (lambda: mr.rl.RBF((500, 500)).bind(BOX, STATES), "makes 250000 features"),
        (lambda: mr.rl.RBF((5,)).bind(BOX, STATES), "centres=.* is for 1 numbers, but an observation has 2"),
        (lambda: mr.rl.RBF((5, 0)).bind(BOX, STATES), "centres must be whole numbers of at least 1"),
        (lambda: mr.rl.RBF(1), "centres must be a whole number of at least 2"),
        (lambda: mr.rl.RBF(10).bind(BOX, STATES[:0]), "has no bounds; give observations"),
        (lambda: mr.rl.RBF(width=-1), "width must be a positive number"),
        (lambda: mr.rl.RBF(bounds=(1, 0)).bind(BOX, STATES), "low below high"),
        (lambda: mr.rl.RBF(bounds=3).bind(BOX, STATES), r"bounds must be \(low, high\), not 3"),
        (lambda: mr.rl.RBF(bounds=([0, 0, 0], 1)).bind(BOX, STATES), "low has 3 numbers, but an observation has 2"),
        (lambda: mr.rl.TileCoding(0), "tilings must be"),
        (lambda: mr.rl.Polynomial(-1), "degree must be"),
        (lambda: mr.rl.Function(3), "Function needs a function"),
        (lambda: mr.rl.Function(lambda state: [np.nan]).bind(BOX, STATES), "gave .nan. for the observation"),
        (lambda: mr.rl.Function(lambda state: state[9]).bind(BOX, STATES), "feature function raised IndexError"),
        (lambda: mr.rl.Function(lambda state: "a").bind(BOX, STATES), "as many numbers for every observation"),
        (lambda: mr.rl.LastLayer(torch.nn.ReLU()), "with a torch.nn.Linear layer"),
        (lambda: mr.rl.LastLayer("net"), "needs a torch.nn.Module, not 'net'"),
        (lambda: mr.rl.LastLayer(torch.nn.Linear(7, 1)).bind(BOX, STATES), r"the network raised RuntimeError.*\(2,\)"),
        (lambda: mr.rl.features_from_name("wavelets"), "no features 'wavelets'; there are auto, one-hot, rbf"),
        (lambda: mr.rl.features_from_name("rbf(size=3)"), "cannot be made: .*size"),
        (lambda: mr.rl.features_from_name("rbf(3"), "cannot be read; write features as"),
        (lambda: mr.rl.features_from_name("rbf(__import__('os'))"), "cannot be read"),
        (lambda: mr.rl.collect("CartPole-v1", "random", 20).buffer(4), "features must be an object such as mr.rl.RBF"),
    ],
)
def test_bad_features_say_what_is_wrong(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_function_whose_answers_change_their_length():
    description = mr.rl.Function(lambda state: [1.0] * (1 + int(state[0] > 0)))
    with pytest.raises(InputError, match="as many numbers for every observation"):
        description.bind(BOX, STATES)(STATES)


def test_names_give_the_same_as_the_objects(tmp_path, monkeypatch):
    (tmp_path / "my_features.py").write_text("def square(state):\n    return [1.0, float(state[0]) ** 2]\n")
    monkeypatch.chdir(tmp_path)
    assert mr.rl.features_from_name("tiles(4, tiles=(3, 2))") == mr.rl.TileCoding(4, (3, 2))
    assert mr.rl.features_from_name(" rbf + fourier(2) ") == mr.rl.RBF() + mr.rl.Fourier(2)
    own = mr.rl.features_from_name("my_features.py:square").bind(BOX, STATES)
    np.testing.assert_allclose(own(STATES)[:, 1], STATES[:, 0].astype(float) ** 2)
    automatic = mr.rl.features_from_name("auto")
    assert automatic.bind(spaces.Discrete(6), np.arange(6)).dim == 6
    assert automatic.bind(BOX, np.vstack([STATES + shift for shift in (0, 0.1, 0.2)])).dim == 100


WIDE = spaces.Box(-1, 1, (6,))
MANY = np.random.default_rng(1).uniform(-1, 1, (20_000, 6)).astype(np.float32)


@pytest.mark.parametrize(
    ("description", "space", "states", "dim", "said"),
    [
        (mr.rl.Fourier(), BOX, STATES[:170], 16, "16 Fourier features (order 3)"),
        (mr.rl.Fourier(), WIDE, MANY, 729, "729 Fourier features (order 2, for at most 2000)"),
        (mr.rl.Fourier(), WIDE, MANY[:1000], 64, "64 Fourier features (order 1, for at most 100)"),
        (mr.rl.Fourier(), WIDE, MANY[:300], 19, "(order 3 in one coordinate at a time, for at most 30)"),
        (mr.rl.Fourier(3), WIDE, MANY[:300], 4096, "4096 Fourier features"),
        (mr.rl.Polynomial(), WIDE, MANY, 84, "84 polynomial features (degree 3)"),
        (mr.rl.Polynomial(), WIDE, MANY[:300], 28, "(degree 2, for at most 30)"),
        (mr.rl.Polynomial(3), WIDE, MANY[:300], 84, "84 polynomial features"),
        (mr.rl.RBF(), WIDE, MANY[:300], 30, "30 RBF features (one for 10 observations)"),
        (mr.rl.RBF(60), WIDE, MANY[:300], 60, "60 RBF features"),
        (mr.rl.TileCoding(2, 3), WIDE, MANY[:300], None, "tile features"),
    ],
)
def test_sizes_that_were_not_given_are_such_as_work_and_are_said(description, space, states, dim, said):
    bound = description.bind(space, states)
    assert dim is None or bound.dim == dim
    assert str(bound).endswith(said)


def test_tiles_are_fewer_where_there_would_be_too_many():
    bound = mr.rl.TileCoding().bind(WIDE, MANY)
    assert 200 < bound.dim <= 2000
    assert str(bound) == f"{bound.dim} tile features (8 grids with 1 a side, for at most 2000)"
    few = mr.rl.TileCoding().bind(BOX, STATES)
    assert 20 < few.dim <= 40
    crowd = spaces.Box(-1, 1, (60,))
    with pytest.raises(InputError, match="too many tiles of 60 numbers an observation and 100 observations"):
        mr.rl.TileCoding().bind(crowd, np.random.default_rng(0).uniform(-1, 1, (100, 60)))


def test_tiles_of_a_record_are_sparse_columns():
    record = mr.rl.collect("MountainCar-v0", with_momentum, 3000, seed=0)
    features = mr.rl.TileCoding(4, 6).bind(record.observation_space, record.observations)
    buffer = record.buffer(features)
    assert buffer["features"].nnz == 4 * 3000
    np.testing.assert_array_equal(buffer["features"].toarray(), features(record.observations))
    np.testing.assert_array_equal(buffer["next_features"].toarray(), features(record.next_observations))


def test_tensors_with_a_gradient_are_read():
    layer = torch.nn.Linear(2, 3)
    expected = layer(torch.as_tensor(STATES)).detach().numpy()
    for function in (
        lambda state: layer(torch.as_tensor(state)),
        lambda state: [*layer(torch.as_tensor(state))],
        mr.rl.Batched(lambda states: layer(torch.as_tensor(states))),
    ):
        bound = mr.rl.Function(function).bind(BOX, STATES)
        np.testing.assert_allclose(bound(STATES), expected, rtol=1e-5, atol=1e-6)


IMAGES = np.random.default_rng(2).integers(0, 256, (300, 12, 12, 3), dtype=np.uint8)
SCREEN = spaces.Box(0, 255, (12, 12, 3), np.uint8)


def test_images_of_bytes():
    """No number wraps around at 256, and a network gets them as floats."""
    values = IMAGES.reshape(300, -1).astype(float)
    scaled = mr.rl.Polynomial(1).bind(SCREEN, IMAGES)(IMAGES)
    low, high = np.quantile(values, [0.001, 0.999], axis=0)
    np.testing.assert_allclose(np.sort(scaled[:, 1:]), np.sort(2 * np.clip((values - low) / (high - low), 0, 1) - 1))
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(432, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    rows = mr.rl.LastLayer(network).bind(SCREEN, IMAGES)(IMAGES)
    expected = network[:3](torch.as_tensor(IMAGES).float()).detach().numpy()
    np.testing.assert_allclose(rows[:, :-1], expected, rtol=1e-4, atol=1e-4)
    assert mr.rl.features_from_name("auto").bind(SCREEN, IMAGES)(IMAGES).shape == (300, 30)


def test_images_are_not_copied_as_floats_all_at_once(monkeypatch):
    seen, vectors = [], mr.rl.spaces.as_vectors
    monkeypatch.setattr(mr.rl.spaces, "as_vectors", lambda some: seen.append(some.size) or vectors(some))
    for module in (mr.rl.spaces, mr.rl.features.base):
        monkeypatch.setattr(module, "NUMBERS", 2**16)
    assert mr.rl.RBF(10).bind(SCREEN, IMAGES)(IMAGES).shape == (300, 10)
    assert max(seen) <= 2**16 < IMAGES.size


def test_default_radial_features_are_well_conditioned():
    """The default width keeps TD's matrix within a condition of 5000; at twice the width it is beyond a million."""
    record = mr.rl.collect("MountainCar-v0", with_momentum, 5000, seed=0)

    def condition(width):
        buffer = record.buffer(mr.rl.RBF(60, width))
        problem = mr.PolicyEvaluation(0.99)
        return np.linalg.cond(problem.moments(problem.columns(buffer))[0])

    assert condition(0.75) < 5000
    assert condition(1.5) > 1e6


def test_names_say_what_a_feature_is():
    def names(description, space=BOX, observations=STATES):
        found = description.bind(space, observations)
        assert len(set(found.names)) == len(found.names) == found.dim
        return found.names

    for description in DESCRIPTIONS:
        names(description)
    assert names(mr.rl.OneHot(), spaces.Discrete(3, start=5)) == ("state 5", "state 6", "state 7")
    pairs = names(mr.rl.OneHot(), spaces.MultiDiscrete([2, 3], start=[1, 0]))
    assert pairs[:4] == ("state (1, 0)", "state (1, 1)", "state (1, 2)", "state (2, 0)")
    assert names(mr.rl.Fourier(2))[:4] == ("constant", "cos π(s1)", "cos π(2·s1)", "cos π(s0)")
    assert {"cos π(s0 + 2·s1)", "cos π(2·s0 + s1)"} < set(names(mr.rl.Fourier(2)))
    assert names(mr.rl.Polynomial(2)) == ("constant", "P1(s1)", "P1(s0)", "P2(s1)", "P1(s0)·P1(s1)", "P2(s0)")
    grid = mr.rl.RBF((2, 2), bounds=([-2, -10], [2, 10])).bind(BOX, STATES)
    assert grid.names == ("RBF 0 (-2, -10)", "RBF 1 (-2, 10)", "RBF 2 (2, -10)", "RBF 3 (2, 10)")
    tiles = mr.rl.TileCoding(2, 3, bounds=([-2, -10], [2, 10])).bind(BOX, STATES)
    assert "grid 0 tile (1, 1)" in tiles.names
    row = tiles(np.array([[0.0, 0.0]], dtype=np.float32))[0]
    assert next(tiles.names[i] for i in np.flatnonzero(row)) == "grid 0 tile (1, 1)"
    both = names(mr.rl.Polynomial(1) + mr.rl.Fourier(1))
    assert both[0] == "constant of part 0"
    assert names(mr.rl.RBF(3) + mr.rl.Polynomial(0))[-1] == "constant"
    wide = spaces.Box(0.0, 1.0, (6,), dtype=np.float32)
    rows = np.random.default_rng(1).random((50, 6)).astype(np.float32)
    assert names(mr.rl.Fourier(1), wide, rows)[-1] == "Fourier 63"
    assert all(name.endswith(", …)") for name in names(mr.rl.RBF(4), wide, rows))
    critic = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1))
    assert names(mr.rl.LastLayer(critic)) == ("unit 0", "unit 1", "unit 2", "constant")
