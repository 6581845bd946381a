"""Sums about a point: rare and late features, answers that run away, and what is kept to correct them."""

from __future__ import annotations

import numpy as np
import pytest
from streaming.worlds import LINKS, exact, fed, part, same, sticky

import multireplay as mr
from multireplay.problems import GLM
from multireplay.streaming.spread_rows import HEAVY, SHARE, HeavyRows, SpreadRows, kept_between

ROWS = 20_000


def world(seed, kind, link):
    """A stream whose first feature is rare, or late, or seldom not 0, or hardly anything ever happens in it."""
    rng = np.random.default_rng(seed)
    A = np.column_stack([sticky(rng, (ROWS, 4), 0.9), np.ones(ROWS)])
    x = rng.standard_normal(5) / np.sqrt(5)
    if kind == "rare":
        A[:, 0], x[0] = rng.random(ROWS) < 1 / 1500, 1.0
    elif kind == "late":
        A[: 2 * ROWS // 3, 0], x[0] = 0.0, 0.8
    elif kind == "sparse":
        A[:, :-1] *= rng.random((ROWS, 4)) < 0.03
    elif kind == "quiet":
        x[-1] = -5.0
    mean = LINKS[link](A @ x)
    targets = {
        "identity": lambda: mean + rng.standard_normal(ROWS),
        "logistic": lambda: (rng.random(ROWS) < mean) * 1.0,
        "exp": lambda: rng.poisson(mean) * 1.0,
    }[link]()
    return {"features": A, "targets": targets}


@pytest.mark.parametrize(
    ("kind", "link", "seed"),
    [
        ("rare", "logistic", 27), ("rare", "logistic", 31), ("rare", "exp", 5), ("late", "logistic", 5),
        ("late", "exp", 5), ("late", "identity", 5), ("sparse", "exp", 6), ("sparse", "exp", 7), ("quiet", "exp", 27),
    ],
)  # fmt: skip
def test_it_is_the_exact_fit_and_no_change_is_seen(kind, link, seed):
    problem, columns = mr.GLM(link), world(seed, kind, link)
    stream = fed(mr.Stream(problem), part(columns, 0, 500))
    assert np.isfinite(stream.predictor).all()
    fed(stream, part(columns, 500, ROWS))
    whole = mr.solve(problem, mr.Buffer(**columns), holdout=None)
    assert stream.status.ok
    assert not stream.drift.alarms
    assert (np.abs(stream.x - whole.x) < 0.1 * whole.standard_error).all()
    A = columns["features"]
    slopes = problem.jacobian_sum(whole.x, columns)
    off = stream.predictor - whole.x
    assert off @ slopes @ off < 25.0, "predictions are off by more than the fit is"
    assert np.isfinite(stream.predict(A[:9])).all()


def test_an_answer_that_ran_away_drowns_no_sums():
    """Counts of 0 wherever a feature is above 0, and no fit; then counts come there, and one exists."""
    rng = np.random.default_rng(0)
    A = np.column_stack([np.abs(rng.standard_normal(128)) * 0.05, np.ones(128)])
    y = rng.poisson(1.0, 128) * (rng.random(128) < 0.2) * 1.0
    A[y > 0, 0] = 0.0
    stream = mr.Stream(mr.GLM("exp"), forget=None)
    stream.observe_many(features=A, targets=y)
    assert not stream.status.ok
    B = np.column_stack([rng.standard_normal(400), np.ones(400)])
    counts = rng.poisson(np.exp(0.3 * B[:, 0])) * 1.0
    stream.observe_many(features=B, targets=counts)
    both = {"features": np.vstack([A, B]), "targets": np.append(y, counts)}
    assert stream.status.ok
    assert np.allclose(stream.x, exact(mr.GLM("exp"), both), atol=1e-6)


@pytest.mark.parametrize("problem", [mr.GLM("logistic"), mr.Multinomial(3)])
def test_heavy_rows_stand_for_themselves_and_spread_rows_for_all_others(problem):
    rng, known, first = np.random.default_rng(1), np.full(problem.dim({"features": np.zeros((1, 2))}), 1e-9), 0
    example = {"features": np.zeros((1, 2)), "targets": np.zeros(1, dtype=np.int64)}
    spread, heavy = SpreadRows(example), HeavyRows(example, problem)
    every, point = [], np.zeros(len(known))
    for count in [4, 60, *[256] * 60]:
        a = np.column_stack([rng.random(count) < 0.005, np.ones(count)]) * 1.0
        block = {"features": a, "targets": rng.integers(0, 2, count)}
        known += problem.jacobian_diagonal(point, block)
        spread.add(block, first, count)
        heavy.add(block, first, heavy.shares(block, point, known), point, known)
        every, first = [*every, a], first + count
    rare = np.flatnonzero(np.concatenate(every)[:, 0])
    kept = heavy.numbers[: heavy.length]
    assert heavy.length <= 2 * HEAVY
    assert (np.diff(kept) > 0).all()
    assert np.isin(rare[: int(1 / SHARE) // 8], kept).all()
    both = kept_between(spread, heavy, np.array([0, first]), np.array([float(first)]))
    stands_for = sum(weight * (rows.stop - rows.start) for kept in both for _, rows, weight in kept.each())
    assert stands_for == pytest.approx(first)
    again = HeavyRows(example, problem).restore(heavy.state())
    assert same(again.state(), heavy.state())


def test_linear_problems_keep_no_heavy_rows():
    heavy = HeavyRows({"features": np.zeros((1, 2)), "targets": np.zeros(1)}, GLM())
    block = {"features": np.ones((4, 2)), "targets": np.ones(4)}
    assert not heavy.shares(block, np.zeros(2), np.ones(2)).any()
