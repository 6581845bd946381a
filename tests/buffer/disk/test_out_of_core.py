"""The benchmark of learning from disk, at a size that takes seconds."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest

import multireplay as mr

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "out_of_core.py"

pytestmark = pytest.mark.skipif(
    not (hasattr(os, "posix_fadvise") and Path("/proc/self/status").exists()), reason="measures memory as Linux does"
)


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("out_of_core", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_memory_stays_within_the_budget(benchmark, tmp_path):
    path = tmp_path / "samples"
    benchmark.make_samples(path, rows=200_000, dim=100)  # 162 MB
    benchmark.make_samples(tmp_path / "few", rows=30_000, dim=100)
    others = 50e6  # up to 43 MB seen: compiled loops, threads, the coarse epoch of Newton, and d × d sums
    orders = ("interleaved", "multiscale", "all phases", "default", "exact")  # the default makes corrections
    for order in orders:  # compiling takes memory too, once
        benchmark.learn(tmp_path / "few", "48 MB", order)
    for what, more in (("read", 0.0), *((order, others) for order in orders)):
        run = benchmark.measure(what, path, "48 MB")
        assert run["memory"] < benchmark.MOST_MEMORY
        assert run["above"] < 48e6 + more
        assert run["seconds"] > 0


def test_samples_are_what_they_should_be(benchmark, tmp_path):
    path = tmp_path / "samples"
    benchmark.make_samples(path, rows=150_000, dim=4, dtype="float32", seed=3)
    buffer = mr.Buffer.open(path)
    features, targets = buffer["features"].astype(float), buffer["targets"]
    assert features.dtype.itemsize == 2 * buffer["features"].dtype.itemsize == 2 * targets.dtype.itemsize
    assert np.allclose(features.var(axis=0), 1, atol=0.15)
    lagged = (features[1:] * features[:-1]).mean(axis=0) / features.var(axis=0)
    assert np.allclose(lagged, benchmark.CORRELATION, atol=0.01)  # also where one block goes over into the next
    assert set(np.unique(targets)) == {0.0, 1.0}
    fitted = mr.GLM("logistic").fit_exactly(buffer)
    assert abs(np.linalg.norm(fitted) - 1) < 0.1
