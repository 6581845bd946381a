"""What a result keeps of its run."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import multireplay as mr
from multireplay.solving.fingerprint import fingerprint_of
from multireplay.solving.run import Lost


@pytest.fixture
def buffer():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((2**12, 3))
    return mr.Buffer(features=A, targets=A @ [1.0, -1.0, 0.5])


def test_the_record_is_kept_by_reference(buffer):
    problem = mr.GLM()
    recipe = mr.solve(problem, buffer, step=0.01, update=mr.Plain()).run
    assert recipe.buffer is buffer
    assert recipe.problem is problem
    assert recipe.rows == 2**12
    assert recipe.arguments["step"] == 0.01
    assert recipe.arguments["update"] == mr.Plain()
    assert recipe.arguments["replay"] is None  # as it was given, not what it became
    assert "progress" not in recipe.arguments


def test_a_held_out_run_keeps_the_whole_call(buffer):
    recipe = mr.solve(mr.GLM(), buffer, holdout=0.2).run
    assert recipe.buffer is buffer
    assert recipe.arguments["holdout"] == 0.2
    assert recipe.arguments["update"] is None


def test_a_pickled_result_leaves_the_record_behind(buffer):
    result = mr.solve(mr.GLM(link="logistic"), binary(buffer))
    stored = pickle.dumps(result)
    assert len(stored) < 10_000 < buffer["features"].nbytes
    again = pickle.loads(stored)
    assert np.array_equal(again.x, result.x)
    assert again.run.buffer is None
    assert again.run.rows == result.run.rows
    assert repr(again.run.problem) == "GLM(link='logistic')"


@pytest.mark.parametrize(
    "options", [{}, {"passes": 3}, {"replay": mr.Serial()}, {"holdout": 0.2}, {"backend": "batched"}]
)
def test_every_coordinate_has_a_name(buffer, options):
    assert mr.solve(mr.GLM(), buffer, **options).run.names == ("x[0]", "x[1]", "x[2]")
    named = mr.Buffer(**buffer.columns, names=["a", "b", "c"])
    result = mr.solve(mr.GLM(), named, **options)
    assert result.run.names == pickle.loads(pickle.dumps(result)).run.names == ("a", "b", "c")


def test_a_checkpoint_does_not_ask_for_names(buffer):
    named = mr.Buffer(**buffer.columns, names=["a", "b", "c"])
    one, other = (fingerprint_of(mr.solve(mr.GLM(), each).run) for each in (buffer, named))
    assert one == other


def binary(buffer):
    return mr.Buffer(features=buffer["features"], targets=(buffer["targets"] > 0).astype(float))


def test_what_cannot_be_pickled_does_not_stop_the_rest():
    problem = mr.VariationalInequality(lambda x, sample: x - sample, dim=2)

    class Local(mr.sets.Set):
        def project(self, x):
            x[:] = x.mean()

    buffer = mr.Buffer(samples=np.ones((50, 2)))
    result = mr.solve(problem, buffer, step=0.1, constraint=Local())
    again = pickle.loads(pickle.dumps(result))
    assert again.run.problem is None
    assert again.run.arguments["constraint"] == Lost("Local()")
    assert again.run.arguments["step"] == 0.1
    assert np.array_equal(copy.deepcopy(result).x, result.x)


def test_an_update_or_order_of_ones_own_does_not_stop_the_rest(buffer):
    class Backwards(mr.replay.Replay):
        def _epochs(self, length):
            return mr.Serial().plan(length)

    result = mr.solve(mr.GLM(), buffer, replay=Backwards(), step=0.01)
    again = pickle.loads(pickle.dumps(result))
    assert isinstance(again.run.replay, Lost)
    assert again.run.route == "steps"
