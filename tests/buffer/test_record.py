"""A record on disk against the same one in memory."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from disk_records import record, stored

import multireplay as mr
from multireplay.buffer.record import MemoryRecord, StoredRecord
from multireplay.engine import chains, stepper
from multireplay.updates import plain
from multireplay.updates.plain import extreme_samples

PROBLEMS = {
    "linear": mr.GLM(),
    "logistic": mr.GLM("logistic"),
    "exp": mr.GLM("exp"),
    "policy evaluation": mr.PolicyEvaluation(0.9),
    "in a ball": mr.GLM("logistic", constraint=mr.sets.Ball(0.3)),
}
IN_ORDER = (
    mr.Multiscale(),
    mr.Multiscale(epochs=3),
    mr.Multiscale(phases=3),
    mr.Multiscale(phases="all"),
    mr.Interleaved(70),
    mr.Serial(),
    mr.Skip(7),
)
AT_RANDOM = (
    mr.Dyadic(),
    mr.Shuffle(0),
    mr.Uniform(0),
    mr.Reverse(10, 2),
    mr.Multiscale(phases=2, sweep=True),
)


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    buffer = record()
    return buffer, stored(tmp_path_factory.mktemp("stored"), buffer)


@pytest.mark.parametrize("order", IN_ORDER, ids=repr)
@pytest.mark.parametrize("name", PROBLEMS)
def test_orders_in_one_pass_agree_bit_for_bit(both, name, order):
    for step in (0.02, "auto"):
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)  # of random access
            memory, disk = (mr.solve(PROBLEMS[name], buffer, replay=order, step=step) for buffer in both)
        assert len(memory.epochs) == len(disk.epochs)
        for one, other in zip(memory.epochs, disk.epochs, strict=True):
            assert np.array_equal(one.last, other.last)
            assert np.array_equal(one.average, other.average)
            assert one.residual == pytest.approx(other.residual)
        assert np.array_equal(memory.x, disk.x)


@pytest.mark.parametrize(
    ("order", "passes"),
    [
        (mr.Multiscale(phases="all"), "the record is read once more"),
        (mr.Multiscale(phases=50), "the record is read . times more"),
    ],
    ids=repr,
)
def test_chains_that_do_not_fit_take_passes_in_parts_with_the_same_bits(both, monkeypatch, order, passes):
    monkeypatch.setattr(stepper, "MEMORY", 1000)
    memory = mr.solve(mr.GLM(), both[0], replay=order, step=0.02)
    with pytest.warns(UserWarning, match=passes):
        disk = mr.solve(mr.GLM(), both[1], replay=order, step=0.02)
    for one, other in zip(memory.epochs, disk.epochs, strict=True):
        assert np.array_equal(one.average, other.average)
        assert np.array_equal(one.last, other.last)


def test_chains_that_do_not_fit_are_read_once(both, monkeypatch):
    """The pass in order, the one in parts, and the residuals: no row more often, but for those next to a block."""
    monkeypatch.setattr(stepper, "MEMORY", 4000)
    monkeypatch.setattr(plain, "in_step", lambda *given: False)  # which looks at 2^13 rows of however many there are
    taken, original = [], type(both[1]).take
    monkeypatch.setattr(
        type(both[1]), "take", lambda self, rows, *more: taken.append(len(rows)) or original(self, rows, *more)
    )
    with pytest.warns(UserWarning, match="once more"):
        mr.solve(mr.GLM(), both[1], replay=mr.Multiscale(phases="all"), step=0.02)
    assert sum(taken) < 1.2 * len(both[1])


@pytest.mark.parametrize("order", AT_RANDOM, ids=repr)
@pytest.mark.parametrize("name", PROBLEMS)
def test_orders_at_random_agree_and_say_what_they_cost(both, name, order):
    memory = mr.solve(PROBLEMS[name], both[0], replay=order, step=0.02)
    with pytest.warns(UserWarning, match="in random order reads about .* times the bytes"):
        disk = mr.solve(PROBLEMS[name], both[1], replay=order, step=0.02)
    assert np.allclose(memory.x, disk.x, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_default_agrees(both, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        memory, disk = (mr.solve(PROBLEMS[name], buffer) for buffer in both)
    assert np.allclose(memory.x, disk.x, rtol=1e-9, atol=1e-11)
    assert memory.passes == pytest.approx(disk.passes)


def test_an_operator_of_ones_own(both):
    problem = mr.VariationalInequality(lambda x, sample: x - sample, dim=2)
    with pytest.warns(UserWarning, match="does not read the record in order"):
        disk = mr.solve(problem, both[1], step=0.01)
    assert np.allclose(mr.solve(problem, both[0], step=0.01).x, disk.x, rtol=1e-9)


def test_several_steps_are_carried_through_one_pass(both):
    for order in (mr.Multiscale(), mr.Interleaved(64), mr.Multiscale(phases=2)):
        together = mr.solve(mr.GLM(), both[1], replay=order, step=(0.02, 0.005))
        alone = [mr.solve(mr.GLM(), both[0], replay=order, step=step) for step in (0.02, 0.005)]
        apart = [epoch for result in alone for epoch in result.epochs]
        assert all(
            np.array_equal(one.average, other.average) for one, other in zip(together.epochs, apart, strict=True)
        )
        assert together.epochs[together.chosen].residual == min(epoch.residual for epoch in together.epochs)


@pytest.mark.parametrize("seed", range(4))
def test_extremes_are_those_of_the_whole_record(tmp_path, seed):
    buffer = record(8000, 3, seed)
    disk = stored(tmp_path, buffer)
    x0 = np.random.default_rng(seed).standard_normal(3) * (seed % 2)
    for problem in (mr.GLM("exp"), mr.PolicyEvaluation(0.5)):
        memory = MemoryRecord(problem, problem.columns(buffer)).samples
        small = extreme_samples(StoredRecord(problem, disk), x0)
        assert len(small.features) < 500
        assert problem.lipschitz(small) == problem.lipschitz(memory)
        assert problem.limit(small, x0) == pytest.approx(problem.limit(memory, x0), rel=1e-12)


def test_a_value_the_problem_cannot_have_is_named(tmp_path):
    y = np.zeros(50_000)
    y[43_210] = 2.0
    disk = stored(tmp_path, mr.Buffer(features=np.ones((50_000, 1)), targets=y))
    with pytest.raises(
        mr.InputError, match=r"'targets' holds 2 at row \d+ .* \(rows counted from row \d+ of the record\)"
    ):
        mr.solve(mr.GLM("logistic"), disk, replay=mr.Multiscale(), step=0.1)


def test_columns_that_are_missing_are_named(tmp_path):
    disk = stored(tmp_path, mr.Buffer(features=np.ones((50_000, 2))))
    with pytest.raises(mr.InputError, match="needs the column targets"):
        mr.solve(mr.GLM(), disk)


def test_holding_out_needs_memory(both):
    with pytest.raises(mr.InputError, match="needs a buffer in memory"):
        mr.solve(mr.GLM(), both[1], holdout=0.2)


def test_a_run_on_disk_that_diverges_is_noticed(both):
    for order in (mr.Skip(150), mr.Interleaved(64), mr.Multiscale(epochs=4)):
        with pytest.warns(mr.DivergenceWarning):
            disk = mr.solve(mr.GLM(), both[1], replay=order, step=20.0)
        with pytest.warns(mr.DivergenceWarning):
            memory = mr.solve(mr.GLM(), both[0], replay=order, step=20.0)
        assert [epoch.diverged for epoch in disk.epochs] == [epoch.diverged for epoch in memory.epochs]


def test_a_reading_in_parts_names_the_row(tmp_path, monkeypatch):
    monkeypatch.setattr(stepper, "MEMORY", 0)
    buffer = record()
    targets = buffer["targets"].copy()
    targets[2000] = 2.0
    mr.Buffer(features=buffer["features"], targets=targets).save(tmp_path / "record")
    stored = mr.Buffer.open(tmp_path / "record", memory=180_000)
    with pytest.raises(mr.InputError, match=r"holds 2 at row 0 .*rows counted from row 2000 of the record"):
        mr.solve(mr.GLM("logistic"), stored, replay=mr.Multiscale(epochs=1, phases="all"), step=0.01)


def test_the_budget_changes_no_bit(tmp_path, monkeypatch):
    """Neither do several step sizes; where it is too little for the parts, this is said."""
    monkeypatch.setattr(stepper, "MEMORY", 3000)
    monkeypatch.setattr(chains, "ASIDE", 6000)
    buffer = record()
    options = {"replay": mr.Multiscale(phases="all"), "step": (0.02, 0.01)}
    memory = mr.solve(mr.GLM(), buffer, **options)
    buffer.save(tmp_path / "record")
    for budget in (600_000, 500_000):
        with pytest.warns(UserWarning, match="once more"):
            disk = mr.solve(mr.GLM(), mr.Buffer.open(tmp_path / "record", memory=budget), **options)
        for one, other in zip(memory.epochs, disk.epochs, strict=True):
            assert np.array_equal(one.average, other.average)
    monkeypatch.setattr(StoredRecord, "at_once", lambda self, aside=0: 20)
    with (
        pytest.warns(UserWarning, match="once more"),
        pytest.raises(mr.InputError, match=r"memory= is too little for .* times as much"),
    ):
        mr.solve(mr.GLM(), mr.Buffer.open(tmp_path / "record", memory=budget), **options)


@pytest.mark.parametrize("update", [mr.Plain(), mr.RichardsonRomberg()], ids=repr)
def test_one_chain_and_two_step_sizes_read_in_order(both, update):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        for order in (mr.Interleaved(1), mr.Multiscale(epochs=3)):
            memory, disk = (mr.solve(mr.GLM(), buffer, replay=order, step=0.01, update=update) for buffer in both)
            assert np.array_equal(memory.x, disk.x)


def test_step_sizes_without_room_side_by_side_are_run_one_after_the_other(both, tmp_path):
    options = {"replay": mr.Interleaved(1500), "step": (0.02, 0.01, 0.005, 0.002)}
    memory = mr.solve(mr.GLM(), both[0], **options)
    with pytest.warns(UserWarning, match=r"no room for the iterates of 4 step sizes .* is read anew for each"):
        disk = mr.solve(mr.GLM(), both[1], **options)
    for one, other in zip(memory.epochs, disk.epochs, strict=True):
        assert np.array_equal(one.average, other.average)
    with pytest.raises(mr.InputError, match=r"no room for .* give more memory="):
        mr.solve(mr.GLM(), both[1], checkpoint=tmp_path / "state", **options)
