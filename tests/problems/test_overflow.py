"""Features whose squares are beyond the range of numbers get a sentence."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse

import multireplay as mr

ROWS = 600


def records(scale):
    rng = np.random.default_rng(200)
    features = rng.standard_normal((ROWS + 1, 3)) * [1.0, scale, 1.0]
    now, targets = features[:-1], rng.standard_normal(ROWS)
    transitions = {"features": now, "next_features": features[1:], "rewards": targets}
    return {
        "linear": (mr.GLM(), mr.Buffer(features=now, targets=targets)),
        "logistic": (mr.GLM("logistic"), mr.Buffer(features=now, targets=(targets > 0) * 1.0)),
        "box": (mr.GLM(constraint=mr.sets.Box(-1, 1)), mr.Buffer(features=now, targets=targets)),
        "sparse": (mr.GLM(), mr.Buffer(features=scipy.sparse.csr_array(now), targets=targets)),
        "transitions": (mr.PolicyEvaluation(0.9), mr.Buffer(**transitions)),
    }


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("how", [{}, {"passes": 3}, {"replay": mr.Multiscale()}, {"backend": "batched"}], ids=str)
@pytest.mark.parametrize("kind", records(1.0))
def test_such_a_feature_is_named(kind, how):
    problem, buffer = records(1e200)[kind]
    if kind == "sparse" and how.get("backend"):
        pytest.skip("not for sparse columns")
    with pytest.raises(mr.InputError, match=r"feature 1 .* has values of up to \d.*e\+200, .*divide its column"):
        mr.solve(problem, buffer, **how)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", ["linear", "transitions"])
def test_nothing_else_is_said_before(kind):
    with pytest.raises(mr.InputError, match="divide its column"):
        mr.solve(*records(1e200)[kind])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_exact_fits_do_without_the_squares_or_say_so():
    for kind, (problem, buffer) in records(1e200).items():
        if kind in ("box", "transitions"):
            with pytest.raises(mr.InputError, match=r"feature 1 .*divide its column"):
                problem.fit_exactly(buffer)
            continue
        small, columns = records(1.0)[kind]
        assert np.allclose(problem.fit_exactly(buffer) * [1.0, 1e200, 1.0], small.fit_exactly(columns), rtol=1e-6)
    with pytest.raises(mr.InputError, match=r"feature 1 .* beyond the range of float64"):
        mr.solve(*records(1e200)["linear"], update=mr.Exact())


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "how", [{}, {"passes": 3}, {"replay": mr.Multiscale()}, {"holdout": 0.2}, {"update": mr.Exact()}]
)
@pytest.mark.parametrize("kind", records(1.0))
def test_it_goes_by_its_name_where_it_has_one(kind, how):
    problem, buffer = records(1e200)[kind]
    named = mr.Buffer(**buffer.columns, names=["temp", "hum", "sun"])
    with pytest.raises(mr.InputError, match=r"^feature 'hum' has values of up to") as error:
        mr.solve(problem, named, **how)
    assert str(pickle.loads(pickle.dumps(error.value))) == str(error.value)
    if kind in ("box", "transitions"):
        with pytest.raises(mr.InputError, match=r"^feature 'hum' has values of up to"):
            problem.fit_exactly(named)


def test_so_does_one_that_is_too_small():
    rng = np.random.default_rng(201)
    A = rng.standard_normal((ROWS, 3)) * [1.0, 1e-200, 1.0]
    columns = {"features": A, "targets": A[:, 0]}
    for names, called in ((None, r"1 \(counting from 0\)"), (["temp", "hum", "sun"], "'hum'")):
        with pytest.raises(mr.InputError, match=rf"^feature {called} has values of at most .* multiply its column"):
            mr.solve(mr.GLM(), mr.Buffer(**columns, names=names))


def test_large_features_that_can_be_squared_are_fine():
    problem, buffer = records(1e100)["linear"]
    small = mr.GLM().fit_exactly(records(1.0)["linear"][1])
    assert np.allclose(mr.solve(problem, buffer).x * [1.0, 1e100, 1.0], small, rtol=1e-3)
