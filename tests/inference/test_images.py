"""Standard errors of every route and problem, or the sentence why there are none."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse

import multireplay as mr
from multireplay.inference import BatchMeans

RNG = np.random.default_rng(31)
ROWS, DIM = 6000, 4
A = RNG.standard_normal((ROWS + 1, DIM))
for t in range(1, ROWS + 1):
    A[t] = 0.8 * A[t - 1] + 0.6 * A[t]
SCORE = A @ [0.5, -0.3, 0.2, 0.0]
NOISE = RNG.standard_normal(ROWS + 1)
STATES = np.zeros(ROWS + 1, dtype=int)
for t in range(1, ROWS + 1):
    STATES[t] = (STATES[t - 1] + RNG.choice([0, 0, 1, 3])) % DIM

DENSE = {
    "linear": (mr.GLM(), {"targets": SCORE + NOISE}),
    "ridge": (mr.GLM(ridge=0.1), {"targets": SCORE + NOISE}),
    "weighted": (mr.GLM(), {"targets": SCORE + NOISE, "weights": RNG.exponential(size=ROWS + 1)}),
    "logistic": (mr.GLM("logistic"), {"targets": (RNG.random(ROWS + 1) < 1 / (1 + np.exp(-SCORE))) * 1.0}),
    "poisson": (mr.GLM("exp"), {"targets": RNG.poisson(np.exp(SCORE)) * 1.0}),
}
PROBLEMS = {name: (problem, mr.Buffer(features=A, **columns)) for name, (problem, columns) in DENSE.items()}
PROBLEMS["td"] = (mr.PolicyEvaluation(0.8), mr.Buffer(features=A[:-1], next_features=A[1:], rewards=SCORE[:-1]))
PROBLEMS["tabular"] = (
    mr.PolicyEvaluation(0.8, table=np.eye(DIM)),
    mr.Buffer(states=STATES[:-1], next_states=STATES[1:], rewards=np.arange(4.0)[STATES[:-1]] + NOISE[:-1]),
)
PROBLEMS["sparse"] = (mr.GLM(), mr.Buffer(features=scipy.sparse.csr_array(A), targets=SCORE + NOISE))
PROBLEMS["operator"] = (
    mr.VariationalInequality(lambda x, s: x - s, dim=DIM, lipschitz=1.0),
    mr.Buffer(samples=A[:2000]),
)
ROUTES = {
    "default": {},
    "exact": {"update": mr.Exact()},
    "corrections": {"update": mr.Newton()},
    "rounds": {"update": mr.VarianceReduced()},
    "steps": {"update": mr.Plain()},
    "held out": {"holdout": 0.2, "step": 0.01},
}


@pytest.mark.filterwarnings("ignore::multireplay.ConvergenceWarning", "ignore::multireplay.UncertaintyWarning")
@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("name", PROBLEMS)
def test_every_route_gives_standard_errors(name, route):
    problem, buffer = PROBLEMS[name]
    result = mr.solve(problem, buffer, **ROUTES[route])
    exact = mr.solve(problem, buffer, update=mr.Exact())
    assert result.uncertainty.why_not == ""
    assert np.allclose(result.standard_error, exact.standard_error, rtol=0.3)
    assert np.allclose(np.sqrt(result.covariance().diagonal()), result.standard_error)
    assert result.interval().shape == (DIM, 2)
    assert result.uncertainty.effective.shape == (DIM,)
    assert str(result.summary()).count("\n") > DIM


@pytest.mark.parametrize("name", ["linear", "logistic", "td", "poisson"])
def test_images_of_the_exact_fit_and_of_corrections_agree(name):
    problem, buffer = PROBLEMS[name]
    exact, near = (mr.solve(problem, buffer, update=update).images for update in (mr.Exact(), mr.Newton()))
    assert exact.values.shape == exact.scores.shape == (32, DIM)
    assert exact.rows.sum() == len(buffer)
    for one, other in zip(exact.values.T, near.values.T, strict=True):
        assert np.corrcoef(one, other)[0, 1] > 0.995
    assert np.allclose(np.average(exact.scores, axis=0, weights=exact.rows), 0, atol=1e-6)


def test_images_as_written():
    problem, buffer = PROBLEMS["logistic"]
    result = mr.solve(problem, buffer, update=mr.Exact())
    ends = np.linspace(0, len(buffer), 33).astype(int)
    pairs = list(pairwise(ends))
    scores = np.array([problem.mean_operator(result.x, problem.columns(buffer[a:b])) for a, b in pairs])
    images = np.linalg.solve(problem.jacobian(result.x, problem.columns(buffer)), scores.T).T
    assert np.allclose(result.images.scores, scores, atol=1e-6)
    assert np.allclose(result.images.values, images, rtol=1e-3, atol=1e-5)
    assert np.allclose(result.standard_error, np.sqrt(BatchMeans().spread(images).variance), rtol=1e-3)


def test_a_jacobian_of_few_rows_gives_standard_errors_of_the_right_size():
    """J⁻¹ of 8 rows a coordinate makes them (1 − 1/8)^(−1/2) = 1.07 times too large, unless that is put right."""
    rng, dim = np.random.default_rng(5), 1024
    X = rng.standard_normal((2**15, dim)).astype(np.float32)
    buffer = mr.Buffer(features=X, targets=(X[:, 0] + rng.standard_normal(2**15)).astype(np.float32))
    images = mr.solve(mr.GLM(), buffer, update=mr.Newton()).images
    whole = np.linalg.solve((X.T @ X / len(X)).astype(np.float64), images.scores.T).T
    assert np.median(images.values.std(axis=0) / whole.std(axis=0)) == pytest.approx(1.0, abs=0.01)


def test_sentences_where_there_are_none():
    X = np.random.default_rng(1).standard_normal((400, 2))
    own = mr.GLM(link=lambda z: z + np.tanh(z), lipschitz=2.0)
    result = mr.solve(own, mr.Buffer(features=X, targets=X[:, 0]), update=mr.Plain())
    assert "has no Jacobian" in result.uncertainty.why_not
    assert result.standard_error is None
    assert "No standard errors: " in str(result.summary())
    assert [row["coefficient"] for row in result.summary().rows] == result.x.tolist()
    with pytest.raises(mr.InputError, match="there are no standard errors here: GLM"):
        result.interval()
    with pytest.warns(mr.ConvergenceWarning):
        split = mr.solve(mr.GLM("logistic"), mr.Buffer(features=X, targets=(X[:, 0] > 0) * 1.0))
    assert "does not exist" in split.uncertainty.why_not
    with pytest.warns(mr.DivergenceWarning):
        lost = mr.solve(mr.GLM(), mr.Buffer(features=X, targets=X[:, 0]), update=mr.Plain(), step=1e3)
    assert lost.uncertainty.why_not == "the run diverged"
    tiny = mr.solve(mr.GLM(), mr.Buffer(features=X[:3], targets=X[:3, 0]), update=mr.Plain(), step=0.1)
    assert "3 rows are too few" in tiny.uncertainty.why_not


def test_what_is_unknown_has_no_interval_but_its_sum_does():
    """Two columns alike: each is anything, what they add up to is known, and so are predictions."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((3000, 3))
    X[:, 1] = X[:, 0]
    buffer = mr.Buffer(features=X, targets=X[:, 0] + rng.standard_normal(3000))
    for update in (mr.Exact(), mr.Plain()):
        result = mr.solve(mr.GLM(), buffer, update=update)
        assert np.isinf(result.standard_error).tolist() == [True, True, False]
        alone = mr.solve(mr.GLM(), mr.Buffer(features=X[:, 1:], targets=buffer["targets"]))
        both = result.interval(of=[[1.0, 1.0, 0.0]])
        assert np.allclose(both[0, 1] - both[0, 0], np.diff(alone.interval()[0]), rtol=0.02)
        assert np.isinf(result.interval(of=[[1.0, -1.0, 0.0]])).all()
        assert np.isfinite(np.array(result.predict_interval(X[:5]))).all()
        with pytest.raises(mr.InputError, match="does not know"):
            result.test([1.0, 0.0, 0.0])


@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_standard_errors_are_the_same_whatever_is_asked_first(kind):
    """Their variance is kept where it is worked out with that of the scores, and is no other one."""
    at_once, later = (mr.solve(*PROBLEMS[kind]) for _ in range(2))
    later.summary()
    assert (at_once.standard_error == later.standard_error).all()
    for result in (at_once, later):
        images = result.uncertainty.images
        assert (images.variance == BatchMeans().spread(images.values).variance).all()
