"""Every problem × set × scheme on both engines, against each other and against a literal loop."""

from __future__ import annotations

import numpy as np
import pytest
from every_set import DIM, SETS, crossed
from own_operators import own_link, rotation
from reference import glm_operator, static_mer, td_operator

import multireplay as mr
from multireplay import sets

ROWS = 37


def make_data(dtype=np.float64):
    rng = np.random.default_rng(7)
    F = rng.standard_normal((ROWS + 1, DIM))
    return {
        "features": F[:-1].astype(dtype),
        "next_features": F[1:].astype(dtype),
        "rewards": rng.standard_normal(ROWS),
        "terminated": rng.random(ROWS) < 0.3,
        "targets": (rng.random(ROWS) < 0.5).astype(dtype),
        "samples": rng.standard_normal((ROWS, DIM)),
    }


PROBLEMS = {
    **{link: mr.GLM(link) for link in ("identity", "logistic", "probit", "exp", "softplus", "leaky_relu")},
    "own link": mr.GLM(own_link),
    "policy evaluation": mr.PolicyEvaluation(0.7),
    "own operator": mr.VariationalInequality(rotation, dim=DIM),
}
SCHEMES = [mr.Serial(), mr.Skip(3), mr.Multiscale(), mr.Dyadic(), mr.Uniform(1), mr.Shuffle(1), mr.Reverse(5, 1)]


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_engines_agree(problem):
    buffer = mr.Buffer(**make_data())
    track = mr.Track(np.linspace(-1, 1, DIM), at=[1, 5, 16, 30])
    for (name, feasible), scheme, average in crossed(SETS, SCHEMES, ("none", "weighted", 0.4)):
        options = {"replay": scheme, "step": 0.05, "average": average, "constraint": feasible, "track": track}
        runs = [mr.solve(problem, buffer, **options, backend=backend) for backend in ("python", "compiled")]
        for slow, fast in zip(runs[0].epochs, runs[1].epochs, strict=True):
            for one, other in [
                (slow.last, fast.last), (slow.average, fast.average), (slow.answer, fast.answer),
                (slow.curve.last, fast.curve.last), (slow.curve.average, fast.curve.average),
            ]:  # fmt: skip
                assert np.allclose(one, other, rtol=1e-10, atol=1e-10), (name, scheme, average)
        assert feasible.contains(runs[0].epochs[-1].last)
        assert runs[0].status == runs[1].status


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("backend", ["python", "compiled"])
@pytest.mark.parametrize("link", ["identity", "logistic", "exp"])
def test_glm_against_the_literal_algorithm(link, backend, dtype):
    data = make_data(dtype)
    buffer = mr.Buffer(features=data["features"], targets=data["targets"])
    result = mr.solve(mr.GLM(link), buffer, replay=mr.Multiscale(), step=0.1, average="full", backend=backend)
    samples = list(zip(data["features"].astype(float), data["targets"].astype(float), strict=True))
    expected = static_mer(samples, glm_operator(link), 0.1, 5, np.zeros(DIM))
    assert len(result.epochs) == len(expected)
    tolerance = 1e-10 if dtype == np.float64 else 1e-5
    for epoch, (last, average) in zip(result.epochs, expected, strict=True):
        assert np.allclose(epoch.last, last, rtol=tolerance, atol=tolerance)
        assert np.allclose(epoch.average, average, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("backend", ["python", "compiled"])
@pytest.mark.parametrize("ends", [False, True])
def test_policy_evaluation_against_the_literal_algorithm(backend, ends):
    data = make_data()
    names = ["features", "next_features", "rewards"] + ["terminated"] * ends
    buffer = mr.Buffer(**{name: data[name] for name in names})
    start = np.full(DIM, 0.2)

    def clip(x):
        return np.clip(x, -0.3, 0.3)

    result = mr.solve(
        mr.PolicyEvaluation(0.7), buffer, replay=mr.Multiscale(epochs=4), step=0.2, average="none", x0=start,
        constraint=sets.Box(-0.3, 0.3), backend=backend,
    )  # fmt: skip
    samples = list(zip(*(data[name] for name in names), strict=True))
    for epoch, (last, average) in zip(
        result.epochs, static_mer(samples, td_operator(0.7), 0.2, 4, start, clip), strict=True
    ):
        assert np.allclose(epoch.answer, last, rtol=1e-12)
        assert np.allclose(epoch.average, average, rtol=1e-12)


def test_strided_and_fortran_columns_give_the_same_numbers():
    data = make_data()
    wide = np.zeros((ROWS, 2 * DIM))
    wide[:, ::2] = data["features"]
    results = [
        mr.solve(mr.GLM(), mr.Buffer(features=features, targets=data["targets"]), step=0.05).x
        for features in (data["features"], wide[:, ::2], np.asfortranarray(data["features"]))
    ]
    assert np.allclose(results[0], results[1], rtol=1e-12)
    assert np.allclose(results[0], results[2], rtol=1e-12)


def test_long_runs_cross_block_boundaries():
    rng = np.random.default_rng(0)
    rows = 100_003
    A, y = rng.standard_normal((rows, 2)), rng.standard_normal(rows)
    buffer = mr.Buffer(features=A, targets=y)
    result = mr.solve(mr.GLM(), buffer, replay=mr.Serial(), step=0.01, average=0.25, track=[0.0, 0.0])
    x, kept = np.zeros(2), []
    for t in range(rows):
        x = x - 0.01 * A[t] * (A[t] @ x - y[t])
        if t >= rows - 25_001:
            kept.append(x)
    assert np.allclose(result.epochs[0].last, x, rtol=1e-9)
    assert np.allclose(result.x, np.mean(kept, axis=0), rtol=1e-9)
    assert result.epochs[0].curve.iterations.tolist() == [*(2**k for k in range(17)), rows]
