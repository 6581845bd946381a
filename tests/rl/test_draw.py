from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from worlds_rl import with_momentum

import multireplay as mr
from multireplay.errors import InputError
from multireplay.rl.draw import telling_dims


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def car():
    return mr.rl.evaluate("MountainCar-v0", with_momentum, mr.rl.Fourier(2), gamma=0.9, steps=3000, check=0)


@pytest.fixture(scope="module")
def pole():
    return mr.rl.evaluate("CartPole-v1", "random", mr.rl.Polynomial(2), gamma=0.9, steps=1000, check=0)


def test_heat_map_shows_the_values_where_states_were_visited(car):
    ax = car.plot(names=("position", "velocity"))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("position", "velocity")
    mesh = ax.collections[0]
    corners = mesh.get_coordinates()
    centres = (corners[:-1, :-1] + corners[1:, 1:]) / 2
    shown = mesh.get_array()
    expected = car.value(centres.reshape(-1, 2)).reshape(shown.shape)
    assert 0 < shown.mask.sum() < shown.mask.size
    np.testing.assert_allclose(shown.compressed(), expected[~shown.mask])
    visited = car.trajectory.observations[::50]
    places = [np.abs(centres - state).sum(axis=2).argmin() for state in visited]
    assert not shown.mask.ravel()[places].any()
    assert [other.get_ylabel() for other in ax.figure.axes][1] == "value"


def test_line_over_one_number_holds_the_others_at_their_median(pole):
    ax = pole.plot(dims=2, names="angle")
    angles, values = ax.lines[0].get_data()
    middle = np.median(pole.trajectory.observations, axis=0)
    expected = [pole.value(np.array([middle[0], middle[1], angle, middle[3]])) for angle in angles[::80]]
    np.testing.assert_allclose(values[::80], expected)
    assert ax.get_xlabel() == "angle"
    assert "the other numbers at their median" in ax.get_title(loc="left")


def test_bars_of_discrete_observations():
    lake = mr.rl.evaluate("FrozenLake-v1", "random", gamma=0.9, steps=2000, check=0)
    _, ax = plt.subplots()
    assert lake.plot(ax) is ax
    heights = {round(bar.get_x() + bar.get_width() / 2): bar.get_height() for bar in ax.patches}
    assert heights[14] == pytest.approx(lake.value(14))
    assert not {5, 7, 11, 12, 15} & heights.keys()  # holes and the goal, from which no step is taken


@pytest.mark.parametrize("env", ["Blackjack-v1", "FrozenLake-v1"])
def test_integers_in_rows_and_other_features(env):
    found = mr.rl.evaluate(env, "random", mr.rl.Polynomial(1), gamma=0.5, steps=500, check=0)
    found.plot(dims=(0, 1) if env == "Blackjack-v1" else None).figure.canvas.draw()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"an observation has 4 numbers, and a picture shows two: plot\(dims=\(0, 1\)\)"),
        ({"dims": (0, 4)}, "dims must be one or two different whole numbers from 0 to 3"),
        ({"dims": (1, 1)}, "dims must be"),
        ({"dims": (0, 1, 2)}, "dims must be"),
        ({"dims": 0, "names": ("a", "b", "c")}, "names must have a name for each of the 4"),
    ],
)
def test_pictures_that_cannot_be_drawn(pole, options, message):
    with pytest.raises(InputError, match=message):
        pole.plot(**options)


def test_the_numbers_that_matter_are_found(car):
    record = mr.rl.collect("CartPole-v1", "random", 2000, seed=0)
    found = mr.rl.estimate(record, mr.rl.Function(lambda state: [1.0, 10 * state[1], state[3]]), 0.9)
    assert telling_dims(found) == (1, 3)
    assert telling_dims(car) is None
