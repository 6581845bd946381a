"""What pages are written from: odd records (sparse, states with a table, on disk), and what was run, never a guess."""

from __future__ import annotations

import pickle
import re
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from scipy.signal import lfilter

import multireplay as mr
from multireplay.buffer.disk import StoredBuffer
from multireplay.report.blocks import Plot, TableBlock, Text
from multireplay.report.evidence import gather
from multireplay.report.rivals import Missing, path
from multireplay.report.sections import comparison, convergence, dependence, fit, repeat, replayed
from multireplay.result import Status

ROWS = 4096
TONES = {"finished": "good", "ran": "plain"}


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


@pytest.mark.parametrize("options", [{}, {"update": mr.VarianceReduced()}], ids=["exact", "rounds"])
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
    result = mr.solve(*dense(), update=mr.Newton())
    evidence = gather(result)
    corrections = len(result.epochs) - 1
    assert convergence.epoch_names(evidence) == [
        "coarse epoch",
        *(f"correction {i}" for i in range(1, corrections + 1)),
    ]
    assert evidence.uncertainty.errors is result.standard_error
    assert "Newton: a coarse epoch of 4,096 samples" in texts(replayed.section(evidence))
    assert "Step size of every epoch" not in [getattr(b, "title", "") for b in convergence.section(evidence).blocks]


def looks_of(section) -> list[object]:
    """What is on a tab, block by block: figures and rows as they are, without how long anything took."""
    looks: list[object] = []
    for block in section.blocks:
        if isinstance(block, Plot):
            looks.append((block.title, block.caption, block.figure.to_json()))
        elif isinstance(block, TableBlock):
            looks.append([{name: value for name, value in row.items() if name != "seconds"} for row in block.rows])
        else:
            looks.append(getattr(block, "text", block.kind))
    return looks


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"update": mr.Newton()},
        {"update": mr.VarianceReduced(rounds=2)},
        {"update": mr.VarianceReduced(), "replay": mr.Multiscale(epochs=3)},
        {"replay": mr.Multiscale(), "track": np.ones(6)},
        {"update": mr.RichardsonRomberg()},
        {"update": mr.Plain(), "backend": "batched"},
        {"holdout": 0.3},
    ],
    ids=repr,
)
def test_nothing_is_decided_by_the_status_sentence(options):
    result = mr.solve(*dense(), **options)
    told = [Status(result.status.code, text) for text in ("", "Newton, variance reduction, Dyadic, diverged, rounds")]
    for other in (replace(result, status=status) for status in told):
        first, second = gather(result, rivals=False), gather(other, rivals=False)
        for tab in (convergence, replayed, dependence, comparison, repeat):
            same = replace(second, ours=first.ours, exact=first.exact)  # but for their seconds
            assert looks_of(tab.section(same)) == looks_of(tab.section(first))
        said = next(block for block in fit.section(second).blocks if isinstance(block, Text))
        assert said == Text(str(other.status), tone=TONES.get(result.status.code, "beware"))
        assert looks_of(fit.section(same))[2:] == looks_of(fit.section(first))[2:]


def test_standard_errors_do_not_make_a_run_one_of_corrections():
    result = mr.solve(*dense(), replay=mr.Multiscale(), track=np.ones(6))
    told = gather(replace(result, images=mr.solve(*dense(), update=mr.Exact()).images))
    assert told.ours.steps.tolist() == [epoch.length for epoch in result.epochs]
    assert convergence.epoch_names(told) == [f"epoch {epoch.k}" for epoch in result.epochs]
    assert texts(replayed.section(told)).startswith("Multiscale: 12 epochs")


def test_a_page_names_the_order_that_ran(tmp_path):
    result = mr.solve(*dense(), backend="batched", update=mr.Plain())
    assert isinstance(result.run.replay, mr.Interleaved)
    page = result.report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert f'<p class="lead">Interleaved: one pass of {result.epochs[0].taken:,} steps' in page
    assert "Dyadic: " not in page
    (shown,) = [block for block in replayed.section(gather(result)).blocks if getattr(block, "height", 0) == 320]
    assert np.array_equal(shown.figure.data[0].y, result.run.replay.plan(ROWS)[0].positions[:512])


def test_rounds_that_diverged_are_still_rounds():
    problem, buffer = dense()
    result = mr.solve(problem, buffer, update=mr.VarianceReduced(rounds=1))
    lost = replace(result.epochs[-1], diverged=True)
    told = gather(replace(result, epochs=(result.epochs[0], lost), status=Status("diverged", "Diverged.")))
    assert convergence.epoch_names(told) == ["plain pass", "round 1"]
    assert "Then one round of variance reduction" in texts(replayed.section(told))


def counts(rows=ROWS):
    """A regression whose exact fit takes several steps, as (problem, buffer)."""
    rng = np.random.default_rng(3)
    A = rng.standard_normal((rows, 2))
    return mr.GLM("exp"), mr.Buffer(features=A, targets=rng.poisson(np.exp(A @ [1.0, -1.0])).astype(float))


@pytest.mark.parametrize(("made", "dim"), [(dense, 6), (counts, 2)])
def test_an_exact_fit_is_told_in_its_own_words(made, dim):
    result = mr.solve(*made(), track=np.ones(dim))
    assert result.run.route == "exact"
    told = gather(result)
    steps = len(result.epochs)
    assert (steps > 1) == (made is counts)
    assert convergence.epoch_names(told) == [*(f"Newton step {i}" for i in range(1, steps)), "exact fit"]
    assert texts(replayed.section(told)).startswith("Nothing was replayed")
    assert texts(comparison.section(told)).startswith("This run is the exact fit itself.")
    assert f"Why: {result.run.why}" in texts(convergence.section(told))
    (table,) = (block for block in convergence.section(told).blocks if isinstance(block, TableBlock))
    assert set(table.names) & {"gap", "step size"} == set()
    read, distances = path(result, fresh=0)
    assert read.tolist() == [ROWS * i for i in range(1, steps + 1)]
    assert distances[-1] == pytest.approx(np.linalg.norm(result.x - 1))


def test_a_fit_that_does_not_exist_is_to_beware_of(tmp_path):
    a = np.random.default_rng(4).standard_normal((500, 2))
    buffer = mr.Buffer(features=a, targets=(a[:, 0] > 0).astype(float))
    with pytest.warns(mr.ConvergenceWarning, match="separable"):
        result = mr.solve(mr.GLM("logistic"), buffer)
    told = gather(result)
    first = fit.section(told).blocks[0]
    assert first == Text(str(result.status), tone="beware")
    assert isinstance(told.uncertainty, Missing)
    assert not told.diverged
    assert "exact fit" not in convergence.epoch_names(told)
    assert "the run has not converged" in texts(convergence.section(told))
    page = result.report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert '<p class="beware">Not converged' in page
    assert "diverged" not in texts(comparison.section(told))


def test_rounds_that_have_not_converged_are_compared_and_not_called_diverged():
    with pytest.warns(mr.ConvergenceWarning):
        result = mr.solve(*dense(), step=1e-4)
    told = gather(result)
    facts = next(block for block in fit.section(told).blocks if hasattr(block, "facts")).facts
    (distance,) = (fact for fact in facts if fact.label == "distance to the exact fit")
    assert float(distance.value) == pytest.approx(result.distance, rel=0.1)
    assert "not as good as the exact fit" in texts(comparison.section(told))
    assert not any(row.get("note") == "diverged" for row in comparison.section(told).blocks[-2].rows)


def test_coordinates_of_which_nothing_is_known_go_by_their_names(tmp_path):
    problem, buffer = counts()
    A = np.column_stack([buffer["features"], np.zeros(ROWS)])
    result = mr.solve(problem, mr.Buffer(features=A, targets=buffer["targets"]))
    told = gather(result, names=["load", "heat", "broken"])
    assert told.exact.x is result.x  # of all solutions the one that was found
    assert "'broken' is never active" in texts(fit.section(told))
    page = result.report(tmp_path / "page.html", names=["load", "heat", "broken"]).read_text(encoding="utf-8")
    assert "Infinity" not in page[page.rindex("<script>") :]
    assert "the record says nothing of it" in page


@pytest.mark.parametrize("pickled", [False, True])
def test_a_page_has_the_names_of_the_buffer(pickled, tmp_path):
    rng = np.random.default_rng(42)
    A = lfilter([1.0], [1.0, -0.95], rng.standard_normal((ROWS, 2)), axis=0)
    A = np.column_stack([A, A[:, 1], np.zeros(ROWS)])
    buffer = mr.Buffer(features=A, targets=A[:, 0] + rng.standard_normal(ROWS), names=["temp", "hum", "wet", "<off>"])
    result = mr.solve(mr.GLM(), buffer)
    result = pickle.loads(pickle.dumps(result)) if pickled else result
    told = gather(result, buffer=buffer)
    first = fit.section(told)
    assert "'hum', 'wet' are combinations of one another" in texts(first)
    (table,) = (block for block in first.blocks if isinstance(block, TableBlock))
    assert {row["name"] for row in table.rows} == set(buffer.feature_names)
    assert set(next(block for block in first.blocks if isinstance(block, Plot)).figure.layout.yaxis.ticktext) == {
        "temp", "hum", "wet", "&lt;off&gt;"
    }  # fmt: skip
    assert told.diagnosis.slowest.label in ("temp", "hum", "wet")
    (table,) = (block for block in dependence.section(told).blocks if isinstance(block, TableBlock))
    assert next(row["at"] for row in table.rows if row["column"] == "features") in ("temp", "hum", "wet")
    assert table.rows[-1]["at"] in ("temp", "hum", "wet")
    page = result.report(tmp_path / "page.html", buffer=buffer).read_text(encoding="utf-8")
    shown = re.sub("<script.*?</script>", "", page, flags=re.DOTALL)  # which have Plotly in them
    assert "names=[&#39;temp&#39;" in shown
    for never in ("features[", "x[0]", "<off>"):
        assert never not in shown


def test_the_noisiest_coordinate_is_not_taken_for_another():
    """Of many coordinates some are looked at, and their places among those are not their own."""
    rng = np.random.default_rng(43)
    A, y = rng.standard_normal((2000, 40)), rng.standard_normal(2000)
    A[:, 39] = lfilter([1.0], [1.0, -0.95], rng.standard_normal(2000))
    noise = lfilter([1.0], [1.0, -0.95], y)
    told = gather(mr.solve(mr.GLM(), mr.Buffer(features=A, targets=noise)))
    (table,) = (block for block in dependence.section(told).blocks if isinstance(block, TableBlock))
    assert table.rows[-1]["at"] == "x[39]"


@pytest.mark.parametrize("options", [{}, {"replay": mr.Multiscale()}], ids=["newton", "multiscale"])
def test_a_record_on_disk_stays_there(options, tmp_path):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((150_000, 8))
    buffer = mr.Buffer(features=A, targets=A @ np.arange(8.0) + rng.standard_normal(150_000))
    np.savez(tmp_path / "record.npz", **buffer.columns)
    stored = mr.Buffer.open(tmp_path / "record.npz", memory="13 MB")
    assert isinstance(stored, StoredBuffer)
    result = mr.solve(mr.GLM(), stored, **options)
    stored.load = None
    evidence = gather(result)
    assert isinstance(evidence.exact, Missing)
    wanted = np.linalg.norm(mr.GLM().mean_operator(result.x, buffer.columns))
    assert evidence.residual.size == pytest.approx(wanted, rel=1e-6)
    page = result.report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "The record is on disk and this page loads none of it" in page
    assert "mr.Buffer.open(...)" in page
