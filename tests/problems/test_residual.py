"""What regression and policy evaluation share: sums over blocks of rows, weights and the L2 penalty.

Weights and penalty in both engines, against literal loops and scikit-learn's exact solvers.
"""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sparse_records import regression, transitions

import multireplay as mr
from multireplay import sets
from multireplay.problems.residual import Penalty

RIDGED = {"ridge": 0.3, "unpenalized": 1}


def weighted():
    pair = regression("identity", rows=200, dim=6)
    _, buffer = pair["dense"]
    weights = np.random.default_rng(1).random(200)
    return mr.GLM(**RIDGED), mr.Buffer(**buffer.columns, weights=weights)


def ended():
    _, buffer = transitions(rows=200, dim=6)["dense"]
    columns = {**buffer.columns, "terminated": np.arange(200) % 7 == 0}
    return mr.PolicyEvaluation(0.9, **RIDGED), mr.Buffer(**columns)


def every_linear_problem():
    yield from regression("identity", rows=200, dim=6).values()
    yield from transitions(rows=200, dim=6).values()
    yield weighted()
    yield ended()


LINEAR = list(every_linear_problem())


def part(columns, start, stop):
    return {name: column[start:stop] for name, column in columns.items()}


@pytest.mark.parametrize(("problem", "buffer"), LINEAR)
def test_moments_are_the_linear_operator(problem, buffer):
    columns = problem.columns(buffer)
    dim = problem.dim(columns)
    matrix, vector = problem.moments(columns)
    points = np.random.default_rng(0).standard_normal((3, dim))
    slope = matrix / len(buffer) + np.diag(problem.penalty_diagonal(dim))
    expected = points @ slope.T - vector / len(buffer)
    assert np.allclose([problem.mean_operator(x, columns) for x in points], expected, rtol=1e-12, atol=1e-13)
    assert np.allclose(problem.jacobian(points[0], columns), slope, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("problem", "buffer"), LINEAR)
def test_moments_of_blocks_add_up(problem, buffer):
    columns = problem.columns(buffer)
    parts = [problem.moments(part(columns, start, stop)) for start, stop in ((0, 1), (1, 90), (90, 200))]
    matrix, vector = problem.moments(columns)
    assert np.allclose(sum(one for one, _ in parts), matrix, rtol=1e-12, atol=1e-12)
    assert np.allclose(sum(one for _, one in parts), vector, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("problem", "buffer"), LINEAR)
def test_an_exact_fit_solves_the_system_of_the_moments(problem, buffer):
    columns = problem.columns(buffer)
    matrix, vector = problem.moments(columns)
    x = problem.fit_exactly(buffer, ridge=0.2)
    left = (matrix / len(buffer) + np.diag(0.2 + problem.penalty_diagonal(len(x)))) @ x - vector / len(buffer)
    assert np.abs(left).max() < 1e-12


def test_what_is_not_linear_has_no_moments():
    rows = np.ones((4, 2))
    regressions = mr.Buffer(features=rows, targets=np.ones(4))
    for problem in (mr.GLM("logistic"), mr.GLM("exp"), mr.GLM(lambda z: z)):
        assert problem.moments(problem.columns(regressions)) is None
    own = mr.VariationalInequality(lambda x, sample: x - sample, dim=2)
    assert own.moments(own.columns(mr.Buffer(samples=rows))) is None
    assert own.penalty_diagonal(2).tolist() == [0, 0]


def test_the_matrix_of_very_many_sparse_features_stays_sparse():
    features = sp.random_array((50, 2500), density=0.01, rng=np.random.default_rng(0), format="csr")
    for problem, columns in (
        (mr.GLM(), {"features": features, "targets": np.ones(50)}),
        (mr.PolicyEvaluation(0.5), {"features": features, "next_features": features, "rewards": np.ones(50)}),
    ):
        matrix, vector = problem.moments(problem.columns(mr.Buffer(**columns)))
        assert sp.issparse(matrix)
        assert np.allclose(vector, features.sum(axis=0))


DIM, ROWS = 3, 120
RIDGE = 0.3


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    F = rng.standard_normal((ROWS + 1, DIM))
    F[:, 0] += 3.0  # one long direction, so that there is something to precondition
    F[:, -1] = 1.0
    return {
        "features": F[:-1],
        "next_features": F[1:],
        "rewards": rng.standard_normal(ROWS),
        "targets": (rng.random(ROWS) < 0.5).astype(float),
        "weights": rng.integers(0, 4, ROWS).astype(float),
    }


def buffer_of(data, *names):
    return mr.Buffer(**{name: data[name] for name in names})


REGRESSION = ("features", "targets")
TRANSITIONS = ("features", "next_features", "rewards")
CASES = {
    "weights": (mr.GLM("logistic"), (*REGRESSION, "weights")),
    "ridge": (mr.GLM("logistic", ridge=RIDGE), REGRESSION),
    "both": (mr.GLM(ridge=RIDGE, unpenalized=1), (*REGRESSION, "weights")),
    "policy evaluation": (mr.PolicyEvaluation(0.7, ridge=RIDGE, unpenalized=1), TRANSITIONS),
    "importance ratios": (mr.PolicyEvaluation(0.4), (*TRANSITIONS, "weights")),
    "importance ratios and a ridge": (mr.PolicyEvaluation(0.4, ridge=RIDGE), (*TRANSITIONS, "weights")),
}


def literal_operator(problem, data, weighted):
    """F̃ from the formulas."""
    F, y = data["features"], data["targets"]
    penalty = np.full(DIM, problem.penalty.ridge)
    penalty[DIM - problem.penalty.unpenalized :] = 0

    def operator(x, i):
        if isinstance(problem, mr.PolicyEvaluation):
            error = F[i] @ x - data["rewards"][i] - problem.gamma * data["next_features"][i] @ x
        else:
            mean = 1 / (1 + np.exp(-F[i] @ x)) if problem.link.name == "logistic" else F[i] @ x
            error = mean - y[i]
        return (data["weights"][i] if weighted else 1.0) * error * F[i] + penalty * x

    return operator


@pytest.mark.parametrize(("problem", "names"), CASES.values(), ids=CASES)
def test_operators_and_their_mean_are_the_formulas(problem, names, data):
    literal = literal_operator(problem, data, "weights" in names)
    columns = problem.columns(buffer_of(data, *names))
    samples = problem.samples(columns)
    x = np.array([0.5, -1.0, 2.0])
    every = [literal(x, i) for i in range(ROWS)]
    for i in (0, 7, ROWS - 1):
        assert np.allclose(problem.operator(x, samples, i), every[i], rtol=1e-13)
    assert np.allclose(problem.mean_operator(x, columns), np.mean(every, axis=0), rtol=1e-12)


@pytest.mark.parametrize(("problem", "names"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("backend", ["python", "compiled"])
def test_the_loops_take_the_literal_steps(problem, names, backend, data):
    operator = literal_operator(problem, data, "weights" in names)
    order = mr.Dyadic().plan(ROWS)[0].positions - 1
    x, iterates = np.zeros(DIM), []
    for i in order:
        x = x - 0.02 * operator(x, i)
        iterates.append(x)
    anchor = np.mean(iterates[-105:], axis=0)  # the last 7/8 of 120
    options = {"step": 0.02, "holdout": None, "backend": backend}
    plain = mr.solve(problem, buffer_of(data, *names), passes=1, **options)
    assert np.allclose(plain.epochs[0].last, x, rtol=1e-10)
    assert np.allclose(plain.x, anchor, rtol=1e-10)
    for _ in range(2):
        mean = np.mean([operator(anchor, i) for i in range(ROWS)], axis=0)
        x, iterates = anchor, []
        for i in order:
            x = x - 0.02 * (operator(x, i) - operator(anchor, i) + mean)
            iterates.append(x)
        anchor = np.mean(iterates[-60:], axis=0)
    update = mr.VarianceReduced(rounds=2, precondition=None)
    assert np.allclose(mr.solve(problem, buffer_of(data, *names), update=update, **options).x, anchor, rtol=1e-9)


@pytest.mark.parametrize(("problem", "names"), CASES.values(), ids=CASES)
def test_engines_agree_on_every_set_and_order(problem, names, data):
    buffer = buffer_of(data, *names)
    all_at_once = "weights" in names and problem.penalty.ridge  # a set has loops of its own: once with all there is
    for feasible in (sets.WholeSpace(), sets.Ball(0.3)) if all_at_once else (sets.WholeSpace(),):
        for replay in (mr.Multiscale(), mr.Multiscale(phases="all"), mr.Serial()):
            found = [
                mr.solve(problem, buffer, replay=replay, step=0.02, constraint=feasible, backend=backend)
                for backend in ("python", "compiled")
            ]
            for one, other in zip(*(run.epochs for run in found), strict=True):
                assert np.allclose(one.answer, other.answer, rtol=1e-9, atol=1e-12)
    update = mr.VarianceReduced(rounds=2, precondition=1)
    slow, fast = (mr.solve(problem, buffer, update=update, holdout=None, backend=b) for b in ("python", "compiled"))
    assert np.allclose(slow.x, fast.x, rtol=1e-9)


@pytest.mark.parametrize(("problem", "names"), CASES.values(), ids=CASES)
def test_rounds_converge_to_the_exact_fit(problem, names, data):
    buffer = buffer_of(data, *names)
    exact = problem.fit_exactly(buffer)
    assert np.abs(problem.mean_operator(exact, problem.columns(buffer))).max() < 1e-9
    updates = (mr.Plain(), mr.VarianceReduced(rounds=5), mr.VarianceReduced(rounds=200))
    gaps = [np.abs(mr.solve(problem, buffer, update=update, holdout=None).x - exact).max() for update in updates]
    assert gaps[1] < 0.5 * gaps[0]
    assert gaps[2] < 1e-6


@pytest.mark.parametrize(("problem", "names"), CASES.values(), ids=CASES)
def test_the_default_is_the_exact_fit_of_a_short_record(problem, names, data):
    buffer = buffer_of(data, *names)
    result = mr.solve(problem, buffer, holdout=None)
    assert result.run.route == "exact"
    assert result.converged
    assert (np.abs(result.x - problem.fit_exactly(buffer)) < 1e-5 * result.standard_error).all()


@pytest.mark.parametrize("weighted", [False, True])
def test_exact_fits_are_those_of_scikit_learn(weighted, data):
    weights = data["weights"] if weighted else np.ones(ROWS)
    names = (*REGRESSION, "weights") if weighted else REGRESSION
    F, y = data["features"], data["targets"]
    ridge = Ridge(alpha=RIDGE * ROWS).fit(F[:, :-1], y, weights)
    found = mr.GLM(ridge=RIDGE, unpenalized=1).fit_exactly(buffer_of(data, *names))
    assert np.allclose(found, [*ridge.coef_, ridge.intercept_], rtol=1e-8)
    tight = {"tol": 1e-10, "solver": "newton-cholesky"}
    logistic = LogisticRegression(C=1 / (RIDGE * ROWS), **tight).fit(F[:, :-1], y, weights)
    found = mr.GLM("logistic", ridge=RIDGE, unpenalized=1).fit_exactly(buffer_of(data, *names))
    assert np.allclose(found, [*logistic.coef_[0], logistic.intercept_[0]], rtol=1e-7)
    alpha = RIDGE * ROWS / weights.sum()  # PoissonRegressor divides by the sum of the weights
    poisson = PoissonRegressor(alpha=alpha, **tight).fit(F[:, :-1], y, weights)
    found = mr.GLM("exp", ridge=RIDGE, unpenalized=1).fit_exactly(buffer_of(data, *names))
    assert np.allclose(found, [*poisson.coef_, poisson.intercept_], rtol=1e-7)


def test_an_exact_fit_on_a_set(data):
    problem = mr.GLM("logistic", constraint=sets.Ball(0.1), ridge=RIDGE, unpenalized=1)
    buffer = buffer_of(data, *REGRESSION, "weights")
    exact = problem.fit_exactly(buffer)
    gradient = problem.mean_operator(exact, problem.columns(buffer))
    assert np.linalg.norm(exact) == pytest.approx(0.1)
    assert np.allclose(exact, problem.constraint.projected(exact - gradient), atol=1e-8)


def test_lstd_with_a_penalty(data):
    problem = mr.PolicyEvaluation(0.7, ridge=RIDGE, unpenalized=1)
    F, after = data["features"], data["next_features"]
    matrix = F.T @ (F - 0.7 * after) / ROWS + np.diag([RIDGE, RIDGE, 0.0])
    expected = np.linalg.solve(matrix, F.T @ data["rewards"] / ROWS)
    assert np.allclose(problem.fit_exactly(buffer_of(data, *TRANSITIONS)), expected)
    twice = problem.fit_exactly(buffer_of(data, *TRANSITIONS), ridge=0.1)
    assert np.allclose(twice, np.linalg.solve(matrix + 0.1 * np.eye(DIM), F.T @ data["rewards"] / ROWS))


def test_whole_weights_are_repetitions_and_no_weight_is_no_row(data):
    counts = data["weights"].astype(int)
    repeated = mr.Buffer(features=data["features"].repeat(counts, axis=0), targets=data["targets"].repeat(counts))
    share = counts.sum() / ROWS
    problem, other = mr.GLM("logistic", ridge=RIDGE), mr.GLM("logistic", ridge=RIDGE / share)
    weighted = buffer_of(data, *REGRESSION, "weights")
    assert np.allclose(problem.fit_exactly(weighted), other.fit_exactly(repeated), rtol=1e-9)
    x, columns = np.ones(DIM), problem.columns(weighted)
    assert problem.loss(x, columns) == pytest.approx(share * other.loss(x, other.columns(repeated)))
    assert np.allclose(problem.curvature(x, columns), share * other.curvature(x, other.columns(repeated)))


def test_the_jacobian_is_the_derivative(data):
    problem = mr.GLM("logistic", ridge=RIDGE, unpenalized=1)
    columns = problem.columns(buffer_of(data, *REGRESSION, "weights"))
    x, h = np.array([0.2, -0.3, 0.1]), 1e-6
    numeric = [
        (problem.mean_operator(x + h * e, columns) - problem.mean_operator(x - h * e, columns)) / (2 * h)
        for e in np.eye(DIM)
    ]
    assert np.allclose(problem.curvature(x, columns), np.array(numeric).T, atol=1e-8)


def test_lipschitz_constants_and_limits(data):
    heaviest = (data["weights"] * (data["features"] ** 2).sum(axis=1)).max()
    problem = mr.GLM("logistic", ridge=RIDGE)
    samples = problem.samples(problem.columns(buffer_of(data, *REGRESSION, "weights")))
    assert problem.lipschitz(samples) == pytest.approx(heaviest / 4 + RIDGE)
    assert problem.limit(samples, np.zeros(DIM)) == pytest.approx(3e8)


def test_weights_of_one_and_no_ridge_change_nothing(data):
    data = {**data, "weights": np.ones(ROWS)}
    for update in (mr.Plain(), mr.VarianceReduced(rounds=1)):
        options = {"update": update, "holdout": None}
        plain = mr.solve(mr.GLM("logistic"), buffer_of(data, *REGRESSION), **options).x
        weighted = mr.solve(mr.GLM("logistic"), buffer_of(data, *REGRESSION, "weights"), **options).x
        assert np.allclose(plain, weighted, rtol=1e-12)
    samples = mr.GLM().samples(mr.GLM().columns(buffer_of(data, *REGRESSION)))
    assert samples.weights is None  # so that the loop is compiled without them
    assert samples.ridge is None


@pytest.mark.parametrize("ridge", [1.0, 100.0, 1e4])
def test_an_automatic_step_is_stable_however_large_the_penalty(ridge, data):
    """Also with a preconditioner, which shortens the features but not what the penalty asks for."""
    problem = mr.GLM(ridge=ridge)
    buffer = buffer_of(data, *REGRESSION, "weights")
    found = mr.solve(problem, buffer, update=mr.VarianceReduced(rounds=20, precondition=1), holdout=None)
    assert found.status.ok
    assert np.allclose(found.x, problem.fit_exactly(buffer), rtol=1e-4)


def test_the_online_algorithm_with_weights_and_a_ridge(data):
    problem = mr.GLM("logistic", ridge=RIDGE, unpenalized=1)
    names = (*REGRESSION, "weights")
    runs = [mr.Online(problem, 16, step=0.1, repeat_last=True, backend=backend) for backend in ("python", "compiled")]
    for run in runs:
        for part in (slice(10), slice(10, 33), slice(33, 40)):
            run.observe(**{name: data[name][part] for name in names})
    assert np.allclose(runs[0].iterate, runs[1].iterate, rtol=1e-12)
    restored = pickle.loads(pickle.dumps(runs[1]))
    for run in (runs[1], restored):
        run.observe(**{name: data[name][40:60] for name in names})
    assert np.array_equal(runs[1].iterate, restored.iterate)
    with pytest.raises(mr.InputError, match="so far came with weights, and these come without; give all or none"):
        restored.observe(features=data["features"][:2], targets=data["targets"][:2])
    fresh = mr.Online(problem, 16, step=0.1)
    fresh.observe(features=data["features"][:2], targets=data["targets"][:2])
    with pytest.raises(mr.InputError, match="came without weights, and these come with"):
        fresh.observe(**{name: data[name][:2] for name in names})


def test_problems_are_pickled_and_printed_with_their_penalty():
    for problem, text in (
        (mr.GLM("exp", ridge=0.5, unpenalized=1), "GLM(link='exp', ridge=0.5, unpenalized=1)"),
        (mr.GLM(), "GLM(link='identity')"),
        (mr.PolicyEvaluation(0.9, ridge=2), "PolicyEvaluation(gamma=0.9, ridge=2)"),
    ):
        assert repr(pickle.loads(pickle.dumps(problem))) == repr(problem) == text
        assert pickle.loads(pickle.dumps(problem)).penalty == problem.penalty


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda data: mr.GLM(ridge=-1), "ridge must be a number of at least 0, not -1"),
        (lambda data: mr.PolicyEvaluation(0.5, ridge="much"), "ridge must be a number"),
        (lambda data: mr.GLM(unpenalized=1.5), "unpenalized must be a whole number of at least 0"),
        (lambda data: mr.GLM(unpenalized=4).columns(buffer_of(data, *REGRESSION)), "unpenalized=4 is more than the 3"),
        (lambda data: mr.GLM().columns(buffer_of({**data, "weights": -data["weights"]}, *REGRESSION, "weights")),
         r"'weights' holds -\d at row \d+ \(counting from 0\); a weight is at least 0"),
        (lambda data: mr.GLM().columns(mr.Buffer(**{n: data[n] for n in REGRESSION}, weight=data["weights"])),
         "does not read the column 'weight'; if it is meant as 'weights'"),
        (lambda data: mr.GLM("exp").columns(mr.Buffer(**{n: data[n] for n in REGRESSION}, exposure=data["weights"])),
         "GLM does not read the column 'exposure': give rates as targets, counts/exposure, and the exposure as"),
        (lambda data: mr.GLM().columns(mr.Buffer(**{n: data[n] for n in REGRESSION}, sample_weight=data["weights"])),
         "does not read the column 'sample_weight': if it is meant as 'weights'"),
    ],
)  # fmt: skip
def test_mistakes(make, message, data):
    with pytest.raises(mr.InputError, match=message):
        make(data)


def test_the_penalty_leaves_out_the_last_coordinates():
    penalty = Penalty(2.0, 1)
    assert penalty.diagonal(3).tolist() == [2, 2, 0]
    assert penalty.added(np.ones(3), np.array([1.0, 2.0, 3.0])).tolist() == [3, 5, 1]
    assert Penalty(0.0, 1).fields == (None, 1)
