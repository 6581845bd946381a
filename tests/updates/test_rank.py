"""What a record knows of every direction: against singular values, and exact fits against least squares on the rows."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import multireplay as mr
from multireplay.buffer.record import as_record
from multireplay.engine.sums import Folding
from multireplay.updates.coarse import has_few_rows
from multireplay.updates.rank import Known, known_directions, spanned_by_rows

ROWS = 3000


def shortest(A, y):
    """Least squares on the rows themselves, in units in which columns are of one length."""
    sizes = np.sqrt(np.mean(A**2, axis=0))
    scale = 1 / np.where(sizes > 0, sizes, 1.0)
    x = scale * np.linalg.lstsq(A * scale, y, rcond=1e-13)[0]
    free = scale * np.linalg.svd(A * scale)[2][np.linalg.matrix_rank(A * scale, tol=1e-13 * np.sqrt(A.size)) :]
    inside = np.linalg.qr(free.T)[0]
    return x - inside @ (inside.T @ x)


def designs():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((ROWS, 5))
    ones, year = np.ones(ROWS), np.linspace(1950.0, 2020.0, ROWS)
    coded = np.eye(3)[rng.integers(0, 3, ROWS)]
    return {
        "the same column twice": (A[:, [0, 1, 0]], ((0, 2),)),
        "two pairs": (np.column_stack([A[:, 0], A[:, 1], -2 * A[:, 0], A[:, 2], 3 * A[:, 1]]), ((0, 2), (1, 4))),
        "all dummies and a constant": (np.column_stack([ones, coded, A[:, 0]]), ((0, 1, 2, 3),)),
        "never active": (np.column_stack([A[:, 0], 0 * ones, A[:, 1], 0 * ones]), ((1,), (3,))),
        "a sum of others": (np.column_stack([A[:, :3], A[:, 0] + 1e3 * A[:, 2]]), ((0, 2, 3),)),
        "year": (np.column_stack([ones, year, year**2]), ()),
        "year cubed": (np.column_stack([ones, year, year**2, year**3]), ()),
        "scales": (A * 10.0 ** np.array([-8, 8, 0, 4, -3]), ()),
        "scales and the same twice": (A[:, [0, 1, 2, 1]] * 10.0 ** np.array([-8, 8, 0, -4]), ((1, 3),)),
        "close, 1e-4": (np.column_stack([A[:, 0], A[:, 0] + 1e-4 * A[:, 1], A[:, 2]]), ()),
        "close, 1e-7": (np.column_stack([A[:, 0], A[:, 0] + 1e-7 * A[:, 1], A[:, 2]]), ()),
        "close, 1e-10": (np.column_stack([A[:, 0], A[:, 0] + 1e-10 * A[:, 1], A[:, 2]]), ()),
        "constant": (np.column_stack([7 * ones, A[:, 0]]), ()),
        "far from 0": (A[:, :3] + 1e6, ()),
    }


DESIGNS = designs()


@pytest.mark.parametrize("name", DESIGNS)
def test_least_squares_of_every_rank(name):
    A, free = DESIGNS[name]
    rng = np.random.default_rng(1)
    sizes = np.sqrt(np.mean(A**2, axis=0))
    y = A @ (rng.standard_normal(A.shape[1]) / np.where(sizes > 0, sizes, 1.0)) + 0.1 * rng.standard_normal(ROWS)
    result = mr.solve(mr.GLM(), mr.Buffer(features=A, targets=y))
    best = shortest(A, y)
    assert result.free == free
    assert result.converged
    assert result.run.route == "exact"
    assert [i for i, error in enumerate(result.standard_error) if np.isinf(error)] == sorted(sum(free, ()))
    noise = np.linalg.norm(A @ best - y)
    assert np.linalg.norm(A @ (result.x - best)) < 1e-5 * noise
    settled = np.isfinite(result.standard_error)
    assert (np.abs(result.x - best)[settled] < 0.01 * result.standard_error[settled]).all()
    assert np.linalg.norm(result.x) <= (1 + 1e-3) * np.linalg.norm(best)
    assert ("does not settle all coordinates" in str(result.status)) == bool(free)


@pytest.mark.parametrize("link", ["logistic", "exp"])
@pytest.mark.parametrize("name", ["the same column twice", "never active", "all dummies and a constant", "close, 1e-7"])
def test_other_links_of_every_rank(name, link):
    A, free = DESIGNS[name]
    y = np.random.default_rng(2).integers(0, 2, ROWS).astype(float)
    result = mr.solve(mr.GLM(link), mr.Buffer(features=A, targets=y))
    assert result.free == free
    assert result.converged
    kept = [i for i in range(A.shape[1]) if not any(i == group[-1] for group in free)]
    means = (lambda z: 1 / (1 + np.exp(-z)) if link == "logistic" else np.exp(z))(A @ result.x)
    balance = A.T @ (means - y)
    assert (np.abs(balance) <= 1e-7 * (np.abs(A).T @ (means + y)) + 1e-12).all()
    alone = mr.GLM(link).fit_exactly(mr.Buffer(features=A[:, kept], targets=y))
    assert np.allclose(A @ result.x, A[:, kept] @ alone, atol=1e-5)
    inside = np.linalg.svd(A)[2][len(kept) :]
    assert np.allclose(inside @ result.x, 0, atol=1e-6 * np.abs(result.x).max())


@pytest.mark.parametrize("rows", [2**15, 40_000])
def test_more_rows_than_a_coarse_epoch_tell_the_same(rows):
    """Corrections give way to the exact fit, which names what they could not settle."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((rows, 3))
    A = np.column_stack([A, A[:, 0] - A[:, 2]])
    y = (rng.random(rows) < 0.5).astype(float)
    result = mr.solve(mr.GLM("logistic"), mr.Buffer(features=A, targets=y))
    assert result.free == ((0, 2, 3),)
    assert result.converged
    exact = mr.GLM("logistic").fit_exactly(mr.Buffer(features=A[:, :3], targets=y))
    assert np.allclose(A @ result.x, A[:, :3] @ exact, atol=1e-6)
    assert abs(result.x @ [1.0, 0.0, -1.0, -1.0]) < 1e-9


def test_fewer_rows_than_coordinates():
    for seed, (rows, dim) in enumerate([(1, 2), (2, 3), (3, 5), (20, 30), (40, 50)] * 3):
        rng = np.random.default_rng(seed)
        A, y = rng.standard_normal((rows, dim)), rng.standard_normal(rows)
        result = mr.solve(mr.GLM(), mr.Buffer(features=A, targets=y), holdout=None)
        assert result.free == (tuple(range(dim)),)
        assert result.converged
        assert np.allclose(result.x, np.linalg.lstsq(A, y, rcond=None)[0], atol=1e-9)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_the_basis_makes_known_directions_of_size_one(kind):
    A = DESIGNS["close, 1e-7"][0][:, [0, 1, 2, 0]]
    features = A if kind == "dense" else scipy.sparse.csr_array(A)
    record = as_record(mr.GLM(), mr.Buffer(features=features, targets=np.zeros(ROWS)))
    known = known_directions(record, Folding(1))
    assert isinstance(known, Known)
    assert known.basis.shape == (4, 3)
    images = A @ known.basis
    values = np.linalg.eigvalsh(images.T @ images / ROWS)
    assert values.max() < 2
    assert values.min() > 1e-6
    assert np.allclose(A @ known.free.T, 0, atol=1e-9)
    assert known.groups == ((0, 3),)


def test_unvisited_and_terminal_states_of_a_table():
    """Two states are never there, and the last ends every episode: the values of the others are LSTD's."""
    rng = np.random.default_rng(0)
    states, here, rows = 8, [0], 4000
    seen, following, ended = [], [], []
    while len(seen) < rows:
        state = here[-1]
        move = (state + rng.integers(1, 3)) if state < 5 else 5
        move = min(move, 5)
        seen.append(state)
        following.append(move)
        ended.append(move == 5)
        here.append(0 if move == 5 else move)
    rewards = rng.standard_normal(rows) - 1.0
    buffer = mr.Buffer(states=seen, next_states=following, rewards=rewards, terminated=np.array(ended))
    problem = mr.PolicyEvaluation(0.95, table=np.eye(states))
    result = mr.solve(problem, buffer)
    P, r = np.zeros((5, 5)), np.zeros(5)
    for s, t, reward, end in zip(seen, following, rewards, ended, strict=True):
        r[s] += reward
        if not end:
            P[s, t] += 1
    visits = np.bincount(seen, minlength=5)[:5]
    values = np.linalg.solve(np.eye(5) - 0.95 * P / visits[:, None], r / visits)
    assert np.allclose(result.x[:5], values, rtol=1e-10)
    assert result.x[5:].tolist() == [0.0, 0.0, 0.0]
    assert result.free == ((5,), (6,), (7,))
    assert result.converged
    assert "x[5], x[6], x[7] are never active" in str(result.status)


def test_a_ridge_settles_what_is_free():
    A = DESIGNS["two pairs"][0]
    y = np.random.default_rng(0).standard_normal(ROWS)
    result = mr.solve(mr.GLM(ridge=1e-3), mr.Buffer(features=A, targets=y))
    best = np.linalg.solve(A.T @ A / ROWS + 1e-3 * np.eye(5), A.T @ y / ROWS)
    assert result.free == ()
    assert np.allclose(result.x, best, rtol=1e-8)


@pytest.mark.parametrize("link", ["identity", "logistic", "exp"])
def test_a_ridge_on_some_of_what_is_free(link):
    """Once the fit of the features alone was called the answer, which the penalty's own pull was not counted in."""
    rng = np.random.default_rng(0)
    A = np.column_stack([rng.standard_normal((ROWS, 2)), np.ones((ROWS, 3))])  # the last two are not penalized
    y = rng.integers(0, 2, ROWS).astype(float)
    problem, buffer = mr.GLM(link, ridge=1.0, unpenalized=2), mr.Buffer(features=A, targets=y)
    result = mr.solve(problem, buffer)
    assert result.converged
    assert result.free == ((3, 4),)
    assert np.abs(problem.mean_operator(result.x, problem.columns(buffer))).max() < 1e-7
    assert np.allclose(result.x[3], result.x[4], rtol=1e-9)
    assert np.allclose(result.x, problem.fit_exactly(buffer), atol=1e-7)


def few(rows=40, width=400, seed=7):
    """Fewer rows than features, some of them never active, and of many sizes."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((rows, width)) * 10.0 ** rng.integers(-2, 3, width)
    A[:, [5, 17]] = 0.0
    A[-1] = A[0]
    return A, A[:, :4] @ [1.0, -0.1, 10.0, 0.0] + rng.standard_normal(rows)


def test_fewer_rows_than_features_give_the_shortest_fit_and_a_short_word():
    A, y = few()
    result = mr.solve(mr.GLM(), mr.Buffer(features=A, targets=y))
    best = np.linalg.lstsq(A, y, rcond=1e-12)[0]
    np.testing.assert_allclose(result.x, best, rtol=1e-6, atol=1e-9 * np.abs(best).max())
    assert result.run.route == "exact"
    assert result.free == (tuple(np.delete(np.arange(400), [5, 17]).tolist()), (5,), (17,))
    assert "361 of the 400 directions are not determined by 40 rows" in str(result.status)
    assert len(result.notes[0]) < 300
    assert np.isinf(result.standard_error).all()
    assert np.isfinite(result.uncertainty.interval(of=A[:3])).all()  # which the rows do determine


def test_few_rows_say_the_same_as_matrices_of_all_features():
    """What moments of d × d find, in the same units: a width at which both are used, side by side."""
    A, y = few(width=300)
    A = A / np.where(A.any(axis=0), np.abs(A).max(axis=0), 1.0)
    record = as_record(mr.GLM(), mr.Buffer(features=A, targets=y))
    assert has_few_rows(record)
    quick, slow = spanned_by_rows(record), known_directions(record, Folding(1))
    assert quick.groups == slow.groups
    assert quick.basis.shape == slow.basis.shape
    points = np.random.default_rng(8).standard_normal((3, 300))
    np.testing.assert_allclose(quick.shortest(points), slow.shortest(points), atol=1e-9)
    assert ((quick.unknown != 0).any(axis=0) == (slow.unknown != 0).any(axis=0)).all()


@pytest.mark.parametrize("problem", [
    mr.GLM(ridge=0.1), mr.GLM(ridge=0.1, unpenalized=1), mr.GLM("logistic", ridge=0.1, unpenalized=1),
    mr.GLM("exp", ridge=0.1), mr.Multinomial(3, ridge=0.1, unpenalized=1),
], ids=repr)  # fmt: skip
@pytest.mark.parametrize("weighted", [False, True])
def test_few_rows_and_a_penalty(problem, weighted):
    A, y = few()
    A = A / np.where(A.any(axis=0), np.abs(A).max(axis=0), 1.0)
    A[:, -1] = 1.0
    y = np.arange(40) % 3.0 if isinstance(problem, mr.Multinomial) else (y > 0) * 1.0
    weights = {"weights": np.arange(40) % 4.0} if weighted else {}
    buffer = mr.Buffer(features=A, targets=y, **weights)
    result = mr.solve(problem, buffer)
    assert result.run.route == "exact"
    assert result.converged
    assert result.free == ()
    np.testing.assert_allclose(result.x, problem.fit_exactly(buffer), atol=1e-7)
    assert np.isfinite(result.standard_error).all()


def test_few_rows_of_several_classes_need_no_matrix_of_all_coordinates(monkeypatch):
    """Thousands of columns and three classes: a square matrix of all coordinates would be most of the work."""
    A, _ = few(width=700)
    monkeypatch.setattr(mr.Multinomial, "second_moments", None)
    monkeypatch.setattr(mr.Multinomial, "jacobian_sum", None)
    problem = mr.Multinomial(3, ridge=0.1, unpenalized=1)
    result = mr.solve(problem, mr.Buffer(features=A, targets=np.arange(40) % 3.0))
    assert result.run.route == "exact"
    assert result.converged


@pytest.mark.parametrize("ridge", [0.0, 0.1])
def test_policy_evaluation_of_few_rows(ridge, tmp_path):
    A, r = few(width=500)
    A = A / np.where(A.any(axis=0), np.abs(A).max(axis=0), 1.0)
    buffer = mr.Buffer(features=A[:-1], next_features=A[1:], rewards=r[:-1])
    problem = mr.PolicyEvaluation(0.9, ridge=ridge)
    result = mr.solve(problem, buffer)
    basis = np.linalg.qr(A[:-1].T)[0]
    now, then = A[:-1] @ basis, A[1:] @ basis
    matrix = now.T @ (now - 0.9 * then) / 39 + ridge * np.eye(39)
    np.testing.assert_allclose(result.x, basis @ np.linalg.solve(matrix, now.T @ r[:-1] / 39), atol=1e-6)
    buffer.save(tmp_path / "a")
    stored = mr.Buffer.open(tmp_path / "a", memory="600 kB")
    assert type(stored).__name__ == "StoredBuffer"
    np.testing.assert_array_equal(mr.solve(problem, stored).x, result.x)


def test_few_rows_of_many_more_features_than_a_matrix_may_have():
    A, y = few(rows=30, width=6000)
    model = mr.MERRegressor(alpha=0, warn_autocorrelation=False).fit(A, y)
    np.testing.assert_allclose(model.predict(A), np.append((y[0] + y[-1]) / 2, [*y[1:-1], (y[0] + y[-1]) / 2]))
    assert "directions are not determined by 30 rows" in model.results_[0].notes[0]
    logistic = mr.MERClassifier(warn_autocorrelation=False).fit(A, y > 0)
    assert logistic.results_[0].run.route == "exact"
    assert logistic.converged_
    with pytest.raises(mr.InputError, match="nothing to fit"):
        mr.solve(mr.GLM(), mr.Buffer(features=np.zeros((30, 6000)), targets=y))
    with pytest.raises(mr.InputError, match="multiply its column"):
        mr.solve(mr.GLM(), mr.Buffer(features=A * np.where(np.arange(6000) == 3, 1e-200, 1.0), targets=y))


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_values_of_fewer_transitions_than_features_are_a_root(rows):
    """Next features may see what features do not: an answer that is cut off there is no root any more."""
    rng = np.random.default_rng(rows)
    problem, columns = (
        mr.PolicyEvaluation(0.9),
        {name: rng.standard_normal((rows, 8)) for name in ("features", "next_features")},
    )
    buffer = mr.Buffer(**columns, rewards=rng.standard_normal(rows))
    for x in (mr.solve(problem, buffer, holdout=None).x, problem.fit_exactly(buffer)):
        assert np.allclose(problem.mean_operator(x, problem.columns(buffer)), 0, atol=1e-9)
