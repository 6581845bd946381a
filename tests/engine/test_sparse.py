"""Sparse and indexed records: every problem, set, scheme and engine against the dense record and literal loops."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from every_set import crossed
from hypothesis import given, settings
from hypothesis import strategies as st
from own_operators import own_link
from reference import glm_operator, static_mer, td_operator
from sparse_records import DIM, kinds, random_rows, regression, transitions

import multireplay as mr
from multireplay import sets
from multireplay.engine import chains, readings
from multireplay.engine.kernels import sparse_loops
from multireplay.engine.sparse import SparseStepper
from multireplay.engine.stepper import Stepper
from multireplay.updates import precondition

KINDS = kinds()
SETS = {
    "whole space": sets.WholeSpace(),
    "ball": sets.Ball(0.3, center=np.full(DIM, 0.1)),
    "box": sets.Box(-0.1, 0.2),
    "simplex": sets.Simplex(),
    "product": sets.Product((sets.L1Ball(0.4), 2), (sets.NonNegative(), 3), (sets.WholeSpace(), 1)),
}
SCHEMES = [
    mr.Serial(), mr.Skip(3), mr.Multiscale(), mr.Multiscale(phases=3), mr.Multiscale(phases="all", sweep=True),
    mr.Dyadic(), mr.Uniform(1), mr.Shuffle(1), mr.Reverse(5, 1),
]  # fmt: skip


def same(one, other, rtol=1e-9):
    return np.allclose(one, other, rtol=rtol, atol=1e-12)


@pytest.mark.parametrize("pair", KINDS.values(), ids=KINDS)
def test_plain_steps_for_every_set_scheme_and_average(pair):
    (dense, dense_buffer), (other, buffer) = pair
    for (name, feasible), scheme, average in crossed(SETS, SCHEMES, ("none", "weighted", 0.4)):
        options = {"replay": scheme, "step": 0.05, "average": average, "constraint": feasible}
        expected, found = mr.solve(dense, dense_buffer, **options), mr.solve(other, buffer, **options)
        assert len(found.epochs) == len(expected.epochs)
        for one, two in zip(expected.epochs, found.epochs, strict=True):
            where = (name, scheme, average, one.k)
            assert same(two.last, one.last), where
            assert same(two.average, one.average), where
            assert (two.k, two.gap, two.taken) == (one.k, one.gap, one.taken), where
        assert found.passes == expected.passes
        assert feasible.contains(found.epochs[-1].last)


@pytest.mark.parametrize("pair", KINDS.values(), ids=KINDS)
def test_the_python_loop_agrees(pair):
    (dense, dense_buffer), (other, buffer) = pair
    for feasible, replay in itertools.product(
        (SETS["whole space"], SETS["ball"]), (mr.Multiscale(phases=2), mr.Dyadic())
    ):
        for update in (mr.Plain(), mr.VarianceReduced(rounds=1, precondition="auto")):
            options = {"replay": replay, "step": 0.05, "constraint": feasible, "update": update}
            expected = mr.solve(dense, dense_buffer, **options)
            assert same(mr.solve(other, buffer, **options, backend="python").x, expected.x)
            assert same(mr.solve(other, buffer, **options, backend="compiled").x, expected.x)


@pytest.mark.parametrize("pair", KINDS.values(), ids=KINDS)
def test_variance_reduction_for_every_set_scheme_and_rank(pair):
    (dense, dense_buffer), (other, buffer) = pair
    x0 = np.linspace(0.0, 0.1, DIM)
    for (name, feasible), scheme in itertools.product(SETS.items(), [*SCHEMES[:1], *SCHEMES[2:6]]):
        ranks = (None, 1, 3) if name == "whole space" else (None,)
        for rank in ranks:
            update = mr.VarianceReduced(rounds=2, precondition=rank)
            options = {"replay": scheme, "step": 0.05, "constraint": feasible, "update": update}
            options["x0"] = feasible.projected(x0)
            expected, found = mr.solve(dense, dense_buffer, **options), mr.solve(other, buffer, **options)
            for one, two in zip(expected.epochs, found.epochs, strict=True):
                assert same(two.last, one.last), (name, scheme, rank)
                assert same(two.answer, one.answer), (name, scheme, rank)
            assert found.passes == expected.passes


@pytest.mark.parametrize("pair", KINDS.values(), ids=KINDS)
def test_error_curves_are_those_of_the_dense_record(pair):
    (dense, dense_buffer), (other, buffer) = pair
    track = mr.Track(np.linspace(-1, 1, DIM), at=[1, 5, 16, 30])
    for replay in (mr.Multiscale(), mr.Dyadic()):
        options = {"replay": replay, "step": 0.05, "track": track, "update": mr.VarianceReduced(rounds=1)}
        expected, found = mr.solve(dense, dense_buffer, **options), mr.solve(other, buffer, **options)
        for one, two in zip(expected.epochs, found.epochs, strict=True):
            assert one.curve.iterations.tolist() == two.curve.iterations.tolist()
            assert same(two.curve.last, one.curve.last)
            assert same(two.curve.average, one.curve.average)


@pytest.mark.parametrize("link", ["identity", "logistic"])
def test_regression_against_the_literal_algorithm(link):
    _, (problem, buffer) = KINDS[f"GLM {link}"]
    samples = list(zip(buffer["features"].toarray(), buffer["targets"], strict=True))
    result = mr.solve(problem, buffer, replay=mr.Multiscale(), step=0.1, average="full")
    for epoch, (last, average) in zip(
        result.epochs, static_mer(samples, glm_operator(link), 0.1, 5, np.zeros(DIM)), strict=True
    ):
        assert same(epoch.last, last)
        assert same(epoch.average, average)


@pytest.mark.parametrize("name", ["table", "sparse table"])
def test_tables_against_the_literal_algorithm(name):
    problem, buffer = transitions()[name]
    table = problem.table.toarray() if sp.issparse(problem.table) else problem.table
    samples = list(
        zip(table[buffer["states"]], table[buffer["next_states"]], buffer["rewards"], buffer["terminated"], strict=True)
    )
    start = np.full(DIM, 0.2)
    result = mr.solve(problem, buffer, replay=mr.Multiscale(), step=0.2, average="full", x0=start)
    for epoch, (last, average) in zip(result.epochs, static_mer(samples, td_operator(0.7), 0.2, 5, start), strict=True):
        assert same(epoch.last, last)
        assert same(epoch.average, average)


@pytest.mark.parametrize("rank", [0, 2])
def test_variance_reduction_against_the_literal_algorithm(rank):
    problem, buffer = transitions(rows=300)["sparse"]
    A, then = buffer["features"].toarray(), buffer["next_features"].toarray()
    discounts = np.where(buffer["terminated"], 0.0, 0.7)
    P = np.eye(DIM)
    if rank:
        shortened = precondition.from_sample(buffer["features"], rank)
        P = P + (shortened.axes.T * shortened.stretch) @ shortened.axes
        assert not shortened.axes[:, DIM // 2].any()  # the empty column has no part in them

    def operator(x, i):
        return P @ A[i] * (A[i] @ x - buffer["rewards"][i] - discounts[i] * (then[i] @ x))

    order = mr.Dyadic().plan(300)[0].positions - 1
    x, iterates = np.zeros(DIM), []
    for i in order:
        x = x - 0.05 * operator(x, i)
        iterates.append(x)
    anchor = np.mean(iterates[-263:], axis=0)  # the last 7/8 of 300
    for _ in range(2):
        mean = np.mean([operator(anchor, i) for i in range(300)], axis=0)
        x, iterates = anchor, []
        for i in order:
            x = x - 0.05 * (operator(x, i) - operator(anchor, i) + mean)
            iterates.append(x)
        anchor = np.mean(iterates[-150:], axis=0)
    update = mr.VarianceReduced(rounds=2, precondition=rank or None)
    assert same(mr.solve(problem, buffer, step=0.05, update=update).x, anchor)


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 2**31),
    rows=st.sampled_from([1, 2, 3, 17, 50]),
    dim=st.sampled_from([1, 2, 5, 200]),
    density=st.sampled_from([0.0, 0.02, 0.3, 1.0]),
    rank=st.sampled_from([None, "auto"]),
)
def test_any_sparse_matrix_gives_the_dense_answer(seed, rows, dim, density, rank):
    rng = np.random.default_rng(seed)
    parts = [sp.random_array((rows, dim), density=density / 2, rng=rng, format="coo") for _ in range(2)]
    places = [np.concatenate([part.coords[k] for part in parts]) for k in (0, 1)]
    A = sp.coo_array((np.concatenate([part.data for part in parts]), places), shape=(rows, dim))  # with duplicates
    y = rng.standard_normal(rows)
    x0 = rng.standard_normal(dim)
    options = {"step": 0.1, "x0": x0, "update": mr.VarianceReduced(rounds=2, precondition=rank)}
    expected = mr.solve(mr.GLM(), mr.Buffer(features=A.toarray(), targets=y), **options)
    found = mr.solve(mr.GLM(), mr.Buffer(features=A, targets=y), **options)
    assert same(found.x, expected.x, rtol=1e-8)
    untouched = ~np.any(A.toarray() != 0, axis=0)
    assert np.array_equal(found.epochs[0].last[untouched], x0[untouched])
    assert np.allclose(found.x[untouched], x0[untouched], rtol=1e-15)  # averages of one number


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_single_precision_and_long_indices(dtype, index):
    A = random_rows(np.random.default_rng(0), 60, 5, dtype=dtype)
    sparse = sp.csr_array(A)
    sparse.indices, sparse.indptr = sparse.indices.astype(index), sparse.indptr.astype(index)
    y = np.random.default_rng(1).standard_normal(60)
    for update in (mr.Plain(), mr.VarianceReduced(rounds=1, precondition=None)):
        expected = mr.solve(mr.GLM(), mr.Buffer(features=A.astype(np.float64), targets=y), step=0.1, update=update)
        assert same(mr.solve(mr.GLM(), mr.Buffer(features=sparse, targets=y), step=0.1, update=update).x, expected.x)


@pytest.mark.parametrize("link", ["probit", "exp", "softplus", "leaky_relu", own_link, lambda z: z + 0.1 * z**3])
def test_every_link(link):
    pair = regression(link)
    for update in (mr.Plain(), mr.VarianceReduced(rounds=1, precondition=None)):
        slow = mr.solve(*pair["dense"], step=0.1, update=update, backend="python")
        assert same(mr.solve(*pair["sparse"], step=0.1, update=update).x, slow.x)


def test_only_the_nonzeros_are_read_and_written():
    """Coordinates that no row mentions may hold anything: a loop over all of them would spread it."""
    rng = np.random.default_rng(0)
    small = sp.csr_array(random_rows(rng, 50, 6))
    wide = sp.csr_array((small.data, 3 * small.indices + 1, small.indptr), shape=(50, 20))
    y = rng.standard_normal(50)
    buffer = mr.Buffer(features=wide, targets=y)
    problem = mr.GLM()
    samples = problem.samples(problem.columns(buffer))
    order, steps, weights = np.arange(1, 51), np.full(50, 0.1), np.ones(50)
    for shifts in (0, 4):
        state = np.full((20, 2 + shifts), np.nan)
        state[1::3] = 0.1
        before, weight, taken = state.copy(), np.zeros(1), np.zeros(1, dtype=np.int64)
        if shifts:
            around = True, np.full(2, -0.5), *(np.zeros(shifts) for _ in range(4))
            sparse_loops.advance_around(samples, order, steps, weights, 1e9, state, weight, *around, taken)
        else:
            sparse_loops.advance_plainly(samples, order, steps, weights, 1e9, state, weight, taken)
        assert taken[0] == 50
        mentioned = np.zeros(20, dtype=bool)
        mentioned[wide.indices] = True
        assert np.isfinite(state[mentioned]).all()
        assert not np.array_equal(state[mentioned], before[mentioned])
        assert state[~mentioned].tobytes() == before[~mentioned].tobytes()


def test_the_sum_is_worked_out_only_when_somebody_looks(monkeypatch):
    """A pass of many blocks must not cost O(d) a block."""
    settled = []
    original = SparseStepper.settle
    monkeypatch.setattr(SparseStepper, "settle", lambda self: settled.append(not self._settled) or original(self))
    rows, dim = 5 * 2**15, 200_000
    A = sp.csr_array((np.ones(rows), np.arange(rows) % dim, np.arange(rows + 1)), shape=(rows, dim))
    mr.solve(mr.GLM(), mr.Buffer(features=A, targets=np.ones(rows)), replay=mr.Dyadic(), step=0.1)
    assert sum(settled) == 1


def test_long_runs_cross_block_boundaries():
    pair = regression("identity", rows=70_001, dim=3)
    for update in (mr.Plain(), mr.VarianceReduced(rounds=1, precondition=1)):
        options = {"step": 0.02, "update": update, "average": 0.25, "track": np.zeros(3)}
        dense, sparse = (mr.solve(*pair[name], **options) for name in ("dense", "sparse"))
        assert same(sparse.x, dense.x)
        assert same(sparse.epochs[-1].curve.last, dense.epochs[-1].curve.last)


def test_chains_longer_than_a_block_and_shorter(monkeypatch):
    dense, sparse = (regression("identity", rows=101)[name] for name in ("dense", "sparse"))
    options = {"replay": mr.Multiscale(phases="all"), "step": 0.05, "x0": np.linspace(-1, 1, DIM)}
    expected = mr.solve(*dense, **options)
    for block in (chains.BLOCK, 8):
        monkeypatch.setattr(chains, "BLOCK", block)
        for one, two in zip(expected.epochs, mr.solve(*sparse, **options).epochs, strict=True):
            assert same(two.last, one.last)
            assert same(two.average, one.average)


@pytest.mark.parametrize("replay", [mr.Multiscale(), mr.Multiscale(phases="all"), mr.Dyadic()])
@pytest.mark.parametrize("feasible", [sets.WholeSpace(), sets.NonNegative()])
def test_divergence_is_noticed_where_the_dense_run_notices_it(replay, feasible, monkeypatch):
    pair = regression("identity", rows=200)
    options = {"replay": replay, "step": 50.0, "constraint": feasible, "average": "none"}
    with pytest.warns(mr.DivergenceWarning):
        sparse = mr.solve(*pair["sparse"], **options)
    with pytest.warns(mr.DivergenceWarning):
        dense = mr.solve(*pair["dense"], **options)
    assert [epoch.diverged for epoch in sparse.epochs] == [epoch.diverged for epoch in dense.epochs]
    # chains of dense rows one after the other, as those of sparse rows are
    monkeypatch.setattr(Stepper, "are_few", lambda self, planned, room: False)
    monkeypatch.setattr(readings, "_in_parts", lambda plan, ways, length: [])
    with pytest.warns(mr.DivergenceWarning):
        dense = mr.solve(*pair["dense"], **options)
    assert [epoch.diverged for epoch in sparse.epochs] == [epoch.diverged for epoch in dense.epochs]
    assert [epoch.taken for epoch in sparse.epochs] == [epoch.taken for epoch in dense.epochs]


def test_the_status_says_what_a_set_costs():
    problem, buffer = KINDS["GLM identity"][1]
    constrained = mr.solve(problem, buffer, step=0.05, constraint=sets.Ball(0.3))
    assert r"every step projects on Ball(radius=0.3), and so costs O(d) although the rows are sparse" in str(
        constrained.status
    )
    assert "O(d)" not in str(mr.solve(problem, buffer, step=0.05).status)
    dense = mr.solve(*KINDS["GLM identity"][0], step=0.05, constraint=sets.Ball(0.3))
    assert "O(d)" not in str(dense.status)


def test_the_default_chooses_the_same_preconditioner():
    rng = np.random.default_rng(0)
    A = np.where(rng.random((3000, 30)) < 0.3, 1.0 + 0.3 * rng.standard_normal((3000, 30)), 0.0)
    y = A @ rng.standard_normal(30) + rng.standard_normal(3000)
    buffers = [mr.Buffer(features=rows, targets=y) for rows in (A, sp.csr_array(A))]
    dense, sparse = (mr.solve(mr.GLM(), buffer, update=mr.VarianceReduced()) for buffer in buffers)
    assert "preconditioner of rank" in str(dense.status)
    assert str(sparse.status) == str(dense.status)
    assert same(sparse.x, dense.x)


def test_features_that_do_not_occur_are_not_called_ill_conditioned():
    rng = np.random.default_rng(0)
    A = np.zeros((4000, 5))
    A[:, :3] = rng.standard_normal((4000, 3))
    buffer = mr.Buffer(features=sp.csr_array(A), targets=A @ np.ones(5) + rng.standard_normal(4000))
    result = mr.solve(mr.GLM(), buffer)
    assert "ill-conditioned" not in str(result.status)
    assert result.free == ((3,), (4,))
    assert same(result.x[:3], np.linalg.lstsq(A[:, :3], buffer["targets"], rcond=None)[0])
    assert result.x[3:].tolist() == [0.0, 0.0]
    steps = mr.solve(mr.GLM(), buffer, update=mr.VarianceReduced())
    assert "ill-conditioned" not in str(steps.status)


@pytest.mark.parametrize("link", ["identity", "logistic"])
@pytest.mark.parametrize("update", [mr.Exact(), mr.Newton(corrections=4)], ids=["exact", "newton"])
def test_fits_are_those_of_the_dense_rows(link, update):
    """Coarse fits of dense rows are in single precision: corrections meet at the exact fit."""
    rng = np.random.default_rng(0)
    A = np.where(rng.random((9000, 5)) < 0.3, rng.standard_normal((9000, 5)), 0.0)
    y = (rng.random(9000) < 1 / (1 + np.exp(-A @ rng.standard_normal(5)))).astype(float)
    problem = mr.GLM(link)
    dense, sparse = (
        mr.solve(problem, mr.Buffer(features=rows, targets=y), update=update) for rows in (A, sp.csr_array(A))
    )
    assert sparse.converged
    assert dense.converged
    assert np.allclose(sparse.x, dense.x, rtol=1e-6)
    assert np.allclose(sparse.standard_error, dense.standard_error, rtol=0.03)
