"""Exact solutions on feasible sets, against cvxpy, a literal extragradient method, and the residual itself."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from every_set import DIM, SETS
from hypothesis import example, given, settings
from hypothesis import strategies as st

import multireplay as mr
from multireplay import sets
from multireplay.problems.constrained import affine_vi, natural_residual
from multireplay.problems.exact import solve_linear
from multireplay.simulate import SimplexGame


class OwnBall(sets.Set):
    """A ball about 0 that is known by its projection alone."""

    def project(self, x):
        x *= min(1.0, 0.5 / max(np.linalg.norm(x), 1e-300))


class InOrder(sets.Set):
    """The vectors with x_1 ≥ x_2, known by the projection alone."""

    def project(self, x):
        if x[0] < x[1]:
            x[:2] = x[:2].mean()


ALL = {**SETS, "own ball": OwnBall(), "own order": InOrder()}


def features(dim: int, condition: float, seed: int) -> np.ndarray:
    """AR(.9) features whose second moments have about this condition number."""
    rng = np.random.default_rng(seed)
    noise, rows = rng.standard_normal((60 * dim, dim)), np.zeros((60 * dim, dim))
    for t in range(1, len(rows)):
        rows[t] = 0.9 * rows[t - 1] + np.sqrt(1 - 0.81) * noise[t]
    turn = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
    return rows * np.geomspace(1, condition**-0.5, dim) @ turn


def truth(dim: int) -> np.ndarray:
    return np.r_[np.zeros(dim // 2), np.linspace(0.2, 1, dim - dim // 2)]


CASES = {
    "nonnegative": (lambda x: sets.NonNegative(), lambda cp, v, x: [v >= 0]),
    "box": (lambda x: sets.Box(0, 0.6), lambda cp, v, x: [v >= 0, v <= 0.6]),
    "simplex": (lambda x: sets.Simplex(x.sum()), lambda cp, v, x: [v >= 0, cp.sum(v) == x.sum()]),
    "l1 ball": (lambda x: sets.L1Ball(x.sum()), lambda cp, v, x: [cp.norm1(v) <= x.sum()]),
    "ball": (lambda x: sets.Ball(np.linalg.norm(x)), lambda cp, v, x: [cp.norm2(v) <= np.linalg.norm(x)]),
}


@pytest.mark.parametrize("condition", [1.0, 1e4])
@pytest.mark.parametrize("dim", [8, 50])
@pytest.mark.parametrize("case", CASES)
def test_least_squares_is_as_good_as_by_cvxpy(case, dim, condition):
    cp = pytest.importorskip("cvxpy")
    make, constraints = CASES[case]
    A, x = features(dim, condition, seed=dim), truth(dim)
    if case == "box":
        x = np.clip(x, 0, 0.6)
    y = A @ x + np.random.default_rng(1).standard_normal(len(A))
    ours = mr.GLM(constraint=make(x)).fit_exactly(mr.Buffer(features=A, targets=y))
    turn, triangle = np.linalg.qr(A)
    variable = cp.Variable(dim)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(triangle @ variable - turn.T @ y)), constraints(cp, variable, x))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tolerances at rounding level are not always met
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-13, tol_gap_rel=1e-13, tol_feas=1e-13, max_iter=500)
    theirs = variable.value
    assert np.linalg.norm(ours - x) <= 1.01 * np.linalg.norm(theirs - x)
    close = 1e-5 if case == "ball" else 1e-9  # second-order cones end sooner
    assert np.linalg.norm(ours - theirs) <= close * np.linalg.norm(theirs)
    loss = ((A @ np.c_[ours, make(x).projected(theirs)] - y[:, None]) ** 2).sum(axis=0)
    assert loss[0] <= loss[1] * (1 + 1e-12)


def literal_residual(matrix, vector, feasible, x):
    """‖x − Proj(x − (Ax − b)/L)‖ as a share of the size of what goes into it."""
    top = np.linalg.norm(matrix, 2)
    away = x - feasible.projected(x - (matrix @ x - vector) / top)
    return np.linalg.norm(away) / (np.linalg.norm(x) + np.linalg.norm(vector) / top)


def extragradient(matrix, vector, feasible, steps):
    """Korpelevich's method, as it is written."""
    step, x = 0.7 / np.linalg.norm(matrix, 2), feasible.projected(np.zeros(len(vector)))
    for _ in range(steps):
        half = feasible.projected(x - step * (matrix @ x - vector))
        x = feasible.projected(x - step * (matrix @ half - vector))
    return x


@pytest.mark.parametrize("name", ALL)
@settings(max_examples=25, deadline=None)
@example(seed=489931, rank=3, decades=1.0, skew=1.0)  # solved in other units, where rounding is not the same
@given(seed=st.integers(0, 2**32), rank=st.integers(1, DIM), decades=st.floats(0, 4), skew=st.floats(0, 3))
def test_any_monotone_matrix_on_every_set(name, seed, rank, decades, skew):
    """A = BᵀB + S with S skew, also singular; b in its range, so that there is a solution on unbounded sets too."""
    rng = np.random.default_rng(seed)
    root = np.geomspace(1, 10**-decades, rank)[:, None] * rng.standard_normal((rank, DIM))
    turn = rng.standard_normal((rank, rank))
    matrix = root.T @ (np.eye(rank) + skew * (turn - turn.T)) @ root
    vector = matrix @ rng.standard_normal(DIM) * 10.0 ** rng.integers(-2, 3)
    found = affine_vi(matrix, vector, ALL[name])
    assert found.converged
    assert ALL[name].contains(found.x)
    assert literal_residual(matrix, vector, ALL[name], found.x) <= 1e-10
    for x in (found.x, found.x + rng.standard_normal(DIM)):
        literal = literal_residual(matrix, vector, ALL[name], x)
        assert natural_residual(matrix, vector, ALL[name], x) == pytest.approx(literal, abs=1e-14)


@pytest.mark.parametrize("name", ALL)
def test_as_by_a_long_extragradient_run(name):
    rng = np.random.default_rng(2)
    root, turn = rng.standard_normal((2, DIM, DIM))
    matrix, vector = root.T @ root + np.eye(DIM) + turn - turn.T, 3 * rng.standard_normal(DIM)
    literal = extragradient(matrix, vector, ALL[name], 3000)
    assert np.allclose(affine_vi(matrix, vector, ALL[name]).x, literal, atol=1e-9)
    assert np.allclose(affine_vi(matrix, vector, ALL[name], start=10 + literal).x, literal, atol=1e-9)


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("sizes", [0, 3])
@pytest.mark.parametrize("condition", [1e4, 1e8])
@pytest.mark.parametrize("name", CASES)
def test_badly_conditioned_and_badly_scaled(name, condition, sizes, symmetric):
    dim = 20
    units = np.random.default_rng(3).permutation(np.logspace(-sizes, sizes, dim))
    A, x = features(dim, condition, seed=4) * units, truth(dim)
    matrix = A[:-1].T @ (A[:-1] - (0 if symmetric else 0.5) * A[1:]) / len(A)
    vector = A.T @ (A @ x + np.random.default_rng(5).standard_normal(len(A))) / len(A)
    feasible = CASES[name][0](0.8 * x)
    found = affine_vi(matrix, vector, feasible)
    assert found.converged
    assert literal_residual(matrix, vector, feasible, found.x) <= 1e-11


def test_the_simplex_game_is_solved_exactly():
    for seed in range(5):
        game = SimplexGame(actions=6, seed=seed)
        n, mean = game.actions, game.tables.mean(axis=0)
        payoff = mean[: n * n].reshape(n, n)
        matrix = np.block([[np.eye(n), payoff], [-payoff.T, np.eye(n)]])
        found = affine_vi(matrix, -mean[n * n :], game.problem.constraint)
        assert np.allclose(found.x, game.solution, atol=1e-13)


def test_columns_that_repeat_and_problems_without_a_solution():
    A = features(3, 1.0, seed=6)
    y = A @ [1.0, 0.5, 0.0] + np.random.default_rng(7).standard_normal(len(A))
    once = mr.GLM(constraint=sets.NonNegative()).fit_exactly(mr.Buffer(features=A, targets=y))
    twice = mr.GLM(constraint=sets.NonNegative()).fit_exactly(mr.Buffer(features=np.c_[A, A[:, 0]], targets=y))
    assert np.allclose([twice[0] + twice[3], twice[1], twice[2]], once)
    assert not affine_vi(np.diag([1.0, 0.0]), np.ones(2), sets.NonNegative()).converged
    with pytest.raises(mr.InputError, match="no exact fit was found on NonNegative"):
        solve_linear(np.diag([1.0, 0.0]), np.ones(2), sets.NonNegative())
    assert np.allclose(affine_vi(np.zeros((2, 2)), np.array([1.0, 0.5]), sets.Simplex()).x, [1, 0])
    with pytest.raises(mr.InputError, match="not finite"):
        affine_vi(np.array([[np.inf]]), np.ones(1), sets.NonNegative())


@pytest.mark.parametrize("link", ["logistic", "exp", "softplus", "probit"])
@pytest.mark.parametrize("name", ["ball", "box", "nonnegative", "simplex", "l1 ball", "product", "own ball"])
def test_nonlinear_links_are_solved_to_rounding(link, name):
    rng = np.random.default_rng(8)
    A = rng.standard_normal((400, DIM)) * np.logspace(-1, 1, DIM)
    y = rng.random(400) < 0.3
    problem = mr.GLM(link, constraint=ALL[name])
    buffer = mr.Buffer(features=A, targets=y.astype(float))
    x = problem.fit_exactly(buffer)
    value, top = problem.mean_operator(x, problem.columns(buffer)), np.linalg.norm(A, 2) ** 2 / 400
    assert np.linalg.norm(x - ALL[name].projected(x - value / top)) <= 1e-13 * (1 + np.linalg.norm(x))


def test_a_link_of_ones_own_needs_no_bound_of_its_slope():
    rng = np.random.default_rng(9)
    buffer = mr.Buffer(features=rng.standard_normal((200, 3)), targets=rng.random(200))
    own = mr.GLM(lambda z: 1 / (1 + np.exp(-z)), constraint=sets.Ball(0.2)).fit_exactly(buffer)
    assert np.allclose(own, mr.GLM("logistic", constraint=sets.Ball(0.2)).fit_exactly(buffer), atol=1e-8)


def test_separable_data_on_an_unbounded_set_have_no_fit():
    A = np.random.default_rng(10).standard_normal((50, 2))
    buffer = mr.Buffer(features=A, targets=(A[:, 0] > 0).astype(float))
    with pytest.raises(mr.InputError, match="separable"):
        mr.GLM("logistic", constraint=sets.NonNegative()).fit_exactly(buffer)
