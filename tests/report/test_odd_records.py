"""Pages on records that are not dense arrays in memory: sparse columns, states with a table, files on disk."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import multireplay as mr
from multireplay.report.gather import gather
from multireplay.report.missing import Missing
from multireplay.report.sections import convergence, dependence, repeat, replayed

ROWS = 4096


def texts(section) -> str:
    return " ".join(block.text for block in section.blocks if hasattr(block, "text"))


def walk(states=6):
    rng = np.random.default_rng(0)
    steps = np.cumsum(rng.integers(-1, 2, ROWS + 1)) % states
    return steps, (steps[:-1] == 0).astype(float)


def sparse():
    steps, rewards = walk()
    table = scipy.sparse.eye_array(6, format="csr")
    return mr.PolicyEvaluation(0.8), mr.Buffer(
        features=table[steps[:-1]], next_features=table[steps[1:]], rewards=rewards
    )


def tabular():
    steps, rewards = walk()
    problem = mr.PolicyEvaluation(0.8, table=scipy.sparse.eye_array(6, format="csr"))
    return problem, mr.Buffer(states=steps[:-1], next_states=steps[1:], rewards=rewards)


def dense():
    steps, rewards = walk()
    return mr.PolicyEvaluation(0.8), mr.Buffer(
        features=np.eye(6)[steps[:-1]], next_features=np.eye(6)[steps[1:]], rewards=rewards
    )


@pytest.mark.parametrize("options", [{}, {"update": mr.VarianceReduced()}], ids=["newton", "rounds"])
@pytest.mark.parametrize("made", [sparse, tabular])
def test_pages_say_what_that_of_the_dense_record_does(made, options, tmp_path):
    result, same = mr.solve(*made(), **options), mr.solve(*dense(), **options)
    assert result.report(tmp_path / "page.html").stat().st_size > 10_000
    ours, theirs = gather(result), gather(same)
    np.testing.assert_allclose(ours.uncertainty.errors, theirs.uncertainty.errors, rtol=1e-4)
    np.testing.assert_allclose(ours.exact.x, theirs.exact.x)
    np.testing.assert_allclose(ours.operator, theirs.operator, atol=1e-6)
    assert ours.tau == pytest.approx(theirs.tau, rel=0.05)
    assert ours.residual.size == pytest.approx(theirs.residual.size, rel=1e-3, abs=1e-9)
    assert "Autocorrelation of the record" in [getattr(b, "title", "") for b in dependence.section(ours).blocks]
    program = repeat.section(ours).blocks[0].text
    assert "assert mr.report.fingerprint(buffer)" in program
    compile(program, "program", "exec")


def test_fingerprints_of_sparse_columns_tell_them_apart():
    _, buffer = sparse()
    moved = buffer["features"].copy()
    moved.indices[0] = (moved.indices[0] + 1) % 6
    other = mr.Buffer(**{**buffer.columns, "features": moved})
    assert mr.report.fingerprint(buffer) == mr.report.fingerprint(sparse()[1]) != mr.report.fingerprint(other)


def test_newton_runs_are_told_in_their_own_words():
    result = mr.solve(*dense())
    evidence = gather(result)
    corrections = len(result.epochs) - 1
    assert convergence.epoch_names(evidence) == [
        "coarse epoch",
        *(f"correction {i}" for i in range(1, corrections + 1)),
    ]
    assert evidence.uncertainty.errors is result.standard_error
    assert "Newton: a coarse epoch of 4,096 samples" in texts(replayed.section(evidence))
    assert "Step size of every epoch" not in [getattr(b, "title", "") for b in convergence.section(evidence).blocks]


@pytest.mark.parametrize("options", [{}, {"replay": mr.Multiscale()}], ids=["newton", "multiscale"])
def test_a_record_on_disk_stays_there(options, tmp_path):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((150_000, 8))
    buffer = mr.Buffer(features=A, targets=A @ np.arange(8.0) + rng.standard_normal(150_000))
    np.savez(tmp_path / "record.npz", **buffer.columns)
    stored = mr.Buffer.open(tmp_path / "record.npz", memory="13 MB")
    assert isinstance(stored, mr.StoredBuffer)
    result = mr.solve(mr.GLM(), stored, **options)
    stored.load = None
    evidence = gather(result)
    assert isinstance(evidence.exact, Missing)
    wanted = np.linalg.norm(mr.GLM().mean_operator(result.x, buffer.columns))
    assert evidence.residual.size == pytest.approx(wanted, rel=1e-6)
    page = result.report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "The record is on disk and this page loads none of it" in page
    assert "mr.Buffer.open(...)" in page
