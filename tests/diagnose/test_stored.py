"""Diagnoses of records on disk: those of the same record in memory, whoever measures."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from disk_records import budget
from scipy.signal import lfilter
from spread_tasks import Posted

import multireplay as mr


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    noise = np.random.default_rng(0).standard_normal((60_000, 4))
    slow = lfilter([1.0], [1.0, -0.9], noise[:, :2], axis=0)
    features = np.column_stack([slow, noise[:, 2], np.ones(len(noise)), np.sin(np.arange(len(noise)) / 4) + slow[:, 0]])
    buffer = mr.Buffer(features=features, targets=noise[:, 3], names=["a", "b", "c", "one", "wave"])
    folder = tmp_path_factory.mktemp("diagnosed") / "record"
    buffer.save(folder)
    return buffer, mr.Buffer.open(folder, memory=budget(buffer))


def numbers(diagnosis):
    curves = [(curve.label, curve.tau, curve.values.tobytes()) for curve in diagnosis.curves]
    return [asdict(column) for column in diagnosis.columns], curves, str(diagnosis)


def test_on_disk_and_by_workers_as_in_memory(both):
    here = mr.diagnose(both[0])
    whole = mr.diagnose(both[0], on=Posted())
    assert numbers(whole) == numbers(here)
    assert here.columns[0].tau_max > 10


def test_a_record_on_disk_without_workers(both):
    there = [mr.diagnose(both[1], on=on) for on in (None, Posted(), Posted(7))]
    assert numbers(there[0]) == numbers(there[1]) == numbers(there[2])
    assert there[0].columns[0].worst_name in ("a", "b", "wave")


def test_some_features_of_many(both):
    pool = Posted()
    here, there = mr.diagnose(both[0], max_features=2), mr.diagnose(both[0], max_features=2, on=pool)
    assert numbers(here) == numbers(there)


def test_groups_are_chains_there_too(both):
    groups = np.repeat(np.arange(4), 15_000)
    buffer = mr.Buffer(features=both[0]["features"], targets=both[0]["targets"], groups=groups)
    assert numbers(mr.diagnose(buffer, on=Posted())) == numbers(mr.diagnose(buffer))


def test_a_record_too_long_for_memory_is_measured_in_its_middle(tmp_path):
    np.save(tmp_path / "targets.npy", np.random.default_rng(1).standard_normal(400_000))
    found = mr.diagnose(mr.Buffer.open(tmp_path, memory="4 MB"))
    assert found.rows == 2**16
    assert "rows 167232 to 232767" in found.about[0]
    assert found.tau == pytest.approx(1.0, abs=0.1)


def test_what_is_for_memory_alone_is_refused(both):
    with pytest.raises(mr.InputError, match="in memory"):
        mr.diagnose(both[1], groups=np.zeros(60_000))
    with pytest.raises(mr.InputError, match="in memory"):
        mr.diagnose({"a": np.zeros(100)}, on=Posted())
