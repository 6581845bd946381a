"""Feature tables, sparse features, and the mistakes one can make with them."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sparse_records import DIM, kinds, regression, transitions

import multireplay as mr
from multireplay.engine import make_stepper
from multireplay.engine.stepper import Preconditioner

KINDS = kinds()
TABLE = np.arange(6.0).reshape(3, 2)
GOOD = {"states": np.array([0, 1, 2]), "next_states": np.array([1, 2, 0]), "rewards": np.ones(3)}


@pytest.mark.parametrize("pair", KINDS.values(), ids=KINDS)
def test_what_a_problem_knows_is_what_it_knows_of_the_dense_rows(pair):
    (dense, dense_buffer), (other, buffer) = pair
    rng = np.random.default_rng(0)
    x, x0 = rng.standard_normal(DIM), rng.standard_normal(DIM)
    columns, other_columns = dense.columns(dense_buffer), other.columns(buffer)
    samples, other_samples = dense.samples(columns), other.samples(other_columns)
    assert other.dim(other_columns) == DIM
    assert other.lipschitz(other_samples) == pytest.approx(dense.lipschitz(samples), rel=1e-14)
    assert np.allclose(other.mean_operator(x, other_columns), dense.mean_operator(x, columns), rtol=1e-12)
    assert np.allclose(other.curvature(x, other_columns), dense.curvature(x, columns), rtol=1e-12)
    loss = dense.loss(x, columns)
    assert other.loss(x, other_columns) == (None if loss is None else pytest.approx(loss, rel=1e-12))
    for start in (np.zeros(DIM), x0):
        assert other.limit(other_samples, start) == pytest.approx(dense.limit(samples, start), rel=1e-12)
    for row in range(len(buffer)):
        assert np.allclose(other.operator(x, other_samples, row), dense.operator(x, samples, row), rtol=1e-12)


@pytest.mark.parametrize("pair", KINDS.values(), ids=KINDS)
def test_a_record_of_one_row(pair):
    (dense, dense_buffer), (other, buffer) = pair
    options = {"step": 0.1, "passes": 3, "x0": np.ones(DIM)}
    expected = mr.solve(dense, dense_buffer[:1], **options).x
    assert np.allclose(mr.solve(other, buffer[:1], **options).x, expected, rtol=1e-12)


def test_a_problem_with_a_table_pickles_and_says_so():
    problem = mr.PolicyEvaluation(0.5, table=sp.csr_array(TABLE))
    copy = pickle.loads(pickle.dumps(problem))
    assert repr(copy) == "PolicyEvaluation(gamma=0.5, table of shape (3, 2))"
    assert np.array_equal(copy.fit_exactly(mr.Buffer(**GOOD)), problem.fit_exactly(mr.Buffer(**GOOD)))


def test_names_are_those_of_the_table_or_of_the_buffer():
    states = np.arange(101) % 2
    columns = {"states": states[:-1], "next_states": states[1:], "rewards": 1.0 - states[:-1]}
    plain, named = np.eye(2), pd.DataFrame(np.eye(2), columns=["first", "second"])
    assert mr.solve(mr.PolicyEvaluation(0.5, table=plain), mr.Buffer(**columns)).run.names == ("x[0]", "x[1]")
    for table, names in ((named, None), (plain, ["first", "second"])):
        result = mr.solve(mr.PolicyEvaluation(0.5, table=table), mr.Buffer(**columns, names=names))
        assert result.run.names == ("first", "second")
        assert np.allclose(result.x, [4 / 3, 2 / 3])
    with pytest.raises(mr.InputError, match="the buffer has 3 names, but x has 2 coordinates"):
        mr.solve(mr.PolicyEvaluation(0.5, table=plain), mr.Buffer(**columns, names=["a", "b", "c"]))


def test_a_table_of_indicators_is_a_value_for_every_state():
    """v = (I − γP)⁻¹ r of the empirical chain."""
    rng = np.random.default_rng(0)
    s = rng.integers(0, 5, 400)
    buffer = mr.Buffer(states=s[:-1], next_states=s[1:], rewards=s[:-1] ** 2)
    counts = np.zeros((5, 5))
    np.add.at(counts, (s[:-1], s[1:]), 1)
    P = counts / counts.sum(axis=1, keepdims=True)
    expected = np.linalg.solve(np.eye(5) - 0.9 * P, np.arange(5.0) ** 2)
    for table in (np.eye(5, dtype=bool), sp.eye_array(5, format="csr"), sp.eye_array(5, dtype=np.float32)):
        assert np.allclose(mr.PolicyEvaluation(0.9, table=table).fit_exactly(buffer), expected)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int32, np.uint64])
def test_states_of_any_whole_type(dtype):
    problem = mr.PolicyEvaluation(0.5, table=TABLE)
    small = {**GOOD, "states": GOOD["states"].astype(dtype), "next_states": GOOD["next_states"].astype(dtype)}
    assert np.array_equal(mr.solve(problem, mr.Buffer(**small)).x, mr.solve(problem, mr.Buffer(**GOOD)).x)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"states": [0, 1, 3]},
            r"column 'states' holds 3 at row 2 \(counting from 0\), but the table has 3 rows: .* 2",
        ),
        ({"next_states": [0, -1, 1]}, r"column 'next_states' holds -1 at row 1 .* states go from 0 to 2"),
        ({"states": [0.0, 1.0, 2.0]}, r"column 'states' holds float64 values; .* states.astype\(int\)"),
        ({"states": np.zeros((3, 1))}, r"column 'states' needs one number a sample .* states.ravel\(\)"),
    ],
)
def test_bad_states(columns, message):
    with pytest.raises(mr.InputError, match=message):
        mr.solve(mr.PolicyEvaluation(0.5, table=TABLE), mr.Buffer(**{**GOOD, **columns}))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (np.arange(3.0), r"table needs a row of features a state \(2 dimensions\), but its shape is \(3,\)"),
        (np.zeros((3, 0)), r"table needs a row of features"),
        ([[1.0, np.nan]], "column 'table' holds nan at row 0, feature 1"),
        (sp.csr_array([[np.inf]]), "column 'table' holds inf at row 0, feature 0"),
        ("one-hot", "column 'table' has 0 dimensions"),
    ],
)
def test_bad_tables(table, message):
    with pytest.raises(mr.InputError, match=message):
        mr.PolicyEvaluation(0.5, table=table)


def test_missing_columns():
    with pytest.raises(
        mr.InputError, match=r"needs the columns states, next_states; it reads states, next_states, rew"
    ):
        mr.solve(mr.PolicyEvaluation(0.5, table=TABLE), transitions()["dense"][1])
    with pytest.raises(mr.InputError, match=r"PolicyEvaluation\(gamma, table=Psi\) with a row a state, or the columns"):
        mr.solve(mr.PolicyEvaluation(0.5), mr.Buffer(**GOOD))


def test_features_of_two_kinds():
    A = np.eye(3)
    with pytest.raises(mr.InputError, match="must both be dense or both be sparse"):
        mr.solve(mr.PolicyEvaluation(0.5), mr.Buffer(features=A, next_features=sp.csr_array(A), rewards=np.ones(3)))
    with pytest.raises(mr.InputError, match="features has 3 features a row and next_features 2; they need the same"):
        mr.solve(
            mr.PolicyEvaluation(0.5),
            mr.Buffer(features=sp.csr_array(A), next_features=sp.csr_array(A[:, :2]), rewards=np.ones(3)),
        )


def test_a_users_operator_takes_dense_rows():
    problem = mr.VariationalInequality(lambda x, sample: x - sample, dim=3)
    with pytest.raises(mr.InputError, match=r"column 'samples' is sparse; .* samples.toarray\(\)"):
        mr.solve(problem, mr.Buffer(samples=sp.csr_array(np.eye(3))), step=0.1)


def test_sparse_targets_are_refused():
    with pytest.raises(mr.InputError, match="column 'targets' needs one number a sample"):
        mr.solve(mr.GLM(), mr.Buffer(features=np.eye(3), targets=sp.csr_array(np.ones((3, 1)))))


def test_sparse_columns_without_features():
    empty = mr.Buffer(features=sp.csr_array((4, 0)), targets=np.ones(4))
    with pytest.raises(mr.InputError, match="column 'features' has no features"):
        mr.solve(mr.GLM(), empty)
    zeros = mr.Buffer(features=sp.csr_array((4, 2)), targets=np.ones(4))
    with pytest.raises(mr.InputError, match="every feature in the buffer is 0"):
        mr.solve(mr.GLM(), zeros, update=mr.Plain())
    with pytest.raises(mr.InputError, match="every feature in the buffer is 0"):
        mr.solve(mr.GLM(), zeros)
    assert mr.solve(mr.GLM(), zeros, step=0.1).x.tolist() == [0.0, 0.0]


def test_scales_are_warned_of_by_the_size_of_the_nonzeros():
    rng = np.random.default_rng(0)
    A = np.where(rng.random((2000, 3)) < [0.9, 0.02, 0.5], 1.0, 0.0)
    y = rng.standard_normal(2000)
    rare = mr.Buffer(features=sp.csr_array(A), targets=y)
    large = mr.Buffer(features=sp.csr_array(A * [1, 1, 100]), targets=y)
    mr.solve(mr.GLM(), rare, update=mr.VarianceReduced())  # rare, but not small: no warning
    with pytest.warns(UserWarning, match="features differ in size by a factor of 100"):
        mr.solve(mr.GLM(), large, update=mr.VarianceReduced())
    assert np.allclose(mr.solve(mr.GLM(), large).x * [1, 1, 100], mr.solve(mr.GLM(), rare).x)  # sizes do not matter


def test_where_no_feature_occurs_there_is_nothing_to_precondition():
    zeros = mr.Buffer(features=sp.csr_array((40, 3)), targets=np.ones(40))
    result = mr.solve(mr.GLM(), zeros, step=0.1, update=mr.VarianceReduced(rounds=1))
    assert result.x.tolist() == [0.0, 0.0, 0.0]
    assert "preconditioner" not in str(result.status)


def test_a_held_out_block_of_sparse_rows():
    pair = regression("logistic", rows=400, dim=40)
    dense, other = (mr.solve(*pair[name]) for name in ("dense", "sparse"))
    assert "Chosen from 10 candidates" in str(dense.status)
    assert np.allclose(other.x, dense.x, rtol=1e-9)
    assert other.candidates.rows == dense.candidates.rows


@pytest.mark.parametrize("bad", [3, -1, 2**40, -(2**62)])
@pytest.mark.parametrize("feasible", [mr.sets.WholeSpace(), mr.sets.Box(-1, 1)], ids=str)
@pytest.mark.parametrize("table", [TABLE, sp.csr_array(TABLE)], ids=["dense", "sparse"])
def test_states_that_are_changed_under_a_run_lead_nowhere_else(table, feasible, bad):
    """A column in memory is the user's own array: what is checked before a run may be another value during it."""
    problem, columns = mr.PolicyEvaluation(0.5, table=table), {name: column.copy() for name, column in GOOD.items()}
    runs = []
    for value in (2, bad):  # which are read as the last state
        samples = problem.samples(problem.columns(mr.Buffer(**columns)))
        columns["states"][1], columns["next_states"][0] = value, value
        plain = make_stepper(problem, feasible, 2, "compiled", samples)
        reduced = plain.reduced(Preconditioner(np.zeros((0, 2)), np.zeros(0)))
        reduced.anchor, reduced.mean = np.array([0.1, 0.2]), np.array([0.01, 0.02])
        for stepper in (plain, reduced):
            stepper.x[:] = 0.0
            assert stepper.advance(samples, np.array([1, 2, 3, 2]), np.full(4, 0.01), np.ones(4), 1e9) == 4
        runs.append(np.concatenate([plain.x, reduced.x]))
        columns["states"][1], columns["next_states"][0] = 0, 1
    assert np.array_equal(*runs)
