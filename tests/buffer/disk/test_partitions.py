"""Dask collections: their partitions in order, one in memory at a time."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from written import joined

import multireplay as mr
from multireplay.buffer.disk.layout import resolve
from multireplay.buffer.disk.partitions import partitioned
from multireplay.buffer.disk.stored import StoredBuffer

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

TRANSITIONS = {"features": ["a", "b"], "next_features": (["a", "b"], +1), "rewards": "r"}


def frame(rows=500):
    rng = np.random.default_rng(6)
    x = rng.standard_normal((rows, 2))
    who = np.where(np.arange(rows) < 200, "one", "two")
    return pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "r": x @ [1.0, 2.0], "t": np.arange(rows), "who": who})


def on_disk(given, columns, in_time=False, rows=37):
    """Read in blocks, however small it is."""
    source = partitioned(given, in_time)
    row = 8 * sum(1 if isinstance(what, str) else len(what[0]) for what in columns.values())
    return StoredBuffer(source, resolve(columns, source), source.overhead(tuple(source.fields)) + 8 * row * rows)


def test_partitions_are_read_in_their_order(tmp_path):
    rows = frame()
    given = dd.from_pandas(rows, npartitions=7)
    by_hand = mr.Buffer(
        features=rows[["a", "b"]].to_numpy()[:-1], next_features=rows[["a", "b"]].to_numpy()[1:], rewards=rows["r"][:-1]
    )
    stored = on_disk(given, TRANSITIONS)
    found = joined(stored)
    for name in TRANSITIONS:
        np.testing.assert_array_equal(found[name], by_hand[name])
        np.testing.assert_array_equal(mr.Buffer.open(given, TRANSITIONS)[name], by_hand[name])
        np.testing.assert_array_equal(stored.take([499 - 1, 3, 72, 71])[name], by_hand[name][[498, 3, 72, 71]])
    problem = mr.PolicyEvaluation(0.9)
    np.testing.assert_array_equal(
        mr.solve(problem, stored).x, mr.solve(problem, on_disk(dd.from_pandas(rows, npartitions=1), TRANSITIONS)).x
    )
    assert stored.where is None
    assert stored.fingerprint() == on_disk(given, TRANSITIONS).fingerprint()
    assert stored.fingerprint() != on_disk(dd.from_pandas(rows, npartitions=6), TRANSITIONS).fingerprint()


def test_groups_and_times_are_those_of_the_frame():
    rows = frame()
    found = mr.Buffer.open(dd.from_pandas(rows, npartitions=7), TRANSITIONS, groups="who", time="t")
    assert (found.chains.count, found.chains.left_out) == (2, 1)


def test_an_order_that_is_not_known_is_refused():
    rows = frame()
    known = dd.from_pandas(rows, npartitions=7)
    for given in (known.clear_divisions(), known.shuffle("r")):
        with pytest.raises(mr.InputError, match="order of the partitions of the Dask DataFrame is not known"):
            mr.Buffer.open(given, TRANSITIONS)
    np.testing.assert_array_equal(mr.Buffer.open(known.clear_divisions(), {"a": "a"}, time="t")["a"], rows["a"])
    with pytest.raises(mr.InputError, match=r"not in time order: partition \d \(counting from 0\) of the Dask DataF"):
        mr.Buffer.open(known.shuffle("r"), TRANSITIONS, time="t")


def test_partitions_are_computed_when_they_are_read():
    made = []

    def make(block_info=None):
        ((first, last),) = block_info[None]["array-location"]
        made.append(first)
        return np.arange(first, last, dtype=float)

    whole = da.map_blocks(make, chunks=((50,) * 40,), dtype=float, meta=np.empty(0))
    blocks = on_disk({"a": whole}, {"a": "a"}).blocks()
    _, block = next(blocks)
    np.testing.assert_array_equal(block["a"], np.arange(len(block["a"])))
    blocks.close()
    assert made == [0, 50, 100, 150][: len(made)]


def test_arrays_by_name_in_any_chunks():
    rng = np.random.default_rng(7)
    values = rng.standard_normal((400, 4))
    x, y = da.from_array(values[:, :3], chunks=(64, 2)), da.from_array(values[:, 3], chunks=100)
    found = joined(on_disk({"features": x, "targets": y}, {"features": "features", "targets": "targets"}))
    np.testing.assert_array_equal(found["features"], values[:, :3])
    np.testing.assert_array_equal(found["targets"], values[:, 3])
    bare = mr.Buffer.open(da.from_array(values, chunks=(64, 4)), {"features": slice(0, 3), "targets": 3})
    np.testing.assert_array_equal(bare["features"], values[:, :3])
    some = x[x[:, 0] > 0]  # of unknown length
    np.testing.assert_array_equal(mr.Buffer.open(some)["samples"], values[values[:, 0] > 0][:, :3])
    assert np.isnan(some.shape[0])


def test_what_is_wrong_names_the_partition():
    rows = frame()
    rows.loc[123, "b"] = np.nan
    with pytest.raises(mr.InputError, match=r"partition 1 \(counting from 0\) of the Dask DataFrame .*'b' at row 23 "):
        mr.Buffer.open(
            dd.from_pandas(rows, chunksize=100, sort=False).repartition(divisions=[0, 100, 300, 499]), TRANSITIONS
        )
    values = np.ones((100, 2))
    values[70, 1] = np.inf
    with pytest.raises(
        mr.InputError, match=r"partition 2 .* of the Dask Array holds inf in column 'samples' at row 10"
    ):
        mr.Buffer.open(da.from_array(values, chunks=(30, 2)))
    counts = iter(range(10, 100))
    unsteady = dd.from_map(lambda _: pd.DataFrame({"a": np.ones(next(counts))}), [0, 1], divisions=(0, 1, 2))
    with pytest.raises(
        mr.InputError, match=r"partition 0 .* has \d+ rows, where it had \d+ when it was first computed"
    ):
        mr.Buffer.open(unsteady)
    with pytest.raises(mr.InputError, match="features has 100 and targets has 90"):
        mr.Buffer.open({"features": da.ones((100, 2)), "targets": da.ones(90)})
    with pytest.raises(mr.InputError, match="it needs 1"):
        mr.Buffer.open(da.ones((2, 2, 2)))
    with pytest.raises(mr.InputError, match="dtype complex128; it needs real numbers"):
        mr.Buffer.open(da.ones(3, dtype=complex))
    import dask.bag

    with pytest.raises(mr.InputError, match="a Dask Bag cannot be opened"):
        mr.Buffer.open(dask.bag.from_sequence([1, 2]))
