"""The exact fit as an update: the same as `fit_exactly`, in memory and on disk, with standard errors."""

from __future__ import annotations

import numpy as np
import pytest
from disk_records import record, stored

import multireplay as mr

PROBLEMS = {
    "linear": mr.GLM(),
    "ridge": mr.GLM(ridge=0.1, unpenalized=1),
    "policy evaluation": mr.PolicyEvaluation(0.9),
    "logistic": mr.GLM("logistic"),
    "exp": mr.GLM("exp"),
}


@pytest.fixture(scope="module")
def buffer():
    return record(20_000, 5)


@pytest.mark.parametrize("name", PROBLEMS)
def test_it_is_the_exact_fit(buffer, name):
    problem = PROBLEMS[name]
    result = mr.solve(problem, buffer, update=mr.Exact())
    assert np.allclose(result.x, problem.fit_exactly(buffer), rtol=1e-8)
    assert result.run.route == "exact"
    assert result.run.replay is None
    near = mr.solve(problem, buffer, update=mr.Newton(4))
    assert np.allclose(result.standard_error, near.standard_error, rtol=0.1)


@pytest.mark.parametrize("name", ["linear", "ridge", "policy evaluation"])
def test_on_disk_to_the_last_bit(buffer, tmp_path, name):
    disk = stored(tmp_path, buffer)
    one, *others = [
        mr.solve(PROBLEMS[name], where, update=mr.Exact(), threads=threads)
        for where in (buffer, disk)
        for threads in (1, 2)
    ]
    for other in others:
        assert one.x.tobytes() == other.x.tobytes()
        assert one.standard_error.tobytes() == other.standard_error.tobytes()


def test_on_a_feasible_set(buffer):
    result = mr.solve(mr.GLM(), buffer, update=mr.Exact(), constraint=mr.sets.NonNegative())
    assert np.allclose(result.x, mr.GLM(constraint=mr.sets.NonNegative()).fit_exactly(buffer))
    assert result.standard_error is None


def test_where_it_cannot_be_had_it_says_so(buffer, tmp_path):
    with pytest.raises(mr.InputError, match=r"leave replay=\.\.\. out"):
        mr.solve(mr.GLM(), buffer, update=mr.Exact(), replay=mr.Serial())
    for update in (mr.Exact(), mr.Newton()):
        for options, about in (({"step": 0.1}, "takes no steps"), ({"precision": "float32"}, "works in float64")):
            with pytest.raises(mr.InputError, match=about):
                mr.solve(mr.GLM(), buffer, update=update, **options)
    with pytest.raises(mr.InputError, match="needs the record in memory"):
        mr.solve(mr.GLM("logistic"), stored(tmp_path, buffer), update=mr.Exact())
    with pytest.raises(mr.InputError, match="no exact solution in closed form"):
        mr.solve(mr.VariationalInequality(lambda x, s: x - s, dim=2), buffer, update=mr.Exact())
    separable = mr.Buffer(features=np.linspace(-1, 1, 200)[:, None], targets=(np.linspace(-1, 1, 200) > 0) * 1.0)
    with pytest.raises(mr.InputError, match="separable"):
        mr.solve(mr.GLM("logistic"), separable, update=mr.Exact())
