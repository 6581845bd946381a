"""Sums by others: the same bits as on this machine, whoever does the work and however it is cut."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from disk_records import record, stored
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs, parquet
from spread_tasks import Posted, kind_of
from written import stored as on_disk

import multireplay as mr
from multireplay.engine import sums
from multireplay.engine.sums import Extent
from multireplay.spread import record as spread_record
from multireplay.spread.record import _cuts, spread_over

PROBLEMS = {
    "linear": mr.GLM(),
    "logistic": mr.GLM("logistic"),
    "penalized": mr.GLM("logistic", ridge=0.01),
    "policy evaluation": mr.PolicyEvaluation(0.9),
    "on a set": mr.GLM(constraint=mr.sets.NonNegative()),
}


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    buffer = record(30_000, 6)
    return buffer, stored(tmp_path_factory.mktemp("spread"), buffer)


@pytest.fixture(autouse=True)
def many_tasks(monkeypatch):
    """Groups, tasks and blocks as small as they can be, so that even a short record has many of them."""
    monkeypatch.setattr(sums, "GROUP", 2**14)
    monkeypatch.setattr(sums, "WORTH", 1)
    monkeypatch.setattr(spread_record, "LEAST", 2**15)


def everything(result):
    """All that a result says, in bytes."""
    known = result.uncertainty
    numbers = (result.x, known.standard_error, known.effective, known.visits, np.array([result.distance]))
    return [np.asarray(array).tobytes() for array in numbers], str(result.status), str(result.summary())


@pytest.mark.parametrize("update", [None, mr.Exact(), mr.Newton()], ids=["default", "exact", "newton"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_workers_change_no_bit(both, name, update):
    here = mr.solve(PROBLEMS[name], both[0], update=update)
    for buffer, workers in zip((both[1], both[0], both[1]), (1, 2, 40), strict=True):
        pool = Posted(workers)
        assert everything(mr.solve(PROBLEMS[name], buffer, update=update, on=pool)) == everything(here)
        assert len(pool.sent) > 1


def test_all_of_one_task_is_sent_and_no_row_comes_back_but_spread_ones(both):
    pool = Posted()
    mr.solve(mr.GLM("logistic"), both[1], update=mr.Newton(), on=pool).summary()
    assert {kind_of(task) for task in pool.sent} >= {"Taking", "OperatorSum"}
    sums_alone = [task for task in pool.sent if kind_of(task) == "OperatorSum"]
    assert all(len(task.block_sum.points) == 1 for task in sums_alone)
    assert sum(task.rows.nbytes for task in pool.sent if kind_of(task) == "Taking") < 2**20


@pytest.mark.parametrize("kind", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_pools_of_the_standard_library(both, kind):
    with kind(2) as pool:
        assert everything(mr.solve(mr.GLM("logistic"), both[1], on=pool)) == everything(
            mr.solve(mr.GLM("logistic"), both[0])
        )


def test_features_that_are_combinations_of_others(tmp_path):
    features = np.random.default_rng(5).standard_normal((4000, 3))
    features = np.column_stack([features, features[:, 0] + features[:, 1], np.zeros(4000)])
    buffer = mr.Buffer(features=features, targets=features.sum(axis=1) + np.random.default_rng(6).standard_normal(4000))
    here, there = (mr.solve(mr.GLM(), buffer, on=on) for on in (None, Posted()))
    assert here.free == there.free
    assert here.x.tobytes() == there.x.tobytes()


@given(
    st.lists(st.integers(1, 400), min_size=1, max_size=6),
    st.integers(1, 20),
    st.integers(1, 5),
    st.integers(1, 900),
)
def test_tasks_end_where_groups_do_and_have_every_row_once(stretches, rows, blocks, wanted):
    bounds = np.cumsum([0, *stretches])
    extent = Extent(rows, rows * blocks, bounds, 0, int(bounds[-1]))
    cuts = list(_cuts(extent, wanted))
    assert cuts[0] == 0
    assert cuts[-1] == bounds[-1]
    assert all(a < b for a, b in pairwise(cuts))
    ends = {end for begin, stop in pairwise(bounds) for end in (*range(begin, stop, rows * blocks), stop)}
    assert set(cuts) <= ends


def test_a_pass_has_no_more_tasks_than_a_scheduler_can_take(both, monkeypatch):
    monkeypatch.setattr(spread_record, "TASKS", 4)
    pool = Posted(1000)
    there = spread_over(mr.GLM(), both[1], pool)
    sums.operator_batches(there, [np.zeros(6)])
    assert 2 <= len(pool.sent) <= 6


ONE_MACHINE = "runs on one machine"


@pytest.mark.parametrize(
    "given_",
    [
        {"replay": mr.Dyadic()},
        {"replay": mr.Shuffle(0)},
        {"replay": mr.Multiscale()},
        {"update": mr.VarianceReduced()},
        {"step": 0.1},
        {"backend": "batched"},
    ],
    ids=str,
)
def test_orders_say_that_they_run_on_one_machine(both, given_):
    with pytest.raises(mr.InputError, match=ONE_MACHINE):
        mr.solve(mr.GLM(), both[0], on=Posted(), **given_)


def test_a_fall_back_to_steps_says_it_too(both):
    with pytest.raises(mr.InputError, match=ONE_MACHINE):
        mr.solve(mr.VariationalInequality(lambda x, row: x - row.targets, dim=100), both[0], on=Posted())


def test_what_is_held_out_by_default_is_not_left_out_in_silence():
    features = np.random.default_rng(0).standard_normal((400, 40))
    buffer = mr.Buffer(features=features, targets=features[:, 0])
    with pytest.raises(mr.InputError, match="holdout=None"):
        mr.solve(mr.GLM(), buffer, on=Posted())
    assert mr.solve(mr.GLM(), buffer, on=Posted(), holdout=None).converged


@pytest.mark.parametrize("wrong", [3, "tcp://nowhere", {}], ids=repr)
def test_something_that_is_no_pool(both, wrong):
    with pytest.raises(mr.InputError, match="on must be"):
        mr.solve(mr.GLM(), both[0], on=wrong)


def test_sparse_columns_stay_here(both):
    from scipy.sparse import csr_array

    buffer = mr.Buffer(features=csr_array(both[0]["features"]), targets=both[0]["targets"])
    with pytest.raises(mr.InputError, match="only dense columns can be saved"):
        mr.solve(mr.GLM(), buffer, on=Posted())


def test_a_temporary_folder_goes_with_the_result(both, tmp_path, monkeypatch):
    import gc
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    result = mr.solve(mr.GLM(), both[0], on=Posted())
    assert list(tmp_path.iterdir())
    del result
    spread_record.opened.cache_clear()
    gc.collect()
    assert not list(tmp_path.iterdir())


def test_files_elsewhere_are_opened_by_workers_themselves(tmp_path):
    rng = np.random.default_rng(4)
    for number in range(3):
        table = {"x": rng.standard_normal(230_000), "y": rng.standard_normal(230_000)}
        parquet.write_table(pa.table(table), tmp_path / f"part-{number}.parquet", row_group_size=20_000)
    columns = {"features": ["x"], "targets": "y"}
    here = mr.solve(mr.GLM(), mr.Buffer.open(tmp_path, columns))
    elsewhere = mr.Buffer.open((fs.LocalFileSystem(), str(tmp_path)), columns, memory="20 MB")
    assert isinstance(elsewhere, mr.StoredBuffer)
    assert mr.solve(mr.GLM(), elsewhere, on=Posted()).x.tobytes() == here.x.tobytes()


def test_partitions_of_dask_are_not_opened_by_workers(tmp_path):
    array = pytest.importorskip("dask.array")
    features = array.from_array(np.random.default_rng(5).standard_normal((400_000, 2)), chunks=(50_000, 2))
    opened = mr.Buffer.open({"features": features, "targets": features[:, 0]}, memory="17 MB")
    assert isinstance(opened, mr.StoredBuffer)
    with pytest.raises(mr.InputError, match="write it to Parquet files"):
        mr.solve(mr.GLM(), opened, on=Posted())


def test_rows_that_are_left_out_are_left_out_by_workers_too(tmp_path):
    rng = np.random.default_rng(3)
    for name, column in {"psi": rng.standard_normal((40_000, 3)), "rewards": rng.standard_normal(40_000)}.items():
        np.save(tmp_path / f"{name}.npy", column)
    np.save(tmp_path / "groups.npy", np.repeat(np.arange(16), 2500))
    columns = {"features": "psi", "next_features": ("psi", +1), "rewards": "rewards"}
    opened = mr.Buffer.open(tmp_path, columns, memory="2 MB", groups="groups")
    assert isinstance(opened, mr.StoredBuffer)
    assert opened.left_out == 15
    here = mr.solve(mr.PolicyEvaluation(0.5), opened)
    spread_record.opened.cache_clear()
    assert everything(mr.solve(mr.PolicyEvaluation(0.5), opened, on=Posted())) == everything(here)
    assert mr.diagnose(opened, on=Posted()).rows == len(opened)


def shards(folder, rows=8000, count=4, bad=None):
    """A folder of Parquet files, in one of which a value may be no number."""
    for number in range(count):
        rng = np.random.default_rng(number)
        table = {"a": rng.standard_normal(rows), "b": rng.standard_normal(rows), "y": rng.integers(0, 2, rows)}
        if bad is not None and bad[0] == number:
            table["b"][bad[1]] = np.nan
        parquet.write_table(pa.table(table), folder / f"part-{number}.parquet", row_group_size=1000)
    return on_disk(folder, {"features": ["a", "b"], "targets": "y"}, rows=2000)


def test_a_value_that_is_not_finite_is_named_with_its_shard(tmp_path):
    with pytest.raises(mr.InputError, match=r"part-2\.parquet holds nan in column 'b' at row 4321"):
        mr.solve(mr.GLM(), shards(tmp_path, bad=(2, 4321)), on=Posted())


@pytest.mark.parametrize("fate", ["missing", "truncated", "written again"])
@pytest.mark.parametrize("worker", ["the same", "a new one"])
def test_a_shard_that_changes_between_two_passes_is_named(tmp_path, fate, worker):
    opened, whole = shards(tmp_path), (tmp_path / "part-2.parquet").read_bytes()

    class Between(Posted):
        def submit(self, function, task):
            if len(self.sent) == 9:
                path = tmp_path / "part-2.parquet"
                path.unlink() if fate == "missing" else path.write_bytes(
                    whole[:-9000] if fate == "truncated" else whole
                )
                if worker == "a new one":
                    spread_record.opened.cache_clear()
            return super().submit(function, task)

    pool = Between()
    with pytest.raises(mr.InputError, match=r"part-2\.parquet|has changed since the run began"):
        mr.solve(mr.GLM("logistic"), opened, update=mr.Exact(), on=pool)
    assert len(pool.sent) > 9


def test_a_file_that_was_written_anew_is_refused(tmp_path):
    buffer = record(30_000, 6)
    there = stored(tmp_path, buffer)
    pool = Posted()
    found = spread_over(mr.GLM(), there, pool)
    spread_record.opened.cache_clear()  # as in a worker that comes later
    stored(tmp_path, mr.Buffer(**{name: column + 1 for name, column in buffer.columns.items() if name != "terminated"}))
    with pytest.raises(mr.InputError, match="changed"):
        sums.fold(found, sums.OperatorSum(mr.GLM(), np.zeros((1, 6))))
