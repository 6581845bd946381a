"""What solve does with arrays on a device when little is asked for: the order, variance reduction, holding out."""

from __future__ import annotations

import numpy as np
import pytest
from arrays_of import EVERY, device_array, torch_array
from scipy.signal import lfilter
from scipy.sparse import csr_array

import multireplay as mr
from multireplay.buffer.record import as_record
from multireplay.inference.residuals import standard_errors
from multireplay.solving.resolve import default_order
from multireplay.solving.resolve import over_batches as in_lanes

ROWS, DIM = 3000, 3


def dependent(rows=ROWS, dim=DIM):
    """Features that are autoregressive, with targets of both kinds and samples of their own."""
    rng = np.random.default_rng(5)
    F = lfilter([0.6], [1.0, -0.8], rng.standard_normal((rows + 1, dim)), axis=0)
    chances = 1 / (1 + np.exp(-F[:-1] @ np.linspace(-1, 1, dim)))
    return {
        "weights": rng.random(rows),
        "features": F[:-1],
        "next_features": F[1:],
        "rewards": F[:-1, 0] + 0.1 * rng.standard_normal(rows),
        "targets": (rng.random(rows) < chances).astype(float),
        "samples": F[1:] + 0.5,
    }


def buffer_of(library, **options):
    return mr.Buffer(**{name: library(column) for name, column in dependent(**options).items()})


def pull(x, sample):
    return x + 0.3 * np.tanh(x) - sample


def pull_rows(X, batch):
    xp = X.__array_namespace__() if hasattr(X, "__array_namespace__") else pytest.importorskip("torch")
    return X + 0.3 * xp.tanh(X) - batch


PROBLEMS = {
    "logistic": (mr.GLM("logistic", ridge=0.01, unpenalized=1), mr.GLM("logistic", ridge=0.01, unpenalized=1)),
    "policy evaluation": (mr.PolicyEvaluation(0.6, ridge=0.02), mr.PolicyEvaluation(0.6, ridge=0.02)),
    "own operator": (
        mr.VariationalInequality(pull, dim=DIM, lipschitz=1.3),
        mr.VariationalInequality(pull_rows, dim=DIM, lipschitz=1.3, batched=True),
    ),
}


@EVERY
@pytest.mark.parametrize("name", PROBLEMS)
def test_a_single_chain_with_variance_reduction_is_that_of_the_other_engines(name, library):
    one, batched = PROBLEMS[name]
    update = mr.VarianceReduced(rounds=2, precondition=None)
    for scheme in (mr.Dyadic(), mr.Multiscale(epochs=3)):
        for feasible in (mr.sets.WholeSpace(), mr.sets.Ball(0.3)):
            options = {"replay": scheme, "update": update, "constraint": feasible}
            expected = mr.solve(one, buffer_of(np.array, rows=60), **options)
            found = mr.solve(batched, buffer_of(library, rows=60), **options, backend="batched")
            assert len(found.epochs) == len(expected.epochs)
            for epoch, other in zip(found.epochs, expected.epochs, strict=True):
                assert np.allclose(epoch.last, other.last, rtol=1e-10, atol=1e-12)
                assert np.allclose(epoch.answer, other.answer, rtol=1e-10, atol=1e-12)
            assert found.passes == expected.passes


@EVERY
def test_a_round_in_lanes_against_a_literal_one(library):
    """Every chain from the anchor along F̃(x, ξ) − F̃(x̃, ξ) + F̂(x̃); the mean of the averages of their second halves."""
    rows = dependent(40)["samples"]
    replay = mr.Multiscale(epochs=3, phases="all")
    update = mr.VarianceReduced(rounds=1)
    problem = PROBLEMS["own operator"][1]
    result = mr.solve(problem, mr.Buffer(samples=library(rows)), replay=replay, update=update, step=0.2)
    anchor = result.epochs[int(np.argmin([epoch.residual for epoch in result.epochs[:3]]))].answer
    mean = np.mean([pull(anchor, row) for row in rows], axis=0)
    halves = []
    for j in range(5):
        x, iterates = anchor, []
        for t in range(1, 9):
            row = rows[t * 5 - j - 1]
            x = x - 0.2 * (pull(x, row) - pull(anchor, row) + mean)
            iterates.append(x)
        halves.append(np.mean(iterates[4:], axis=0))
    assert len(result.epochs) == 4
    assert np.allclose(result.x, np.mean(halves, axis=0), rtol=1e-12)
    assert result.passes == sum(epoch.taken for epoch in result.epochs) / 40 + 1


@EVERY
@pytest.mark.parametrize("update", [None, mr.VarianceReduced()])
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_default_comes_to_the_exact_fit(name, update, library):
    """By the route of NumPy arrays, of an operator of one's own too; by variance reduction where it is asked for."""
    one, batched = PROBLEMS[name]
    result = mr.solve(batched, buffer_of(library), update=update, backend="batched")
    here = buffer_of(np.array)
    exact = mr.solve(one, here, update=mr.Exact())
    off = np.abs(result.x - exact.x) / standard_errors(exact.images.values)  # as the distance is measured
    if update is None:
        assert result.run.route == mr.solve(one, here).run.route == "exact"
        assert result.converged
        assert off.max() < 1e-3
        assert np.allclose(result.standard_error, exact.standard_error, rtol=1e-3)
    else:
        assert "Interleaved(gap=11) with variance reduction" in str(result.status)
        assert result.distance == pytest.approx(off.max(), rel=0.3)
        assert result.status.ok == result.converged == (result.distance <= 0.1)
        assert off.max() < 0.5
    assert result.x.dtype == np.float64
    assert type(result.x) is np.ndarray


def test_default_order():
    def order(rows, problem=PROBLEMS["own operator"][1]):
        buffer = buffer_of(np.array, rows=rows)
        return default_order(as_record(in_lanes(problem, buffer, "auto"), buffer))

    assert order(2**16) == mr.Interleaved(gap=17)  # a prime: 16 would be in step with a period of 2, 4, 8 or 16
    assert order(2**14 + 5) == mr.Interleaved(gap=11)
    assert order(16) == mr.Interleaved(gap=11)
    assert order(15) == mr.Dyadic()
    assert order(2**14, PROBLEMS["own operator"][0]) == mr.Dyadic()
    mr.solve(mr.GLM("logistic"), buffer_of(np.array, rows=1), backend="batched")


def test_more_rounds_are_taken_in_lanes_where_one_does_not_arrive():
    here, slow = buffer_of(np.array), mr.GLM("logistic")
    counts = [
        len(mr.solve(slow, here, replay=mr.Multiscale(epochs=depth, phases="all"), update=mr.VarianceReduced(),
                     backend="batched").epochs) - depth
        for depth in (2, 8)
    ]  # fmt: skip
    assert counts[0] == 8 > counts[1]
    short = mr.Multiscale(epochs=1, phases="all")
    status = mr.solve(slow, here, replay=short, update=mr.VarianceReduced(), backend="batched").status
    assert "ill-conditioned: a round" in str(status)


@EVERY
def test_other_ways_to_run(library):
    options = {"replay": mr.Multiscale(epochs=3, phases="all"), "step": 0.1}
    problem = mr.GLM("logistic")
    for more in ({"update": mr.RichardsonRomberg()}, {"holdout": 0.25}):
        found = mr.solve(problem, buffer_of(library, rows=120), **options, **more, backend="batched")
        expected = mr.solve(problem, buffer_of(np.array, rows=120), **options, **more, backend="compiled")
        if "update" in more:
            assert np.allclose(found.x, expected.x, rtol=1e-12)
        else:  # the candidates with plain steps are the same
            plain = [[row for row in run.candidates.rows if "Plain" in row["update"]] for run in (found, expected)]
            assert [row["loss on the held-out block"] for row in plain[0]] == [
                row["loss on the held-out block"] for row in plain[1]
            ]


def test_a_crowded_regression_is_held_out_by_default_here_too():
    crowded = buffer_of(np.array, rows=240, dim=15)
    assert mr.solve(mr.GLM("logistic"), crowded, backend="batched").candidates is not None


@pytest.mark.parametrize("library", [torch_array, device_array])
def test_the_rest_of_the_package_reads_such_columns_through_numpy(library, tmp_path):
    here, there = buffer_of(np.array), buffer_of(library)
    for problem in (mr.GLM("logistic"), mr.PolicyEvaluation(0.6)):
        assert np.array_equal(problem.fit_exactly(there), problem.fit_exactly(here))
    assert str(mr.diagnose(there)) == str(mr.diagnose(here))
    there.save(tmp_path / "record")
    assert np.array_equal(mr.Buffer.open(tmp_path / "record")["features"], here["features"])
    assert here.to_numpy() is here
    result = mr.solve(mr.GLM("logistic"), there, replay=mr.Interleaved(8), step=0.1)
    assert result.report(tmp_path / "page.html", exact=False, rivals=False).exists()
    options = {"replay": mr.Serial(), "step": 0.01}
    for backend in ("python", "compiled"):
        found, expected = (mr.solve(mr.GLM(), buffer[:200], **options, backend=backend).x for buffer in (there, here))
        assert np.array_equal(found, expected)
    x0 = library(np.ones(DIM))
    found = mr.solve(mr.GLM(), there, replay=mr.Skip(100), step=0.01, x0=x0, track=x0)
    expected = mr.solve(mr.GLM(), here, replay=mr.Skip(100), step=0.01, x0=np.ones(DIM), track=np.ones(DIM))
    assert np.allclose(found.x, expected.x, rtol=1e-12)
    run, other = mr.Online(mr.GLM(), capacity=8, step=0.1), mr.Online(mr.GLM(), capacity=8, step=0.1)
    for t in range(14):
        run.observe(features=there["features"][t, :], targets=there["targets"][t])
        other.observe(features=here["features"][t], targets=here["targets"][t])
    assert np.array_equal(run.x, other.x)


def test_features_of_uneven_size_are_warned_of():
    data = dependent()
    data["features"] *= [1.0, 1.0, 1000.0]
    with pytest.warns(UserWarning, match="features differ in size by a factor of"):
        mr.solve(
            mr.GLM(), mr.Buffer(**{name: device_array(column) for name, column in data.items()}), update=mr.Plain()
        )


def test_what_is_not_for_lanes_says_so(tmp_path):
    data = dependent(1000)
    batched = PROBLEMS["own operator"][1]
    mr.Buffer(**{name: data[name] for name in ("samples", "features", "targets")}).save(tmp_path / "record")
    stored = mr.Buffer.open(tmp_path / "record", memory=80_000)
    assert isinstance(stored, mr.StoredBuffer)
    options = {"replay": mr.Multiscale(epochs=3), "step": 0.1}
    with pytest.raises(mr.InputError, match=r"backend='batched' needs a buffer in memory: buffer\.load\(\)"):
        mr.solve(mr.GLM(), stored, **options, backend="batched")
    for backend in ("auto", "batched"):
        with pytest.raises(mr.InputError, match=r"over batches .* buffer\.load\(\), or write the operator for one row"):
            mr.solve(batched, stored, **options, backend=backend)
    sparse = mr.Buffer(features=csr_array(data["features"]), targets=data["targets"])
    with pytest.raises(mr.InputError, match="backend='batched' needs dense columns, and 'features' is sparse"):
        mr.solve(mr.GLM(), sparse, **options, backend="batched")
    states = {"states": np.arange(1000) % 3, "next_states": np.arange(1, 1001) % 3, "rewards": data["rewards"]}
    table = mr.PolicyEvaluation(0.5, table=np.eye(3))
    with pytest.raises(mr.InputError, match=r"a column on array_api_strict .*, which PolicyEvaluation\(gamma=0\.5"):
        mr.solve(table, mr.Buffer(**{name: device_array(column) for name, column in states.items()}), **options)
    there = mr.Buffer(**{name: torch_array(column) for name, column in states.items()})
    assert np.array_equal(mr.solve(table, there).x, mr.solve(table, mr.Buffer(**states)).x)
    with pytest.raises(mr.InputError, match=r"checkpoint=\.\.\. is for passes in order"):
        mr.solve(batched, stored.load(), **options, checkpoint=tmp_path / "kept")


def test_several_step_sizes_compete():
    options = {"replay": mr.Multiscale(epochs=5, phases="all"), "step": (0.3, 0.03)}
    found = mr.solve(mr.GLM("logistic"), buffer_of(device_array, rows=200), **options)
    expected = mr.solve(mr.GLM("logistic"), buffer_of(np.array, rows=200), **options)
    assert (len(found.epochs), found.chosen) == (len(expected.epochs), expected.chosen)
    assert np.allclose(found.x, expected.x, rtol=1e-12)


def test_a_gap_in_step_with_the_record_is_noticed():
    """Every chain sees one kind of sample alone, and with long steps goes to where that kind wants it."""
    rng = np.random.default_rng(0)
    angles = 2 * np.pi * np.arange(2000) / 8
    A = np.column_stack([np.cos(angles), np.sin(angles)]) + 0.01 * rng.standard_normal((2000, 2))
    y = 1.0 / (1.0 + np.exp(-A @ [4.0, -4.0]))
    options = {"replay": mr.Interleaved(8), "update": mr.VarianceReduced(rounds=3), "step": 4.0}
    result = mr.solve(mr.GLM("logistic"), mr.Buffer(features=A, targets=y), **options, backend="batched")
    assert "round 2 got nowhere and was left out: try another gap" in str(result.status)
    columns = {"features": A, "targets": y}
    before, after = (np.linalg.norm(mr.GLM("logistic").mean_operator(epoch.answer, columns)) for epoch in result.epochs)
    assert after < before
    assert np.array_equal(result.x, result.epochs[1].answer)
