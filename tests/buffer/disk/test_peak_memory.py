"""Peak memory of a process that streams, above that of the same process before it opens anything."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import multireplay as mr

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc to measure memory")

STREAM = """
import json, os, sys

if sys.argv[5:] == ["one core"] and hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import numpy as np, pyarrow.csv, pyarrow.parquet, multireplay as mr
from multireplay.buffer.disk import parquet, zipped

def peak():
    return 1024 * next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))

mr.Buffer.open(sys.argv[4])  # the program's own pages come in when it first runs
before = peak()
stored = mr.Buffer.open(sys.argv[1], memory=sys.argv[2], columns=json.loads(sys.argv[3]))
rows, total = 0, 0.0
for _ in range(2):
    for first, block in stored.blocks():
        assert first == rows % len(stored)
        rows += len(block["features"])
        total += float(block["features"].sum())
    del block
stored.take(np.random.default_rng(0).integers(0, len(stored), 1000))
print(json.dumps({"rows": rows, "total": total, "above": peak() - before, "bytes": stored.nbytes}))
"""


def streamed(path, memory, columns=None, code=STREAM, cores="all cores"):
    small = path.parent / "small.parquet"
    pq.write_table(pa.table({"features": [1.0]}), small)
    command = [sys.executable, "-c", code, str(path), memory, json.dumps(columns), str(small), cores]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def test_arrays(tmp_path):
    rows, dim = 375_000, 100
    (tmp_path / "record").mkdir()  # zeros that take no place on the disk, and one row of ones
    with (tmp_path / "record" / "features.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (rows, dim)})
        start = file.tell()
        file.truncate(start + rows * dim * 8)
        file.seek(start + 200_000 * dim * 8)
        file.write(np.ones(dim).tobytes())
    found = streamed(tmp_path / "record", "64 MB")
    assert found["bytes"] == 300e6
    assert (found["rows"], found["total"]) == (2 * rows, 200.0)
    assert found["above"] < 64e6


@pytest.mark.parametrize("cores", ["one core", "all cores"])
@pytest.mark.parametrize(("dim", "wide", "memory"), [(50, False, 48e6), (10, True, 80e6)])
def test_parquet(tmp_path, dim, wide, memory, cores):
    """One row group that is larger than the budget; a column of its own for every feature needs pages of its own.

    On one core the threads of two passes run after each other, and each used to leave its memory with the allocator.
    """
    values = np.tile(np.random.default_rng(0).standard_normal((1000, dim)), (10_000 // dim, 1))
    if wide:
        given = pa.table({f"f{feature}": values[:, feature].copy() for feature in range(dim)})
    else:
        given = pa.table({"features": pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), dim)})
    pq.write_table(given, tmp_path / "a.parquet", row_group_size=len(values), use_dictionary=False, compression="none")
    columns = {"features": given.column_names if wide else "features"}
    found = streamed(tmp_path / "a.parquet", f"{memory / 1e6:.0f} MB", columns, cores=cores)
    assert found["bytes"] == 80e6
    assert found["rows"] == 2 * len(values)
    assert found["total"] == pytest.approx(2 * values.sum())
    assert found["above"] < memory


ORDERED = (
    STREAM.split("before = peak()")[0]
    + """
order = {"Shuffle": mr.Shuffle(0), "Dyadic": mr.Dyadic(), "Uniform": mr.Uniform(0)}[sys.argv[5]]

def solved(path, memory):
    return mr.solve(mr.GLM(), mr.Buffer.open(path, memory=memory), replay=order, step=1e-3)

solved(sys.argv[3][1:-1], "4 MB")  # compiles
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")
before = peak()
solved(sys.argv[1], sys.argv[2])
print(peak() - before)
"""
)


@pytest.mark.parametrize("order", ["Shuffle", "Dyadic", "Uniform"])
@pytest.mark.parametrize(("rows", "dim"), [(1_000_000, 3), (60_000, 70)])
def test_random_orders(tmp_path, order, rows, dim):
    """Narrow rows, whose places take more than they do, and wide ones."""
    rng = np.random.default_rng(1)
    mr.Buffer(features=rng.standard_normal((rows, dim)), targets=rng.standard_normal(rows)).save(tmp_path / "record")
    mr.Buffer(features=rng.standard_normal((70_000, 4)), targets=np.zeros(70_000)).save(tmp_path / "few")
    found = streamed(tmp_path / "record", "16 MB", str(tmp_path / "few"), code=ORDERED, cores=order)
    assert found < 16e6


def test_saving_streams_too(tmp_path):
    rows = 4_000_000
    (tmp_path / "record").mkdir()
    np.save(tmp_path / "record" / "features.npy", np.zeros(rows))
    code = STREAM.split("rows, total")[0] + 'stored.save(sys.argv[1] + "/saved")\nprint(peak() - before)\n'
    assert streamed(tmp_path / "record", "24 MB", code=code) < 24e6
    assert len(mr.Buffer.open(tmp_path / "record" / "saved")) == rows
