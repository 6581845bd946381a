from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from written import FORMS, joined, stored, write

import multireplay as mr
from multireplay.buffer.disk import files, layout, npy, table
from multireplay.buffer.disk import folder as folder_module
from multireplay.buffer.disk import stored as stored_module

DTYPES = [np.float64, np.float32, np.int64, np.int32, np.uint8, np.bool_]


@pytest.fixture(scope="module", params=["usual", "tiny"], autouse=True)
def pieces(request):
    """Everything in pieces of their usual size, and in pieces so small that small arrays have many of them."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "tiny":
            for module, name, value in (
                (npy, "PIECE", 50), (npy, "NEAR", 30), (npy, "AHEAD", 3),
                (folder_module, "_PIECE", 60), (files, "CHUNK_BYTES", 70), (table, "BATCH_BYTES", 60),
                (layout, "_CHECKED", 40), (stored_module, "STEP", 60),
            ):  # fmt: skip
                patch.setattr(module, name, value)
        yield


@st.composite
def columns(draw: st.DrawFn) -> dict[str, np.ndarray]:
    rows = draw(st.integers(1, 40))
    found = {}
    for name in draw(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3, unique=True)):
        dtype = np.dtype(draw(st.sampled_from(DTYPES)))
        width = draw(st.none() | st.integers(1, 4))
        shape = (rows,) if width is None else (rows, width)
        elements = {"allow_nan": False, "allow_infinity": False} if dtype.kind == "f" else {}
        found[name] = draw(hnp.arrays(dtype, shape, elements=hnp.from_dtype(dtype, **elements)))
    return found


def same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert list(found) == list(expected)
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array, strict=True)


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(columns=columns(), rows=st.integers(1, 20), data=st.data())
def test_every_form_gives_back_what_was_written(form, columns, rows, data):
    with tempfile.TemporaryDirectory() as folder:
        path, mapping = write(form, Path(folder), columns)
        buffer = stored(path, mapping, rows)
        length = len(next(iter(columns.values())))
        assert len(buffer) == length
        if mapping is None:
            columns = {name: columns[name] for name in buffer.names}
        for name, array in columns.items():
            assert buffer.width(name) == (array.shape[1] if array.ndim == 2 else None)
            assert buffer.dtype(name) == array.dtype
        assert buffer.nbytes == sum(array.nbytes for array in columns.values())

        same(joined(buffer), columns)
        first, last = sorted(data.draw(st.tuples(st.integers(0, length - 1), st.integers(1, length))))
        if first < last:
            same(joined(buffer, first=first, last=last), {name: array[first:last] for name, array in columns.items()})
        one = data.draw(st.sampled_from(list(columns)))
        same(joined(buffer, [one]), {one: columns[one]})

        wanted = np.array(data.draw(st.lists(st.integers(0, length - 1), min_size=1, max_size=60)))
        same(buffer.take(wanted), {name: array[wanted] for name, array in columns.items()})
        same(buffer.take(wanted[:1], [one]), {one: columns[one][wanted[:1]]})

        in_memory = mr.Buffer(**columns)
        for loaded in (buffer.load(), mr.Buffer.open(path, mapping)):
            same(dict(loaded.columns), dict(in_memory.columns))
        buffer.save(Path(folder) / "saved")
        same(joined(stored(Path(folder) / "saved", rows=rows)), columns)


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=10, deadline=None)
@given(length=st.integers(2, 30), rows=st.integers(1, 12), shift=st.integers(-3, 3), data=st.data())
def test_shifted_columns(form, length, rows, shift, data):
    psi = np.random.default_rng(0).standard_normal((length + abs(shift), 2))
    here, there = (psi[: len(psi) - shift], psi[shift:]) if shift >= 0 else (psi[-shift:], psi[:shift])
    expected = {"features": here, "next_features": there}
    with tempfile.TemporaryDirectory() as folder:
        path, mapping = write(form, Path(folder), {"psi": psi})
        psi_stored = mapping["psi"] if mapping else "psi"
        wanted = {"features": psi_stored, "next_features": (psi_stored, shift)}
        buffer = stored(path, wanted, rows)
        assert buffer.nbytes == psi.nbytes  # stored and read once
        same(joined(buffer), expected)
        same(joined(buffer, ["next_features"], first=1), {"next_features": there[1:]})
        picked = np.array(data.draw(st.lists(st.integers(0, length - 1), min_size=1)))
        same(buffer.take(picked), {name: array[picked] for name, array in expected.items()})
        loaded = mr.Buffer.open(path, wanted)
        same(dict(loaded.columns), expected)
        assert np.shares_memory(loaded["features"], loaded["next_features"]) or length < 2 + abs(shift)
