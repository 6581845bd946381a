"""Groups of a buffer, kept beside its columns."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import multireplay as mr

GROUPS = np.repeat(["north", "south", "west"], [4, 1, 3])


def record(**more):
    rng = np.random.default_rng(21)
    return mr.Buffer(features=rng.standard_normal((8, 2)), targets=rng.standard_normal(8), **more)


def test_groups_are_no_column_of_any_problem():
    with_groups, without = record(groups=GROUPS), record()
    assert list(with_groups) == ["features", "targets"]
    assert with_groups.groups.tolist() == GROUPS.tolist()
    assert (with_groups.chains.count, with_groups.chains.lengths) == (3, (4, 1, 3))
    np.testing.assert_array_equal(mr.GLM().fit_exactly(with_groups), mr.GLM().fit_exactly(without))
    assert without.chains is None
    assert without.groups is None


def test_groups_go_with_the_rows():
    buffer = record(groups=GROUPS)
    assert buffer[3:6].groups.tolist() == ["north", "south", "west"]
    assert buffer[3:6].chains.lengths == (1, 1, 1)
    assert pickle.loads(pickle.dumps(buffer)).groups.tolist() == GROUPS.tolist()


def test_groups_are_saved_with_the_record(tmp_path):
    record(groups=GROUPS).save(tmp_path / "saved")
    again = mr.Buffer.open(tmp_path / "saved")
    assert list(again) == ["features", "targets"]
    assert again.chains.lengths == (4, 1, 3)


def test_a_group_that_comes_back_is_refused_with_the_way_to_sort():
    with pytest.raises(mr.InputError, match=r"group a comes back at row 3 .* after b: sort .*np\.argsort\(groups"):
        mr.Buffer(targets=[1.0, 2.0, 3.0, 4.0], groups=["a", "a", "b", "a"])
    for labels in (["a", None, "b"], [1.0, np.nan, 2.0]):
        with pytest.raises(mr.InputError, match=r"groups has nothing at row 1"):
            mr.Buffer(targets=[1.0, 2.0, 3.0], groups=labels)
    assert mr.Buffer(targets=[1.0, 2.0, 3.0], groups=[("a"), 1, 2]).chains.count == 3
    with pytest.raises(mr.InputError, match=r"groups has shape \(2,\), but the record has 3 rows"):
        mr.Buffer(targets=[1.0, 2.0, 3.0], groups=[0, 1])
