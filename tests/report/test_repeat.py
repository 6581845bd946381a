"""The program on the page repeats the run, number by number."""

from __future__ import annotations

import numpy as np
import pytest

import multireplay as mr
from multireplay.report.sections.repeat import Writer, fingerprint, script

RNG = np.random.default_rng(0)
A = RNG.standard_normal((512, 3)).astype(np.float32)
Y = (RNG.random(512) < 0.5).astype(float)


def record():
    return mr.Buffer(features=A, targets=Y)


def cube(z):
    return z**3 / 10


RUNS = {
    "default": {},
    "the paper": {"replay": mr.Multiscale(phases=2, sweep=True), "step": 0.03, "track": [0.1, 1 / 3, -2e-7]},
    "seeded": {"replay": mr.Uniform(7), "average": "none"},
    "reverse": {"replay": mr.Reverse(block=20, gap=3), "average": 0.25},
    "a schedule": {"step": mr.steps.Capped(mr.steps.Decaying(mu=0.3, t0=7.5), cap=0.05)},
    "theorem 1": {
        "step": mr.steps.Theorem1(mr.theory.Constants(mu=1, L=2, L1=3, sigma=1, zeta=1, C_M=1, C_P=1, rho=0.5, D=1)),
        "replay": mr.Multiscale(epochs=5),
    },
    "a start": {"x0": np.array([0.1, 0.2, 0.3]), "passes": 3},
    "rounds": {"update": mr.VarianceReduced(rounds=1, precondition=None), "backend": "python"},
    "a ball": {"constraint": mr.sets.Ball(0.1, center=[0.1, 0.0, 1 / 3])},
    "a box": {"constraint": mr.sets.Box(-np.inf, [0.1, 0.2, np.inf])},
    "a product": {"constraint": mr.sets.Product((mr.sets.Simplex(), 2), (mr.sets.NonNegative(), 1))},
    "weighted": {"track": mr.Track([1.0, 0.0, 0.0], at=[1, 4], weight=np.eye(3))},
    "held out": {"holdout": 0.25},
}


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize(
    "problem", [mr.GLM(), mr.GLM(link="logistic", constraint=mr.sets.Ball(2.0))], ids=["ls", "ball"]
)
def test_the_program_repeats_the_run(name, problem):
    result = mr.solve(problem, record(), **RUNS[name])
    program = script(result, result.run)
    space = {"features": A, "targets": Y, "print": lambda *words: None}
    exec(program, space)
    assert np.array_equal(space["result"].x, result.x)
    assert repr(space["problem"]) == repr(problem)
    assert space["problem"].constraint == problem.constraint


@pytest.mark.parametrize("width", [3, 40])
def test_the_program_has_the_names(width):
    wide, names = RNG.standard_normal((900, width)), [f"it's {i}" for i in range(width)]
    result = mr.solve(mr.GLM(), mr.Buffer(features=wide, targets=wide[:, 0], names=names))
    space = {"features": wide, "targets": wide[:, 0], "names": names, "print": lambda *words: None}
    exec(script(result, result.run), space)
    assert space["result"].run.names == tuple(names)


def test_policy_evaluation_keeps_its_discount_in_full():
    buffer = mr.Buffer(features=A[:-1], next_features=A[1:], rewards=Y[:-1], terminated=Y[:-1] > 0)
    result = mr.solve(mr.PolicyEvaluation(gamma=1 / 3), buffer)
    space = {"features": A[:-1], "next_features": A[1:], "rewards": Y[:-1], "terminated": Y[:-1] > 0}
    exec(script(result, result.run), {**space, "print": lambda *words: None, "np": np})
    assert "gamma=0.3333333333333333)" in script(result, result.run)


def test_users_code_is_asked_for_by_name():
    problem = mr.GLM(link=cube, lipschitz=10.0)
    result = mr.solve(problem, record(), step=0.001)
    program = script(result, result.run)
    assert "problem = mr.GLM(link=cube, lipschitz=10.0)" in program
    assert "#   cube: your function" in program
    space = {"features": A, "targets": Y, "cube": cube, "print": lambda *words: None}
    exec(program, space)
    assert np.array_equal(space["result"].x, result.x)


def test_long_arrays_are_asked_for():
    writer = Writer()
    assert writer.text("x0", np.arange(100.0)) == "x0"
    assert writer.asked == {"x0": "an array of shape (100,)"}
    assert writer.text("x0", np.array([1.5, -np.inf])) == "np.array([1.5, -np.inf])"


def test_another_record_is_refused():
    result = mr.solve(mr.GLM(), record())
    other = A.copy()
    other[17, 1] += 1e-6
    with pytest.raises(AssertionError):
        exec(script(result, result.run), {"features": other, "targets": Y})


def test_the_fingerprint_sees_order_names_and_values_but_not_memory():
    first = fingerprint(record())
    assert first == fingerprint(mr.Buffer(features=np.asfortranarray(A), targets=Y.copy()))
    assert first == fingerprint(mr.Buffer(features=A.astype(">f4"), targets=Y))
    assert first != fingerprint(record()[::-1])
    assert first != fingerprint(mr.Buffer(features=A, rewards=Y))
    assert first != fingerprint(mr.Buffer(features=A.astype(np.float64), targets=Y))
