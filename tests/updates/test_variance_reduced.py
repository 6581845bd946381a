"""Variance reduction: both engines, a literal loop, every set, and the stopping rules."""

from __future__ import annotations

import numpy as np
import pytest
from own_operators import rotation

import multireplay as mr
from multireplay import sets
from multireplay.inference import residuals
from multireplay.updates import precondition, rounds

DIM = 4


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    F = rng.standard_normal((301, DIM))
    F[:, 0] += 4.0  # one long direction
    return mr.Buffer(
        features=F[:-1],
        next_features=F[1:],
        rewards=rng.standard_normal(300),
        targets=(rng.random(300) < 0.5).astype(float),
        samples=rng.standard_normal((300, DIM)),
    )


PROBLEMS = {
    "linear": mr.GLM(),
    "logistic": mr.GLM("logistic"),
    "policy evaluation": mr.PolicyEvaluation(0.7),
    "own operator": mr.VariationalInequality(rotation, dim=DIM, lipschitz=2.0),
}
SETS = [
    sets.WholeSpace(),
    sets.Ball(0.3),
    sets.Simplex(),
    sets.Product((sets.Box(-0.1, 0.1), 2), (sets.NonNegative(), 2)),
]
SCHEMES = [mr.Dyadic(), mr.Shuffle(1), mr.Uniform(1), mr.Multiscale(epochs=3), mr.Skip(3)]


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_engines_agree_for_every_set_and_scheme(problem, data):
    for feasible in SETS:
        for scheme in SCHEMES:
            options = {"replay": scheme, "update": mr.VarianceReduced(rounds=2), "step": 0.01, "constraint": feasible}
            slow, fast = (mr.solve(problem, data, **options, backend=backend) for backend in ("python", "compiled"))
            assert len(slow.epochs) == len(fast.epochs) == len(scheme.plan(300)) + 2
            for one, other in zip(slow.epochs, fast.epochs, strict=True):
                assert np.allclose(one.last, other.last, rtol=1e-10, atol=1e-10)
                assert np.allclose(one.answer, other.answer, rtol=1e-10, atol=1e-10)
            assert feasible.contains(fast.x)
            assert slow.passes == fast.passes


def test_against_the_literal_algorithm(data):
    F, y = data["features"], data["targets"]

    def operator(x, i):
        return F[i] * (1 / (1 + np.exp(-F[i] @ x)) - y[i])

    order = mr.Dyadic().plan(300)[0].positions - 1
    x, iterates = np.zeros(DIM), []
    for i in order:
        x = x - 0.02 * operator(x, i)
        iterates.append(x)
    anchor = np.mean(iterates[-263:], axis=0)  # the last 7/8 of 300
    for _ in range(2):
        mean = np.mean([operator(anchor, i) for i in range(300)], axis=0)
        x, iterates = anchor, []
        for i in order:
            x = x - 0.02 * (operator(x, i) - operator(anchor, i) + mean)
            iterates.append(x)
        anchor = np.mean(iterates[-150:], axis=0)
    found = mr.solve(
        mr.GLM("logistic"), data, step=0.02, update=mr.VarianceReduced(rounds=2, precondition=None), backend="compiled"
    )
    assert np.allclose(found.x, anchor, rtol=1e-10)
    assert found.passes == 5


@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("backend", ["python", "compiled"])
def test_the_preconditioner_is_a_change_of_variables(data, rank, backend):
    """Plain variance reduction on transformed rows, transformed back, gives the same numbers."""
    problem = mr.PolicyEvaluation(0.7)
    shortened = precondition.from_sample(data["features"], rank)
    assert shortened.rank == rank
    root = shortened.root()
    assert np.allclose(root @ root, np.eye(DIM) + (shortened.axes.T * shortened.stretch) @ shortened.axes)
    other = mr.Buffer(
        features=data["features"] @ root, next_features=data["next_features"] @ root, rewards=data["rewards"]
    )
    options = {"step": 0.05, "backend": backend}
    direct = mr.solve(problem, data, update=mr.VarianceReduced(rounds=2, precondition=rank), **options)
    around = mr.solve(problem, other, update=mr.VarianceReduced(rounds=2, precondition=None), **options)
    assert np.allclose(direct.x, root @ around.x, rtol=1e-9)
    squares = ((data["features"] @ root) ** 2).sum(axis=1)
    assert precondition.shortened_square(shortened, data["features"]) == pytest.approx(squares.max())
    moments = np.linalg.eigvalsh(root @ data["features"].T @ data["features"] @ root / 300)
    assert moments[-1] == pytest.approx(moments[-1 - rank], rel=1e-6)  # as long as the next one, and no longer


def test_preconditioning_is_automatic_only_where_it_pays(data):
    assert precondition.from_sample(data["features"], "auto").rank == 1
    assert precondition.from_sample(data["features"] - [4.0, 0, 0, 0], "auto").rank == 0
    assert "preconditioner of rank 1" in str(mr.solve(mr.GLM(), data, update=mr.VarianceReduced()).status)
    assert "preconditioner" not in str(mr.solve(mr.GLM(), data, constraint=sets.Ball(0.3)).status)


@pytest.mark.parametrize(
    ("problem", "options", "message"),
    [
        (mr.GLM(constraint=sets.Ball(1.0)), {"update": mr.VarianceReduced(precondition=1)}, "not commute with Ball"),
        (PROBLEMS["own operator"], {"update": mr.VarianceReduced(precondition=1)}, "the problem has no features"),
        (mr.GLM(), {"update": mr.VarianceReduced(precondition=4)}, "needs more than 4 features; there are 4"),
        (mr.GLM(), {"update": mr.VarianceReduced(), "step": mr.steps.Decaying(mu=1)}, "needs a constant step"),
        (mr.GLM(), {"update": mr.Plain(), "passes": 3}, "not both"),
        (mr.GLM(), {"passes": 0}, "passes must be a whole number of at least 1"),
        (mr.GLM(), {"update": "reduced"}, "update must be"),
    ],
)  # fmt: skip
def test_what_cannot_be_combined_is_said(problem, options, message, data):
    with pytest.raises(mr.InputError, match=message):
        mr.solve(problem, data, **options)


@pytest.mark.parametrize("value", [0, -1, 1.5, "many"])
def test_bad_rounds(value):
    with pytest.raises(mr.InputError, match="rounds must be a whole number"):
        mr.VarianceReduced(rounds=value)


@pytest.mark.parametrize("link", ["identity", "logistic", "exp", "softplus"])
@pytest.mark.parametrize("feasible", [sets.WholeSpace(), sets.Ball(0.2)])
def test_rounds_converge_to_the_exact_fit(link, feasible):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((4000, 3))
    y = (rng.random(4000) < 1 / (1 + np.exp(-A @ [0.5, -0.5, 0.2]))).astype(float)
    buffer = mr.Buffer(features=A, targets=y)
    problem = mr.GLM(link, constraint=feasible)
    exact = problem.fit_exactly(buffer)
    updates = (mr.Plain(), mr.VarianceReduced(rounds=1), mr.VarianceReduced(rounds=3))
    gaps = [np.linalg.norm(mr.solve(problem, buffer, update=update).x - exact) for update in updates]
    assert gaps[1] < gaps[0] / 3
    assert gaps[2] < 1e-4


def test_the_default_reaches_the_exact_fit_on_a_dependent_record():
    process = mr.simulate.paper_mrp(0.95)
    ratios = []
    for seed in range(8):
        buffer = process.buffer(2**15, seed=seed)
        errors = [
            np.sum((x - process.solution) ** 2)
            for x in (mr.solve(process.problem, buffer).x, process.problem.fit_exactly(buffer))
        ]
        ratios.append(errors)
    mine, exact = np.mean(ratios, axis=0)
    assert mine < 1.05 * exact


@pytest.mark.filterwarnings("ignore::multireplay.errors.DivergenceWarning")
def test_serial_order_fails_where_dyadic_does_not():
    process = mr.simulate.paper_mrp(0.99)
    buffer = process.buffer(2**15, seed=0)
    exact = process.problem.fit_exactly(buffer)
    update = mr.VarianceReduced(rounds=3, precondition=None)
    serial, dyadic = (
        mr.solve(process.problem, buffer, replay=replay, update=update, step="auto")
        for replay in (mr.Serial(), mr.Dyadic())
    )
    assert dyadic.status.ok
    assert np.linalg.norm(serial.x - exact) > 20 * np.linalg.norm(dyadic.x - exact)


@pytest.mark.parametrize("stubborn", [False, True])
def test_a_round_that_diverges_is_run_again_at_half_the_step_once(monkeypatch, stubborn):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((2000, 2))
    buffer = mr.Buffer(features=A, targets=A @ [1.0, 2.0] + rng.standard_normal(2000))
    plain, steps = rounds.Rounds._round_in_order, []

    def wild(self, around, step):
        steps.append(step)
        far = 1000.0 if stubborn or len(steps) == 1 else 1.0
        return plain(self, around, far * step)

    monkeypatch.setattr(rounds.Rounds, "_round_in_order", wild)
    if stubborn:
        with pytest.warns(mr.DivergenceWarning):
            result = mr.solve(mr.GLM(), buffer, update=mr.VarianceReduced())
        assert result.status.code == "diverged"
        assert np.abs(result.x - [1.0, 2.0]).max() < 0.3  # the plain pass is still there
    else:
        result = mr.solve(mr.GLM(), buffer, update=mr.VarianceReduced())
        assert result.status.ok
        assert "was run again at half the step" in str(result.status)
        assert np.allclose(result.x, mr.GLM().fit_exactly(buffer), atol=0.01)
    assert steps[1] == steps[0] / 2
    assert len(steps) == 2


def test_rounds_stop_where_only_noise_is_left():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((20_000, 2))
    noisy = mr.Buffer(features=A, targets=A @ [1.0, 2.0] + 30 * rng.standard_normal(20_000))
    result = mr.solve(mr.GLM(), noisy, step=1e-3)
    assert result.passes in (2.0, 3.0)
    residual = residuals.measure(mr.GLM(), noisy.columns, sets.WholeSpace(), mr.GLM().fit_exactly(noisy))
    assert residual.is_noise
    assert not residuals.measure(mr.GLM(), noisy.columns, sets.WholeSpace(), np.array([50.0, 0.0])).is_noise


def test_the_standard_error_knows_of_dependence():
    """On AR(1) targets with no features to explain them, the batch-means error is that of the mean of an AR(1)."""
    rng = np.random.default_rng(0)
    ratio = []
    for _ in range(20):
        noise = np.zeros(20_000)
        shocks = rng.standard_normal(20_000)
        for t in range(1, 20_000):
            noise[t] = 0.9 * noise[t - 1] + shocks[t]
        buffer = mr.Buffer(features=np.ones((20_000, 1)), targets=noise)
        found = residuals.measure(mr.GLM(), buffer.columns, sets.WholeSpace(), np.zeros(1))
        ratio.append(found.error / (10 / np.sqrt(20_000)))  # long-run standard deviation 1/(1 − 0.9)
    assert np.mean(ratio) == pytest.approx(1.0, abs=0.1)


def test_a_record_without_any_noise_is_solved():
    buffer = mr.Buffer(features=np.ones((5, 1)), targets=np.ones(5))
    for holdout in (None, 0.5):
        assert np.isfinite(mr.solve(mr.GLM(), buffer, holdout=holdout).x).all()
    exact = mr.solve(mr.GLM(), buffer, x0=[1.0], update=mr.VarianceReduced())
    assert exact.x.tolist() == [1.0]
    assert "only 0 of its standard error" in str(exact.status)
