"""Saved online runs: they go on bit for bit, and a file that is not one of them is refused and never run."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from own_operators import pull

import multireplay as mr
from multireplay import online_file

RNG = np.random.default_rng(7)
A = RNG.standard_normal((90, 2))
Y = A @ [1.0, -0.5] + 0.1 * RNG.standard_normal(90)
STATES = RNG.integers(0, 5, 91)
TABLE = RNG.standard_normal((5, 3))

REGRESSION = {"features": A, "targets": Y}
WEIGHTED = {**REGRESSION, "weights": RNG.random(90)}
LABELS = {"features": A.astype(np.float32), "targets": (Y > 0).astype(np.float32)}
TRANSITIONS = {"features": A[:-1], "next_features": A[1:], "rewards": Y[1:], "terminated": RNG.random(89) < 0.2}
INDEXED = {"states": STATES[:-1], "next_states": STATES[1:], "rewards": Y}
CONSTANTS = mr.theory.Constants(mu=1, L=1, L1=1, sigma=1, zeta=1, C_M=1, C_P=1, rho=0.5, D=1)
PRODUCT = mr.sets.Product((mr.sets.Box(-np.inf, [0.3]), 1), (mr.sets.NonNegative(), 1))


class Line(mr.sets.Set):
    """A set of the user's own: all coordinates alike."""

    def project(self, x):
        x[:] = x.mean()


class Halving(mr.steps.Schedule):
    """A schedule of the user's own."""

    def values(self, k, first, count):
        return np.full(count, 0.5**k)


def softened(z):
    return z / (1 + abs(z))


@pytest.mark.parametrize(
    ("problem", "data", "options"),
    [
        (mr.GLM(), REGRESSION, {}),
        (mr.GLM(), REGRESSION, {"step": mr.steps.Capped(mr.steps.Decaying(0.5, 3.0), 0.3), "average": "none"}),
        (mr.GLM(ridge=0.1, unpenalized=1), WEIGHTED, {"step": 0.1, "average": "weighted", "constraint": PRODUCT}),
        (mr.GLM("logistic", mr.sets.Ball(0.5, [0.1, 0.2])), LABELS, {"step": np.float32(0.25), "x0": [0.1, 0.1]}),
        (mr.GLM(), REGRESSION, {"step": mr.steps.Doubled(mr.steps.Theorem1(CONSTANTS)), "backend": "python"}),
        (mr.PolicyEvaluation(0.7, mr.sets.L1Ball(0.4)), TRANSITIONS, {"repeat_last": True, "epochs": 2, "average": 1}),
        (mr.PolicyEvaluation(0.7, table=TABLE), INDEXED, {"constraint": mr.sets.Halfspace([1.0, 2.0, 3.0], 0.5)}),
        (mr.PolicyEvaluation(0.7, table=sp.csr_array(TABLE)), INDEXED, {"average": "full"}),
        (mr.GLM(), REGRESSION, {"step": 500.0}),
        (mr.GLM(), REGRESSION, {"constraint": Line()}),
        (mr.GLM(), REGRESSION, {"step": Halving()}),
        (mr.GLM(softened), REGRESSION, {"step": 0.1}),
        (mr.VariationalInequality(pull, dim=2, constraint=Line()), {"samples": A}, {"step": 0.1}),
    ],
)
@pytest.mark.parametrize("at", [0, 3, 20, 22, 41, 80])
@pytest.mark.filterwarnings("ignore:.* samples were not used", "ignore::multireplay.DivergenceWarning")
def test_a_loaded_run_goes_on_bit_for_bit(problem, data, options, at, tmp_path):
    def part(rows):
        return {name: values[rows] for name, values in data.items()}

    straight, before = (mr.Online(problem, 16, **options) for _ in range(2))
    for run in (straight, before):
        if at:
            run.observe(**part(slice(0, at)))
    before.save(tmp_path / "run.mer")
    assert [path.name for path in tmp_path.iterdir()] == ["run.mer"]
    mine = {name: options[name] for name in ("step", "constraint") if isinstance(options.get(name), Halving | Line)}
    if problem.users_code:
        mine["problem"] = problem
    again = mr.Online.load(tmp_path / "run.mer", **mine)
    assert str(again) == str(before)
    again.save(tmp_path / "again.mer")
    assert (tmp_path / "again.mer").read_bytes() == (tmp_path / "run.mer").read_bytes()
    for run in (straight, again):
        run.observe(**part(slice(at, None)))
    assert str(again) == str(straight)
    assert again.x.tobytes() == straight.x.tobytes()
    assert again.iterate.tobytes() == straight.iterate.tobytes()
    assert [repr(epoch) for epoch in again.epochs] == [repr(epoch) for epoch in straight.epochs]
    for first, second in zip(again.epochs, straight.epochs, strict=True):
        assert (first.taken, first.last.tobytes()) == (second.taken, second.last.tobytes())
        assert (first.average.tobytes(), first.answer.tobytes()) == (second.average.tobytes(), second.answer.tobytes())


@pytest.fixture
def saved(tmp_path):
    run = mr.Online(mr.GLM(), 16, step=0.1)
    run.observe(features=A[:30], targets=Y[:30])
    run.save(tmp_path / "run.mer")
    return tmp_path / "run.mer"


@pytest.mark.parametrize(
    ("problem", "options", "missing"),
    [
        (mr.VariationalInequality(pull, dim=2), {}, "problem"),
        (mr.GLM(softened), {}, "problem"),
        (mr.GLM(constraint=Line()), {}, "problem"),
        (mr.GLM(), {"constraint": Line()}, "constraint"),
        (mr.GLM(), {"constraint": mr.sets.Product((Line(), 2))}, "constraint"),
        (mr.GLM(), {"step": mr.steps.Capped(Halving(), 0.1)}, "step"),
    ],
)
def test_what_is_the_users_own_is_asked_for(problem, options, missing, tmp_path):
    mr.Online(problem, 8, **{"step": 0.1, **options}).save(tmp_path / "run.mer")
    with pytest.raises(mr.InputError, match=rf"run.mer was saved with a {missing} of your own.*load\(path, {missing}="):
        mr.Online.load(tmp_path / "run.mer")


def test_another_problem_is_refused(saved):
    with pytest.raises(mr.InputError, match=r"run.mer was saved with a GLM as its problem, not PolicyEvaluation"):
        mr.Online.load(saved, problem=mr.PolicyEvaluation(0.5))
    run = mr.Online(mr.VariationalInequality(pull, dim=2), 16, step=0.1)
    run.observe(samples=A[:30])
    run.save(saved)
    with pytest.raises(mr.InputError, match="x has 2 coordinates in the file, and this problem has another dimension"):
        mr.Online.load(saved, problem=mr.VariationalInequality(lambda x, sample: x, dim=3))


def test_a_flipped_bit_is_refused(saved):
    good = saved.read_bytes()
    for place in np.random.default_rng(0).choice(len(good), 300):
        saved.write_bytes(good[:place] + bytes([good[place] ^ 4]) + good[place + 1 :])
        with pytest.raises(mr.InputError, match=r"run.mer is (damaged|not a saved online run)"):
            mr.Online.load(saved)


@pytest.mark.parametrize("length", [0, 10, 33, 40, 200, -1])
def test_a_torn_file_is_refused(saved, length):
    saved.write_bytes(saved.read_bytes()[:length])
    with pytest.raises(mr.InputError, match=r"run.mer is (damaged|not a saved online run)"):
        mr.Online.load(saved)


def test_an_older_file_says_why_it_cannot_be_loaded(saved):
    saved.write_bytes(b"multireplay online run, format 1\n" + pickle.dumps(saved))
    with pytest.raises(mr.InputError, match=r"run.mer was saved by an older version of multireplay as a pickle"):
        mr.Online.load(saved)


class Trap:
    def __reduce__(self):
        return os.mkdir, (f"{os.environ['PYTEST_TRAP']}",)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "[]",
        "{",
        json.dumps({"arguments": {}, "state": {"is": "Path", "with": {}}}),
        json.dumps({"arguments": {"problem": {"is": "GLM", "with": {"capacity": 3}}}, "state": {}}),
        json.dumps({"arguments": {"capacity": {"array": 7}}, "state": {}}),
    ],
)
def test_a_file_of_somebody_else_is_refused_and_runs_nothing(saved, tmp_path, monkeypatch, text):
    monkeypatch.setenv("PYTEST_TRAP", str(tmp_path / "sprung"))
    archive = io.BytesIO()
    np.savez(archive, text=np.array([Trap()], dtype=object) if text is None else np.array(text))
    content = archive.getvalue()
    saved.write_bytes(online_file._FIRST_LINE + hashlib.sha256(content).digest() + content)
    with pytest.raises(mr.InputError, match=r"run.mer is not a saved online run"):
        mr.Online.load(saved)
    assert not (tmp_path / "sprung").exists()


def test_saving_that_fails_leaves_the_old_file(saved, monkeypatch):
    def fail(*args):
        raise OSError("no space left")

    before = saved.read_bytes()
    run = mr.Online(mr.GLM(), 8, step=0.1)
    for name in ("replace", "fsync"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, fail)
            with pytest.raises(OSError, match="no space left"):
                run.save(saved)
        assert saved.read_bytes() == before
        assert [path.name for path in saved.parent.iterdir()] == ["run.mer"]
    with pytest.raises(mr.InputError, match="there is no folder"):
        run.save(saved.parent / "nowhere" / "run.mer")
