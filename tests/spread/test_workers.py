"""A Dask cluster whose workers die, go away or come back: the same bits, or a clear error."""

from __future__ import annotations

import gc
import time
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor, ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from disk_records import record, stored
from spread_tasks import Deadly, Posted, kind_of

import multireplay as mr
from multireplay.engine import sums
from multireplay.errors import WorkersError
from multireplay.spread import record as spread_record
from multireplay.spread import workers as spread_workers
from multireplay.spread.workers import DaskWorkers, Workers, as_workers

distributed = pytest.importorskip("distributed")
LOGISTIC = mr.GLM("logistic")


@pytest.fixture(scope="module")
def client():
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0", "host": "127.0.0.1"}
    with (
        distributed.LocalCluster(processes=True, silence_logs=50, **options) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture
def nearby():
    """A cluster in threads of this process, which starts and ends at once."""
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(processes=False, silence_logs=50, **options) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    buffer = record(60_000, 6)
    return buffer, stored(tmp_path_factory.mktemp("workers"), buffer)


@pytest.fixture(autouse=True)
def many_tasks(monkeypatch):
    monkeypatch.setattr(sums, "GROUP", 2**15)
    monkeypatch.setattr(sums, "WORTH", 1)
    monkeypatch.setattr(spread_record, "LEAST", 2**19)


def told(result):
    return result.x.tobytes(), result.uncertainty.standard_error.tobytes(), str(result.summary())


@pytest.mark.parametrize("problem", [mr.GLM(), LOGISTIC, mr.PolicyEvaluation(0.9)], ids=repr)
def test_a_cluster_gives_the_bits_of_one_machine(client, both, problem):
    here = told(mr.solve(problem, both[0]))
    for buffer in both:
        assert told(mr.solve(problem, buffer, on=client)) == here


def test_workers_that_are_killed_in_every_phase_change_no_bit(client, both, tmp_path, monkeypatch):
    killed = []

    class Dangerous(DaskWorkers):
        def _submit(self, task):
            if kind_of(task) not in killed:
                killed.append(kind_of(task))
                task = Deadly(task, tmp_path / f"{len(killed)}")
            return super()._submit(task)

    monkeypatch.setattr(spread_workers, "DaskWorkers", Dangerous)
    for problem, update in ((mr.GLM(), mr.Exact()), (LOGISTIC, mr.Newton()), (LOGISTIC, mr.Exact())):
        here = told(mr.solve(problem, both[0], update=update))
        assert told(mr.solve(problem, both[1], update=update, on=client)) == here
    assert {"Taking", "MomentSum", "OperatorSum", "Linearization"} <= set(killed)
    assert len(list(tmp_path.iterdir())) == len(killed)


def test_an_operator_of_ones_own_goes_with_the_task(client, both):
    problem = mr.VariationalInequality(lambda x, sample: x - sample, dim=2)
    buffer = mr.Buffer(samples=both[0]["samples"][:3000])
    assert mr.solve(problem, buffer, on=client).x.tobytes() == mr.solve(problem, buffer).x.tobytes()
    with ProcessPoolExecutor(1) as pool, pytest.raises(mr.InputError, match="in a module"):
        mr.solve(problem, buffer, on=pool)


def test_an_error_in_a_task_is_the_users_own(client, tmp_path):
    targets = np.zeros(40_000)
    targets[31_234] = np.nan
    np.save(tmp_path / "features.npy", np.random.default_rng(0).standard_normal((40_000, 3)))
    np.save(tmp_path / "targets.npy", targets)
    with pytest.raises(mr.InputError, match=r"targets\.npy holds nan .*row 31234"):
        mr.solve(mr.GLM(), mr.Buffer.open(tmp_path, memory="2 MB"), on=client)


def tasks_left(client):
    return client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))


def test_an_interruption_frees_the_cluster(client, both, monkeypatch):
    seen = []

    def interrupted(self, future):
        seen.append(future)
        if len(seen) > 2:
            raise KeyboardInterrupt
        return DaskWorkers._result(self, future)

    monkeypatch.setattr(spread_workers, "DaskWorkers", type("Interrupted", (DaskWorkers,), {"_result": interrupted}))
    with pytest.raises(KeyboardInterrupt):
        mr.solve(LOGISTIC, both[1], on=client)
    seen.clear()
    deadline = time.monotonic() + 20
    while tasks_left(client) and time.monotonic() < deadline:
        gc.collect()  # errors of other tests may hold on to futures
        time.sleep(0.02)
    assert tasks_left(client) == 0


@pytest.mark.parametrize(("problem", "last"), [(mr.GLM(), 4), (LOGISTIC, 14)], ids=repr)
def test_a_scheduler_that_went_away_and_a_checkpoint(both, tmp_path, monkeypatch, problem, last):
    monkeypatch.setattr(spread_workers, "LOOK", 0.1)
    monkeypatch.setattr("multireplay.engine.checkpoint.OFTEN", 0.0)
    here, path, done = told(mr.solve(problem, both[0], checkpoint=tmp_path / "here")), tmp_path / "run", []
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": ":0", "processes": False}
    with (
        distributed.LocalCluster(silence_logs=50, **options) as cluster,
        distributed.Client(cluster, set_as_default=False) as first,
    ):

        class Leaving(DaskWorkers):
            def _result(self, future):
                done.append(future)
                if len(done) == last:
                    cluster.close()
                return super()._result(future)

        monkeypatch.setattr(spread_workers, "DaskWorkers", Leaving)
        with pytest.raises(WorkersError, match="checkpoint"):
            mr.solve(problem, both[1], checkpoint=path, on=first)
    assert path.exists()
    again, whole = Posted(), Posted()
    result = mr.solve(problem, both[1], checkpoint=path, on=again)
    assert told(mr.solve(problem, both[1], checkpoint=path, on=whole)) == here
    assert len(again.sent) < len([task for task in whole.sent if kind_of(task) != "_Energies"])
    assert told(result) == here


def test_all_workers_gone(nearby, both, monkeypatch):
    monkeypatch.setattr(spread_workers, "LOOK", 0.05)
    monkeypatch.setattr(spread_workers, "PATIENCE", 0.3)
    nearby.cluster.scale(0)
    while nearby.nthreads():
        time.sleep(0.02)
    with pytest.raises(WorkersError, match="all workers"):
        mr.solve(mr.GLM(), both[1], on=nearby)


class Ended(Future):
    """A future that ended with an error."""

    status = "error"

    def __init__(self, error):
        super().__init__()
        self.set_exception(error)


def test_a_worker_out_of_memory_is_named():
    lost = distributed.KilledWorker("task", SimpleNamespace(address="tcp://somewhere"), 4)
    with pytest.raises(WorkersError, match="out of memory"):
        DaskWorkers(None)._result(Ended(lost))
    with pytest.raises(WorkersError, match="shut down"):
        Workers(None)._result(Ended(CancelledError()))
    with pytest.raises(TimeoutError, match="own"):
        DaskWorkers(None)._result(Ended(TimeoutError("the task's own")))


def test_a_broken_pool_is_an_error(both, tmp_path):
    class Dangerous(ProcessPoolExecutor):
        def submit(self, function, task):
            return super().submit(function, Deadly(task, tmp_path / "once", 0.0))

    with Dangerous(1) as pool, pytest.raises(WorkersError, match="died"):
        mr.solve(mr.GLM(), both[1], on=pool)


def test_a_record_in_memory_needs_workers_that_see_it(nearby, both, monkeypatch):
    monkeypatch.setattr(DaskWorkers, "see", lambda self, path: False)
    with pytest.raises(mr.InputError, match="not all workers are on this machine"):
        mr.solve(mr.GLM(), both[0], on=nearby)


def test_an_asynchronous_client_is_refused():
    kind = type("Client", (), {"__module__": "distributed.client", "nthreads": None, "asynchronous": True})
    with pytest.raises(mr.InputError, match="asynchronous"):
        as_workers(kind())


def test_a_result_is_asked_after_the_pool_has_ended(both):
    with ThreadPoolExecutor(1) as pool:
        there = mr.solve(LOGISTIC, both[1], on=pool)
    assert str(there.summary()) == str(mr.solve(LOGISTIC, both[1]).summary())


def test_a_result_is_asked_after_the_client_has_closed(both):
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(processes=False, silence_logs=50, **options) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        there = mr.solve(LOGISTIC, both[1], on=client)
    assert str(there.summary()) == str(mr.solve(LOGISTIC, both[1]).summary())
