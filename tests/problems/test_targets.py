"""Targets outside the range of a link: refused, or taken when told so."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import multireplay as mr

MEANS = {"logistic": lambda z: 1 / (1 + np.exp(-z)), "exp": np.exp}
X = np.array([0.5, -0.7, 0.2])


def record(link, rows=4000, noise=0.5):
    rng = np.random.default_rng(11)
    A = rng.standard_normal((rows, 3))
    return mr.Buffer(features=A, targets=MEANS[link](A @ X) + noise * rng.standard_normal(rows))


@pytest.mark.parametrize(("link", "range_"), [("logistic", r"in \[0, 1\]"), ("exp", "of at least 0")])
def test_refused_unless_told_so(link, range_):
    buffer = record(link)
    with pytest.raises(mr.InputError, match=rf"'targets' holds .* {range_}; .*GLM\('{link}', check_targets=False\)"):
        mr.solve(mr.GLM(link), buffer)
    problem = mr.GLM(link, check_targets=False)
    exact = problem.fit_exactly(buffer)
    assert exact == pytest.approx(X, abs=0.12)
    assert problem.mean_operator(exact, problem.columns(buffer)) == pytest.approx(np.zeros(3), abs=1e-10)
    assert mr.solve(problem, buffer).x == pytest.approx(exact, abs=0.01)


@pytest.mark.parametrize("backend", ["compiled", "python"])
def test_steps_are_the_paper_s_operator(backend):
    buffer = record("logistic", rows=50)
    problem = mr.GLM("logistic", check_targets=False)
    x = np.zeros(3)
    for a, y in zip(buffer["features"], buffer["targets"], strict=True):
        x = x - 0.1 * a * (1 / (1 + np.exp(-a @ x)) - y)
    result = mr.solve(problem, buffer, replay=mr.Serial(), step=0.1, average="none", backend=backend)
    assert result.x == pytest.approx(x, abs=1e-12)


def test_intervals_hold_the_truth():
    error = mr.solve(mr.GLM("logistic", check_targets=False), record("logistic")).uncertainty.standard_error
    assert np.all(error > 0)


def test_large_targets_are_no_divergence():
    buffer = mr.Buffer(features=np.array([[1.0], [-1.0]] * 50), targets=np.tile([1e9, 1e9 + 0.5], 50))
    problem = mr.GLM("logistic", check_targets=False)
    assert np.isfinite(mr.solve(problem, buffer, replay=mr.Serial(), step=1e-9, average="none").x).all()


def test_no_root_is_said():
    """Where targets are beyond all values of the link the operator has no root."""
    A = np.abs(np.random.default_rng(12).standard_normal((500, 1))) + 0.1
    buffer, problem = mr.Buffer(features=A, targets=np.full(500, 1.5)), mr.GLM("logistic", check_targets=False)
    with pytest.raises(mr.InputError, match="no exact fit was found"):
        problem.fit_exactly(buffer)
    with pytest.warns(mr.ConvergenceWarning, match="there is no root"):
        assert not mr.solve(problem, buffer).converged


def test_written_and_read_again(tmp_path):
    problem = mr.GLM("logistic", ridge=0.1, check_targets=False)
    assert repr(problem) == "GLM(link='logistic', ridge=0.1, check_targets=False)"
    assert "check_targets" not in repr(mr.GLM("logistic"))
    assert pickle.loads(pickle.dumps(problem)).check_targets is False
    run = mr.Online(problem, 8, step=0.1)
    run.save(tmp_path / "run")
    assert mr.Online.load(tmp_path / "run").problem.check_targets is False


@pytest.mark.parametrize("wrong", ["no", None, 2])
def test_wrong_argument(wrong):
    with pytest.raises(mr.InputError, match="check_targets must be True or False"):
        mr.GLM("logistic", check_targets=wrong)
