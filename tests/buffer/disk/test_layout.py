from __future__ import annotations

import numpy as np
import pytest

import multireplay as mr


@pytest.fixture
def folder(tmp_path):
    np.save(tmp_path / "psi.npy", np.zeros((10, 3)))
    np.save(tmp_path / "reward.npy", np.zeros(10))
    np.save(tmp_path / "time.npy", np.arange(10).astype("M8[s]"))
    np.save(tmp_path / "words.npy", np.array(["x"] * 10))
    return tmp_path


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (None, r"time.npy holds dates \(datetime64\[s\]\), which are not real numbers. Choose columns without it"),
        ({}, "columns must be a dictionary such as"),
        ("psi", "columns must be a dictionary such as"),
        ({3: "psi"}, "a column's name must be text, not 3"),
        ({"a": "rewards"}, "no column 'rewards' in .*; did you mean 'reward'. It has reward, psi"),
        ({"a": "zzz"}, "no column 'zzz' in .*; It has psi, reward"),
        ({"a": ["psi", "zzz"]}, "no column 'zzz'"),
        ({"a": "words"}, "words.npy has dtype <U1"),
        ({"a": "time"}, "time.npy holds dates"),
        ({"a": None}, "column 'a' is None; it needs the name of a stored column"),
        ({"a": []}, r"column 'a' is \[\]; it needs"),
        ({"a": ("psi", "reward")}, "column 'a' is .*: a pair means .what, shift by rows."),
        ({"a": ("psi", 10)}, "column 'a' is shifted by 10 rows, but .* has 10"),
        ({"a": ("psi", 6), "b": ("psi", -6)}, "has 10 rows, too few for shifts that far"),
        ({"a": 0}, "column 'a' is .0.?, but numbers pick features of the one array in a .npy file"),
    ],
)
def test_errors(folder, columns, message):
    with pytest.raises(mr.InputError, match=message):
        mr.Buffer.open(folder, columns)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (3, r"column 'a' picks \[3\], which is not among the features 0 to 2 of .*psi.npy"),
        ([0, -4], r"column 'a' picks \[0, -4\], which is not among the features 0 to 2"),
        (slice(3, 9), "column 'a' picks no features"),
        ([True], "column 'a' is .True.; it needs"),
    ],
)
def test_picking_errors(folder, wanted, message):
    with pytest.raises(mr.InputError, match=message):
        mr.Buffer.open(folder / "psi.npy", {"a": wanted})


def test_picking_from_one_dimension(folder):
    with pytest.raises(mr.InputError, match=r"picks features, but the array in .*reward.npy is one-dimensional"):
        mr.Buffer.open(folder / "reward.npy", {"a": 0})


def test_arrays_side_by_side(folder):
    buffer = mr.Buffer.open(folder, {"features": ["reward", "psi"], "one": ["reward"]}, time="time")
    assert buffer["features"].shape == (10, 4)
    assert buffer["one"].shape == (10, 1)


def test_time_needs_one_number_a_row(folder):
    with pytest.raises(mr.InputError, match=r"time='psi' in .* has several numbers a row"):
        mr.Buffer.open(folder, {"a": "psi"}, time="psi")
    with pytest.raises(mr.InputError, match=r"no column 'tim' in .*; did you mean 'time'"):
        mr.Buffer.open(folder, {"a": "psi"}, time="tim")


def test_time_of_an_array(folder):
    np.save(folder / "time.npy", np.array([0, 1, 2, 3, 9, 5, 6, 7, 8, 9]).astype("M8[s]"))
    with pytest.raises(mr.InputError, match=r"time.npy has time = 5 at row 5 \(counting from 0\), after 9 in row 4"):
        mr.Buffer.open(folder, {"a": "psi"}, time="time")
    values = np.zeros((10, 2))
    values[:, 1] = np.arange(10)
    values[7, 1] = 3
    np.save(folder / "psi.npy", values)
    with pytest.raises(mr.InputError, match=r"psi.npy has samples = 3.0 at row 7"):
        mr.Buffer.open(folder / "psi.npy", {"a": 0}, time=1)
