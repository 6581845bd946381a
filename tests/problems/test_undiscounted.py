"""Policy evaluation without a discount: the plain sum of an episode's rewards, where episodes end."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array, eye_array

import multireplay as mr

STATES = 5
"""Of a random walk from the middle that ends beyond either side, and pays 1 beyond the right one."""


@pytest.fixture(scope="module")
def walk():
    rng = np.random.default_rng(14)
    now, then, ended = [], [], []
    state = STATES // 2
    for step in rng.choice([-1, 1], 30_000):
        over = not 0 <= state + step < STATES
        now.append(state)
        then.append(min(max(state + step, 0), STATES - 1))
        ended.append((over, over and step > 0))
        state = STATES // 2 if over else state + step
    over, paid = np.array(ended).T
    F = np.eye(STATES)
    return {"features": F[now], "next_features": F[then], "rewards": paid.astype(float), "terminated": over}


TRUTH = np.arange(1, STATES + 1) / (STATES + 1)


@pytest.mark.parametrize("update", [None, mr.Exact(), mr.Newton(), mr.VarianceReduced(rounds=3)])
def test_the_random_walk_is_worth_the_chance_to_win(walk, update):
    options = {} if update is None else {"update": update}
    result = mr.solve(mr.PolicyEvaluation(gamma=1), mr.Buffer(**walk), **options)
    np.testing.assert_allclose(result.x, TRUTH, atol=0.03)
    np.testing.assert_allclose(result.x, mr.PolicyEvaluation(1.0).fit_exactly(mr.Buffer(**walk)), atol=1e-3)


def test_sparse_rows_and_a_table_give_the_same(walk):
    exact = mr.PolicyEvaluation(1).fit_exactly(mr.Buffer(**walk))
    sparse = {**walk, **{name: csr_array(walk[name]) for name in ("features", "next_features")}}
    np.testing.assert_allclose(mr.PolicyEvaluation(1).fit_exactly(mr.Buffer(**sparse)), exact)
    index = {"states": walk["features"].argmax(1), "next_states": walk["next_features"].argmax(1)}
    rest = {name: walk[name] for name in ("rewards", "terminated")}
    table = mr.PolicyEvaluation(1, table=eye_array(STATES, format="csr"))
    np.testing.assert_allclose(table.fit_exactly(mr.Buffer(**index, **rest)), exact)


@pytest.mark.parametrize("terminated", [{}, {"terminated": np.zeros(1000, dtype=bool)}])
def test_where_nothing_ends_it_is_refused(walk, terminated, tmp_path):
    columns = {name: walk[name][:1000] for name in ("features", "next_features", "rewards")} | terminated
    buffer, problem = mr.Buffer(**columns), mr.PolicyEvaluation(gamma=1)
    buffer.save(tmp_path / "walk")
    for attempt in (
        lambda: mr.solve(problem, buffer),
        lambda: mr.solve(problem, buffer, replay=mr.Dyadic()),
        lambda: mr.solve(problem, mr.Buffer.open(tmp_path / "walk")),
        lambda: problem.fit_exactly(buffer),
    ):
        with pytest.raises(mr.InputError, match="gamma=1 needs episodes that end, and no row of the record is"):
            attempt()


def test_on_disk_the_only_end_may_be_in_the_last_block(walk, tmp_path):
    """Blocks are checked one by one; one without an end is no reason to refuse the record."""
    last = int(np.flatnonzero(walk["terminated"])[-1])
    terminated = np.zeros(last + 1, dtype=bool)
    terminated[last] = True
    buffer = mr.Buffer(**{name: column[: last + 1] for name, column in walk.items() if name != "terminated"},
                       terminated=terminated)  # fmt: skip
    buffer.save(tmp_path / "walk")
    stored = mr.Buffer.open(tmp_path / "walk", memory="3 MB")
    problem = mr.PolicyEvaluation(gamma=1)
    found = mr.solve(problem, stored, update=mr.Exact())
    np.testing.assert_allclose(found.x, problem.fit_exactly(buffer), rtol=1e-6)


def test_columns_of_another_library(walk):
    torch = pytest.importorskip("torch")
    buffer = mr.Buffer(**{name: torch.as_tensor(column) for name, column in walk.items()})
    result = mr.solve(mr.PolicyEvaluation(gamma=1), buffer)
    np.testing.assert_allclose(np.asarray(result.x), TRUTH, atol=0.05)
    going = mr.Buffer(**{name: torch.as_tensor(walk[name]) for name in ("features", "next_features", "rewards")})
    with pytest.raises(mr.InputError, match="gamma=1 needs episodes that end"):
        mr.solve(mr.PolicyEvaluation(gamma=1), going)


def test_the_estimator_without_a_discount(walk):
    X, rewards = walk["features"], walk["rewards"]
    episode = np.cumsum(np.append(0, walk["terminated"][:-1]))
    model = mr.MERValueRegressor(gamma=1, fit_intercept=False).fit(X, rewards, walk["terminated"], episode)
    np.testing.assert_allclose(model.predict(np.eye(STATES)), TRUTH, atol=0.03)
