"""The exact fit as an update: the same as `fit_exactly`, in memory and on disk, with standard errors."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
from disk_records import record, stored
from every_set import DIM, SETS
from scipy.signal import lfilter

import multireplay as mr

PROBLEMS = {
    "linear": mr.GLM(),
    "ridge": mr.GLM(ridge=0.1, unpenalized=1),
    "policy evaluation": mr.PolicyEvaluation(0.9),
    "logistic": mr.GLM("logistic"),
    "probit": mr.GLM("probit"),
    "exp": mr.GLM("exp"),
}


@pytest.fixture(scope="module")
def buffer():
    return record(20_000, 5)


@pytest.mark.parametrize("name", PROBLEMS)
def test_it_is_the_exact_fit(buffer, name):
    problem = PROBLEMS[name]
    result = mr.solve(problem, buffer, update=mr.Exact())
    assert (np.abs(result.x - problem.fit_exactly(buffer)) < 1e-5 * result.standard_error).all()
    assert result.run.route == "exact"
    assert result.run.replay is None
    assert result.converged
    assert result.distance < 1e-5
    near = mr.solve(problem, buffer, update=mr.Newton(4))
    assert np.allclose(result.standard_error, near.standard_error, rtol=0.1)


@pytest.mark.parametrize("name", ["linear", "ridge", "policy evaluation", "logistic"])
def test_the_standard_errors_are_those_of_batch_means(buffer, name):
    """J⁻¹F̂ of each of 32 batches at the fit, by hand; of a linear problem, with J and F̂ of all rows but the batch's."""
    problem = PROBLEMS[name]
    result = mr.solve(problem, buffer, update=mr.Exact())
    columns = problem.columns(buffer)
    ends = np.linspace(0, len(buffer), 33).astype(int)
    if name == "logistic":
        J = problem.jacobian(result.x, columns)
        means = [problem.mean_operator(result.x, problem.columns(buffer[a:b])) for a, b in pairwise(ends)]
        images = np.linalg.solve(J, np.array(means).T).T
    else:
        images = np.zeros((32, len(result.x)))
        for b, (first, end) in enumerate(pairwise(ends)):
            rest = {key: np.concatenate([column[:first], column[end:]]) for key, column in columns.items()}
            left = problem.mean_operator(result.x, rest)
            images[b] = -31 * np.linalg.solve(problem.jacobian(result.x, rest), left)
    r = np.array([np.sum((a - a.mean())[1:] * (a - a.mean())[:-1]) / np.sum((a - a.mean()) ** 2) for a in images.T])
    r = np.clip(r + (1 + 3 * r) / 32, 0, 0.97)
    error = images.std(axis=0, ddof=1) / np.sqrt(32) * np.sqrt((1 + r) / (1 - r))
    assert np.allclose(result.standard_error, error, rtol=1e-4)


@pytest.mark.parametrize("name", PROBLEMS)
def test_disk_and_threads_change_no_bit(buffer, tmp_path, name):
    disk = stored(tmp_path, buffer)
    one, *others = [
        mr.solve(PROBLEMS[name], where, update=mr.Exact(), threads=threads)
        for where in (buffer, disk)
        for threads in (1, 2, 3)
    ]
    for other in others:
        assert one.x.tobytes() == other.x.tobytes()
        assert one.standard_error.tobytes() == other.standard_error.tobytes()
        assert one.distance == other.distance


def test_a_second_pass_gives_the_standard_errors_of_many_coordinates():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((4000, 300))
    y = A @ rng.standard_normal(300) + rng.standard_normal(4000)
    result = mr.solve(mr.GLM(), mr.Buffer(features=A, targets=y), update=mr.Exact())
    assert np.allclose(result.x, np.linalg.lstsq(A, y, rcond=None)[0], atol=1e-10)
    plain = result.images.values.std(axis=0, ddof=1) / np.sqrt(32)
    assert np.allclose(plain, 1 / np.sqrt(4000), rtol=0.6)
    assert (result.standard_error >= (1 - 1e-12) * plain).all()
    assert np.median(result.standard_error) == pytest.approx(1 / np.sqrt(4000), rel=0.2)
    assert result.converged


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_the_numbers_of_a_column_may_be_narrow(dtype):
    rng = np.random.default_rng(0)
    A = (10 * rng.standard_normal((4000, 3))).astype(dtype)
    y = A @ [1.0, 2.0, 3.0] + rng.standard_normal(4000)
    narrow, wide = (mr.solve(mr.GLM(), mr.Buffer(features=A.astype(kind), targets=y)) for kind in (dtype, np.float64))
    assert np.allclose(narrow.x, wide.x, rtol=1e-13)
    assert np.allclose(narrow.x, np.linalg.lstsq(A.astype(float), y, rcond=None)[0], rtol=1e-11)


@pytest.mark.parametrize("kind", ["sparse", "table", "sparse table"])
@pytest.mark.parametrize("update", [None, mr.Exact(), mr.Newton()], ids=["default", "exact", "newton"])
def test_sparse_features_and_tables(kind, update):
    rng = np.random.default_rng(0)
    table = np.where(rng.random((30, 6)) < 0.5, rng.standard_normal((30, 6)), 0.0)
    states = rng.integers(0, 30, 12_001)
    rewards = rng.standard_normal(12_000)
    dense = mr.Buffer(features=table[states[:-1]], next_features=table[states[1:]], rewards=rewards)
    exact = mr.PolicyEvaluation(0.8).fit_exactly(dense)
    if kind == "sparse":
        S = scipy.sparse.csr_array(table)[states]
        problem, buffer = mr.PolicyEvaluation(0.8), mr.Buffer(features=S[:-1], next_features=S[1:], rewards=rewards)
    else:
        rows = table if kind == "table" else scipy.sparse.csr_array(table)
        problem = mr.PolicyEvaluation(0.8, table=rows)
        buffer = mr.Buffer(states=states[:-1], next_states=states[1:], rewards=rewards)
    result = mr.solve(problem, buffer, update=update)
    assert result.converged
    assert (np.abs(result.x - exact) < 0.1 * result.standard_error).all()


def dependent(rows=4000, seed=0):
    rng = np.random.default_rng(seed)
    A = lfilter([1.0], [1.0, -0.8], rng.standard_normal((rows + 1, DIM)), axis=0)
    scores = A[:-1] @ rng.standard_normal(DIM)
    return {
        "features": A[:-1],
        "next_features": A[1:],
        "rewards": scores + rng.standard_normal(rows),
        "targets": (rng.random(rows) < 1 / (1 + np.exp(-scores))).astype(float),
    }


@pytest.mark.parametrize("feasible", SETS)
@pytest.mark.parametrize("name", [*PROBLEMS, "softplus"])
@pytest.mark.parametrize("seed", range(2))
def test_on_every_set_nothing_is_left_of_the_operator(name, feasible, seed):
    """x = Proj(x − F̂(x)), whatever the set and the problem."""
    problem, buffer = PROBLEMS.get(name, mr.GLM("softplus")), mr.Buffer(**dependent(seed=seed))
    result = mr.solve(problem, buffer, constraint=SETS[feasible])
    value = problem.mean_operator(result.x, problem.columns(buffer))
    assert np.abs(result.x - SETS[feasible].projected(result.x - value)).max() < 1e-6
    assert SETS[feasible].contains(result.x)
    assert result.converged
    assert result.status.code == "finished"
    assert result.run.route == "exact"


def test_a_fit_in_a_corner_needs_no_correction():
    """The first correction leads to a corner, the second has length 0, and the third is compared with it."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((3000, 2)) + 2
    buffer = mr.Buffer(features=A, targets=10 + A.sum(axis=1))
    result = mr.solve(mr.GLM("softplus"), buffer, constraint=mr.sets.Box(-0.1, 0.2))
    assert result.x.tolist() == [0.2, 0.2]
    assert result.converged


def best_of_all_supports(M, v, total):
    """The least squares that are not negative (and add up to `total`), by trying every set of coordinates not 0."""
    found, least = None, np.inf
    for chosen in range(1, 2 ** len(v)):
        here = [j for j in range(len(v)) if chosen >> j & 1]
        border = np.ones((len(here), 0 if total is None else 1))
        corner = np.zeros((border.shape[1], border.shape[1]))
        system = np.block([[M[np.ix_(here, here)], border], [border.T, corner]])
        x = np.zeros(len(v))
        x[here] = np.linalg.solve(system, np.r_[v[here], [total] * border.shape[1]])[: len(here)]
        loss = x @ M @ x / 2 - v @ x
        if x.min() >= 0 and loss < least:
            found, least = x, loss
    return found


@pytest.mark.parametrize("condition", [1.0, 1e4])
def test_least_squares_on_a_set_against_every_support(condition):
    """The errors were 3.45 (not negative) and 5.9 to 14.6 times (simplex) those of the exact fit."""
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.standard_normal((8, 8)))[0]
    A = rng.standard_normal((20_000, 8)) @ np.diag(np.logspace(0, -np.log10(condition) / 2, 8)) @ turn
    y = A @ [0.5, 0.3, 0.2, 0.0, 0.0, 0.0, 0.0, 0.0] + 0.1 * rng.standard_normal(20_000)
    M, v = A.T @ A / len(A), A.T @ y / len(A)
    for feasible, total in ((mr.sets.NonNegative(), None), (mr.sets.Simplex(), 1.0)):
        result = mr.solve(mr.GLM(), mr.Buffer(features=A, targets=y), constraint=feasible)
        assert np.allclose(result.x, best_of_all_supports(M, v, total), atol=1e-8)
        assert result.converged


def test_where_it_cannot_be_had_it_says_so(buffer):
    with pytest.raises(mr.InputError, match=r"leave replay=\.\.\. out"):
        mr.solve(mr.GLM(), buffer, update=mr.Exact(), replay=mr.Serial())
    for update in (mr.Exact(), mr.Newton()):
        for options, about in (({"step": 0.1}, "takes no steps"), ({"precision": "float32"}, "works in float64")):
            with pytest.raises(mr.InputError, match=about):
                mr.solve(mr.GLM(), buffer, update=update, **options)
    with pytest.raises(mr.InputError, match="has no Jacobian"):
        mr.solve(mr.VariationalInequality(lambda x, s: x - s[0], dim=65), buffer, update=mr.Exact())


def test_an_operator_of_ones_own(buffer):
    """Its Jacobian is made by differences: a linear one and one that is not."""
    for operator in (lambda x, s: x - s, lambda x, s: x + 0.3 * np.tanh(x) - s):
        problem = mr.VariationalInequality(operator, dim=2)
        result = mr.solve(problem, buffer[:3000], update=mr.Exact())
        assert np.abs(problem.mean_operator(result.x, problem.columns(buffer[:3000]))).max() < 1e-8
        assert result.converged


def test_one_sample_is_not_several():
    said = str(mr.solve(mr.GLM(ridge=1.0), mr.Buffer(features=[[1.0]], targets=[2.0]), update=mr.Exact()).status)
    assert "the exact fit of the one sample" in said
