"""Block sums: the same bits on any number of threads, in memory and on disk, and what they add up to."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from disk_records import record, stored
from hypothesis import given
from hypothesis import strategies as st

import multireplay as mr
from multireplay.buffer.record import as_record
from multireplay.engine import sums
from multireplay.engine.sums import (
    Folding,
    Kept,
    Linearization,
    MomentSum,
    OperatorSum,
    batch_bounds,
    fold,
    operator_batches,
)

PROBLEMS = {"linear": mr.GLM(), "logistic": mr.GLM("logistic"), "ridge": mr.GLM(ridge=0.5)}


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    buffer = record(60_000, 8)
    return buffer, stored(tmp_path_factory.mktemp("stored"), buffer)


@pytest.mark.parametrize("name", PROBLEMS)
def test_threads_and_disk_change_no_bit(both, name, monkeypatch):
    monkeypatch.setattr(sums, "TOGETHER", 2**21)
    problem = PROBLEMS[name]
    memory, disk = (as_record(problem, buffer) for buffer in both)
    points = np.random.default_rng(0).standard_normal((2, 8))
    found = [operator_batches(where, points, Folding(threads)) for where in (memory, disk) for threads in (1, 2, 3)]
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            assert one.means.tobytes() == two.means.tobytes()


@pytest.mark.parametrize("name", PROBLEMS)
def test_means_of_batches_are_those_of_their_rows(both, name):
    problem, buffer = PROBLEMS[name], both[0]
    x = np.linspace(-0.5, 0.5, 8)
    bounds = batch_bounds(len(buffer), 8)
    found = operator_batches(as_record(problem, buffer), [x], Folding(2))[0]
    literal = [problem.mean_operator(x, problem.columns(buffer[a:b])) for a, b in pairwise(bounds)]
    assert np.allclose(found.means, literal, rtol=1e-12, atol=1e-14)
    assert found.sizes.sum() == len(buffer)


def test_moments_and_jacobians_are_those_of_all_rows(both):
    buffer = both[0]
    A, y = buffer["features"], buffer["targets"]
    memory = as_record(mr.GLM(), buffer)
    ((matrix, vector),) = fold(memory, MomentSum(mr.GLM(), 8), how=Folding(2))
    assert np.allclose(matrix, A.T @ A)
    assert np.allclose(vector, A.T @ y)
    x = np.linspace(-0.5, 0.5, 8)
    logistic = as_record(mr.GLM("logistic"), buffer)
    for basis in (None, np.random.default_rng(0).standard_normal((8, 3))):
        sums_at, inside = Linearization(mr.GLM("logistic"), x, basis), np.eye(8) if basis is None else basis
        total, matrix, loss = fold(logistic, sums_at, how=Folding(2))[0]
        assert np.allclose(total, len(A) * mr.GLM("logistic").mean_operator(x, buffer.columns), atol=1e-9)
        place = x if basis is None else inside @ np.linalg.lstsq(inside, x, rcond=None)[0]
        here = (lambda p: p * (1 - p))(1 / (1 + np.exp(-A @ place)))
        assert np.allclose(matrix, inside.T @ A.T @ (here[:, None] * A) @ inside)
        assert np.allclose(loss, len(A) * mr.GLM("logistic").loss(x, buffer.columns))


class Rows(sums.BlockSum):
    """The rows themselves, in the order in which they are added."""

    def zero(self):
        return ((),)

    def of(self, block):
        return (tuple(block["targets"].tolist()),)

    def add(self, total, part):
        return (total[0] + part[0],)


class Handed:
    """A record of 0, 1, 2, … that hands out parts of any sizes."""

    problem, budget, row_bytes = mr.GLM(), None, 8

    def __init__(self, sizes, rows):
        self.ends, self.length, self.rows = np.cumsum([0, *sizes]), sum(sizes), rows

    def block_rows(self, least):
        return self.rows

    def summed_elsewhere(self, block_sum, extent):
        return None

    def parts(self, first, aside=0, last=None):
        for begin, end in zip(self.ends, self.ends[1:], strict=False):
            if end > first:
                start = max(begin, first)
                yield int(start), {"targets": np.arange(start, end, dtype=float)}


@given(st.lists(st.integers(1, 30), min_size=1, max_size=8), st.integers(1, 20), st.integers(1, 3), st.data())
def test_every_row_is_added_once_in_order_whatever_is_handed_out(sizes, rows, threads, data):
    where = Handed(sizes, rows)
    cuts = data.draw(st.lists(st.integers(1, where.length), max_size=4))
    bounds = np.unique([0, *cuts, where.length])
    found = fold(where, Rows(), bounds, Folding(threads))
    assert [list(total[0]) for total in found] == [list(range(a, b)) for a, b in pairwise(bounds)]


@given(st.lists(st.integers(1, 30), min_size=1, max_size=6), st.integers(1, 9), st.integers(0, 5))
def test_a_sum_goes_on_where_it_was(sizes, rows, number):
    where = Handed(sizes, rows)
    reached = []
    first = fold(where, Rows(), kept=Kept(0, [((),)], reached.append))
    at = reached[min(number, len(reached) - 1)]
    again = fold(where, Rows(), kept=Kept(at, [(first[0][0][:at],)], lambda row: None))
    assert again == first


def test_progress_counts_every_row(both):
    seen = []
    fold(as_record(mr.GLM(), both[1]), OperatorSum(mr.GLM(), np.zeros((1, 8))), how=Folding(2, seen.append))
    assert sum(seen) == len(both[0])


def test_a_part_that_fails_stops_the_sum(both):
    class Failing(Rows):
        def of(self, block):
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fold(as_record(mr.GLM(), both[0]), Failing(), how=Folding(2))


def test_a_small_budget_is_kept(tmp_path):
    buffer = record(60_000, 8)
    small = stored(tmp_path, buffer)
    assert np.isfinite(operator_batches(as_record(mr.GLM(), small), [np.zeros(8)], Folding(2))[0].means).all()


@pytest.mark.parametrize("name", PROBLEMS)
def test_how_columns_lie_in_memory_changes_no_bit(both, name):
    buffer = both[0]
    lying = {n: np.asfortranarray(c) if c.ndim == 2 else np.repeat(c, 2)[::2] for n, c in buffer.columns.items()}
    one, other = (mr.solve(PROBLEMS[name], where, update=mr.Exact()) for where in (buffer, mr.Buffer(**lying)))
    assert one.x.tobytes() == other.x.tobytes()
