"""The value estimator against LSTD, episodes, and returns by hand."""

from __future__ import annotations

import pickle
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit

import multireplay as mr
from multireplay.estimators.value import as_trajectory, returns

GAMMA = 0.8


@pytest.fixture(scope="module")
def walk():
    process = mr.simulate.paper_mrp(m=0.9)
    buffer = process.buffer(length=6000, seed=0)
    return np.vstack([buffer["features"], buffer["next_features"][-1:]]), np.append(buffer["rewards"], 0.0)


def lstd(X, rewards, gamma, alpha, now, after, over):
    """w and b from the formulas, with standardized features and a free intercept."""
    mean, scale = X[now].mean(axis=0), X[now].std(axis=0)
    scale[scale < 1e-12] = 1
    A = np.column_stack([(X - mean) / scale, np.ones(len(X))])
    matrix = A[now].T @ (A[now] - gamma * (~over[now])[:, None] * A[after]) / len(now)
    matrix += np.diag([alpha] * X.shape[1] + [0.0])
    x = np.linalg.solve(matrix, A[now].T @ rewards[now] / len(now))
    return x[:-1] / scale, x[-1] - mean @ (x[:-1] / scale)


@pytest.mark.parametrize("form", ["dense", "float32"])
def test_one_trajectory(walk, form):
    X, rewards = walk
    now = np.arange(len(X) - 1)
    w, b = lstd(X, rewards, GAMMA, 0.01, now, now + 1, np.zeros(len(X), dtype=bool))
    rows = X.astype(np.float32) if form == "float32" else X
    model = mr.MERValueRegressor(gamma=GAMMA, alpha=0.01, passes=101).fit(rows, rewards)
    assert np.allclose(model.predict(rows), X @ w + b, atol=1e-3)
    quick = mr.MERValueRegressor(gamma=GAMMA, alpha=0.01).fit(rows, rewards)
    assert np.abs(quick.predict(rows) - X @ w - b).max() < 0.02 * np.std(X @ w)
    assert model.coef_.shape == (X.shape[1],)


def test_episodes_that_end_and_that_break_off(walk):
    X, rewards = walk
    rng = np.random.default_rng(0)
    over = rng.random(len(X)) < 0.02
    episode = np.cumsum(rng.random(len(X)) < 0.01)
    cut = np.append(episode[1:] != episode[:-1], True)
    now = np.flatnonzero(over | ~cut)
    w, b = lstd(X, rewards, GAMMA, 0.01, now, np.minimum(now + 1, len(X) - 1), over)
    model = mr.MERValueRegressor(gamma=GAMMA, alpha=0.01, passes=101).fit(X, rewards, terminated=over, episode=episode)
    assert np.allclose(model.predict(X), X @ w + b, atol=1e-3)
    names = np.array([f"run {number}" for number in episode])
    again = mr.MERValueRegressor(gamma=GAMMA, alpha=0.01, passes=101).fit(X, rewards, over, names)
    assert np.array_equal(model.coef_, again.coef_)
    thin = mr.MERValueRegressor(gamma=GAMMA, alpha=0.01, passes=401).fit(sparse.csr_array(X), rewards, over, episode)
    assert np.allclose(thin.predict(X), X @ w + b, atol=0.05)


def test_what_is_not_reached_does_not_matter(walk):
    X, rewards = walk
    other = rewards.copy()
    other[-1] = 1e3  # what is given on leaving the last row
    models = [mr.MERValueRegressor(gamma=GAMMA).fit(X, given) for given in (rewards, other)]
    assert np.array_equal(models[0].coef_, models[1].coef_)
    last = np.arange(len(X)) == len(X) - 1
    counted = mr.MERValueRegressor(gamma=GAMMA).fit(X, other, terminated=last)
    assert not np.array_equal(models[0].coef_, counted.coef_)


def test_a_stream_of_blocks_is_the_stream_of_its_transitions(walk):
    X, rewards = walk
    over = np.random.default_rng(0).random(len(X)) < 0.02
    options = {"gamma": GAMMA, "capacity": 128}
    whole = mr.MERValueRegressor(**options).partial_fit(X, rewards, terminated=over)
    for cuts in ([0, 1, 2, 100, 127, 128, 129, 1000, len(X)], [*range(0, len(X), 700), len(X)]):
        model = mr.MERValueRegressor(**options)
        for start, stop in pairwise(cuts):
            model.partial_fit(X[start:stop], rewards[start:stop], terminated=over[start:stop])
            model = pickle.loads(pickle.dumps(model))
        assert np.array_equal(whole.coef_, model.coef_)
    now = np.flatnonzero(over | (np.arange(len(X)) < len(X) - 1))
    first = X[now[:128]]
    mean, scale = first.mean(axis=0), first.std(axis=0)
    scale[scale < 1e-12] = 1
    A = np.column_stack([(X - mean) / scale, np.ones(len(X))])
    columns = {
        "features": A[now], "next_features": A[np.minimum(now + 1, len(X) - 1)],
        "rewards": rewards[now], "terminated": over[now],
    }  # fmt: skip
    problem = mr.PolicyEvaluation(GAMMA, ridge=1e-4, unpenalized=1)
    run = mr.Stream(problem)
    run.observe(**columns)
    assert np.allclose(whole.coef_, run.predictor[:-1] / scale, rtol=1e-6)


def test_a_new_episode_between_blocks(walk):
    X, rewards = walk
    options = {"gamma": GAMMA, "capacity": 64}
    episode = np.repeat([0, 1, 2], [100, 150, 150])
    whole = mr.MERValueRegressor(**options).partial_fit(X[:400], rewards[:400], episode=episode)
    model = mr.MERValueRegressor(**options)
    for part in (slice(0, 40), slice(40, 100), slice(100, 300), slice(300, 400)):
        model.partial_fit(X[part], rewards[part], episode=episode[part])
    assert np.array_equal(whole.coef_, model.coef_)


def test_returns_by_hand():
    rewards = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    over = [False, False, True, False, False, False]
    episode = [0, 0, 0, 1, 1, 2]
    values = np.array([10.0, 20, 30, 40, 50, 60])
    found = returns(as_trajectory(np.zeros((6, 1)), rewards, over, episode), 0.5, values)
    assert found.tolist() == [1 + 0.5 * (2 + 0.5 * 3), 2 + 0.5 * 3, 3, 4 + 0.5 * 50, 50, 60]


def test_the_score_prefers_the_right_values(walk):
    X, rewards = walk
    model = mr.MERValueRegressor(gamma=GAMMA).fit(X[:4000], rewards[:4000])
    good = model.score(X[4000:], rewards[4000:])
    model.coef_ = -model.coef_
    assert 0 < good < 1
    assert model.score(X[4000:], rewards[4000:]) < good - 0.1
    search = GridSearchCV(mr.MERValueRegressor(gamma=GAMMA), {"alpha": [1e-3, 1e3]}, cv=TimeSeriesSplit(3))
    assert search.fit(X, rewards).best_params_ == {"alpha": 1e-3}


@pytest.mark.parametrize(
    ("fit", "message"),
    [
        (lambda X, r: mr.MERValueRegressor(gamma=1).fit(X, r), "gamma=1 needs episodes that end"),
        (lambda X, r: mr.MERValueRegressor(gamma=1.1).fit(X, r), r"gamma must be a number in \[0, 1\], not 1.1"),
        (lambda X, r: mr.MERValueRegressor().fit(X, r, terminated=np.full(len(X), 2)), "terminated is 2 at row 0"),
        (lambda X, r: mr.MERValueRegressor().fit(X, r, terminated=[True]), r"terminated has shape \(1,\), but X has"),
        (lambda X, r: mr.MERValueRegressor().fit(X, r, episode=np.arange(len(X))), "no row of X has a known successor"),
        (lambda X, r: mr.MERValueRegressor().fit(X, r, episode=[[1]]), r"episode has shape \(1, 1\)"),
    ],
)  # fmt: skip
def test_mistakes(fit, message, walk):
    with pytest.raises(mr.InputError, match=message):
        fit(*walk)


def test_one_row_that_terminated_is_a_record():
    model = mr.MERValueRegressor().fit([[1.0, 2.0]], [3.0], terminated=[True])
    assert model.predict([[1.0, 2.0]]) == pytest.approx([3.0])
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        mr.MERValueRegressor().fit([[1.0, 2.0]], [3.0])


def test_series_that_take_turns_are_brought_together_and_never_joined():
    rng = np.random.default_rng(41)
    rows, rewards, labels = rng.standard_normal((400, 2)), rng.standard_normal(400), np.repeat(["a", "b"], 200)
    wanted = mr.MERValueRegressor(gamma=0.5).fit(rows, rewards, episode=labels)
    turns = np.arange(400).reshape(2, 200).T.ravel()
    for order in (np.arange(400), turns):
        found = mr.MERValueRegressor(gamma=0.5).fit(rows[order], rewards[order], groups=labels[order])
        np.testing.assert_array_equal(found.coef_, wanted.coef_)
        record = found.results_[0].run.record
        assert record.length == 398
    assert not np.array_equal(wanted.coef_, mr.MERValueRegressor(gamma=0.5).fit(rows, rewards).coef_)
    with pytest.raises(mr.InputError, match="give one of them"):
        wanted.fit(rows, rewards, episode=labels, groups=labels)


@pytest.mark.parametrize("cuts", [[0, 400], [0, 1, 50, 51, 52, 120, 121, 400]])
@pytest.mark.parametrize("in_episodes", [False, True])
def test_no_transition_of_a_stream_goes_over_a_row_that_is_left_out(walk, cuts, in_episodes):
    X, rewards = walk[0][:400].copy(), walk[1][:400].copy()
    X[[0, 50, 51, 120, 399]] = np.nan
    rewards[200] = np.nan
    episode = np.repeat([7, 3, 7], [30, 270, 100])
    model = mr.MERValueRegressor(gamma=GAMMA, capacity=64, missing="drop")
    for start, stop in pairwise(cuts):
        part = slice(start, stop)
        model.partial_fit(X[part], rewards[part], episode=episode[part] if in_episodes else None)
    assert model.n_dropped_ == 6
    whole = np.isfinite(X).all(axis=1) & np.isfinite(rewards)
    ends = np.cumsum(~whole) * 10 + np.append(0, np.cumsum(np.diff(episode) != 0)) * in_episodes
    wanted = mr.MERValueRegressor(gamma=GAMMA, capacity=64)
    wanted.partial_fit(X[whole], rewards[whole], episode=ends[whole])
    np.testing.assert_array_equal(model.coef_, wanted.coef_)
