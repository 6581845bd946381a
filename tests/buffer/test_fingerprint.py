from __future__ import annotations

import os
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from written import FORMS, stored, write

import multireplay as mr
from multireplay.buffer import fingerprint as module
from multireplay.buffer.fingerprint import Fingerprint

DTYPES = (np.float64, np.float32, np.bool_)


@pytest.fixture(scope="module", params=["usual", "tiny"], autouse=True)
def blocks(request):
    """Blocks of their usual size, and ones so small that small arrays have many of them."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "tiny":
            patch.setattr(module, "WORDS", 3)
        yield


@st.composite
def records(draw: st.DrawFn) -> dict[str, np.ndarray]:
    rows = draw(st.integers(2, 40))
    found = {}
    for name in ("features", "targets"):
        dtype = np.dtype(draw(st.sampled_from(DTYPES)))
        shape = (rows,) if name == "targets" else (rows, draw(st.integers(1, 5)))
        finite = {"allow_nan": False, "allow_infinity": False} if dtype.kind == "f" else {}
        found[name] = draw(hnp.arrays(dtype, shape, elements=hnp.from_dtype(dtype, **finite)))
    return found


def of(columns: dict[str, object]) -> str:
    return mr.Buffer(**columns).fingerprint()


def copied(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: array.copy() for name, array in columns.items()}


class TestInMemory:
    @settings(deadline=None)
    @given(columns=records(), data=st.data())
    def test_every_bit_of_every_value_counts(self, columns, data):
        name = data.draw(st.sampled_from(sorted(columns)))
        changed = copied(columns)
        flat = changed[name].reshape(-1)
        place = data.draw(st.integers(0, len(flat) - 1))
        if flat.dtype == np.bool_:
            flat[place] = not flat[place]
        else:
            bit = data.draw(st.integers(0, 8 * flat.itemsize - 1))
            bits = flat[place : place + 1].view(f"u{flat.itemsize}")
            bits ^= bits.dtype.type(1 << bit)
            assume(np.isfinite(flat[place]))
        assert of(changed) != of(columns)
        assert of(copied(columns)) == of(columns)

    @settings(deadline=None)
    @given(columns=records(), data=st.data())
    def test_the_order_of_rows_counts(self, columns, data):
        one, other = data.draw(st.lists(st.integers(0, len(columns["targets"]) - 1), min_size=2, max_size=2))
        order = np.arange(len(columns["targets"]))
        order[[one, other]] = order[[other, one]]
        changed = {name: array[order] for name, array in columns.items()}
        alike = all(changed[name].tobytes() == columns[name].tobytes() for name in columns)
        assert (of(changed) == of(columns)) == alike

    @settings(deadline=None)
    @given(columns=records(), data=st.data())
    def test_signs_of_many_values_count(self, columns, data):
        array = columns["features"]
        assume(array.dtype != np.bool_)
        flip = data.draw(hnp.arrays(np.bool_, array.shape))
        assume(flip.any())
        assert of({**columns, "features": np.where(flip, -array, array)}) != of(columns)

    def test_names_types_and_shapes_count(self):
        a, b = np.zeros((6, 2)), np.zeros(6)
        others = [
            {"features": a, "targets": b},
            {"features": a, "rewards": b},
            {"features": a.astype(np.float32), "targets": b},
            {"features": a, "targets": b.astype(bool)},
            {"features": np.zeros((6, 1)), "targets": b},
            {"features": b, "targets": b},
            {"features": a[:3], "targets": b[:3]},
            {"features": a},
            {"features": scipy.sparse.csr_array(a), "targets": b},
        ]
        found = [of(columns) for columns in others]
        assert len(set(found)) == len(others)
        assert all(len(text) == 32 and int(text, 16) >= 0 for text in found)
        assert of({"targets": b, "features": a}) == found[0]

    @settings(deadline=None)
    @given(columns=records())
    def test_how_it_lies_in_memory_does_not_count(self, columns):
        wide = {name: np.repeat(array, 2, axis=0)[::2] for name, array in columns.items()}
        back = {name: array[::-1].copy()[::-1] for name, array in columns.items()}
        by_feature = {name: np.asfortranarray(array) for name, array in columns.items()}
        assert of(wide) == of(back) == of(by_feature) == of(columns)

    def test_sparse_columns(self):
        dense = np.random.default_rng(0).standard_normal((30, 8)) * (np.random.default_rng(1).random((30, 8)) < 0.2)
        column = scipy.sparse.csr_array(dense)
        value, place = column.copy(), dense.copy()
        value.data[7] += 1e-12
        row, feature = np.argwhere(dense)[3]
        place[row, feature], place[row, np.flatnonzero(dense[row] == 0)[0]] = 0.0, dense[row, feature]
        below = np.roll(dense, 1, axis=0)
        variants = [column, value, scipy.sparse.csr_array(place), scipy.sparse.csr_array(below), column[:29]]
        variants += [scipy.sparse.csr_array((30, 8)), scipy.sparse.csr_array(column, shape=(30, 8)).astype(np.float32)]
        assert len({of({"features": variant}) for variant in variants}) == len(variants)
        assert mr.Buffer(features=column)[3:20].fingerprint() == of({"features": column[3:20]})

    def test_another_library(self):
        torch = pytest.importorskip("torch")
        strict = pytest.importorskip("array_api_strict")
        array = np.random.default_rng(0).standard_normal((50, 3))
        for like in (torch.from_numpy, strict.asarray):
            assert of({"features": like(array)}) == of({"features": array})
            assert of({"features": like(array[::-1].copy())}) != of({"features": array})

    def test_wide_rows_and_a_rest_of_bytes(self):
        wide = np.zeros((2, 3 * module.WORDS + 5), dtype=np.float32)
        for place in (0, wide.size // 2, wide.size - 1):
            other = wide.copy()
            other.flat[place] = 1
            assert of({"features": other}) != of({"features": wide})

    def test_it_is_one_for_all_times(self):
        found = Fingerprint()
        found.add_array("x", np.arange(3.0))
        assert found.text() == "2fd3d1deb5b29a2bb6f4a4df0a5a85f1"  # a checkpoint of an earlier version is still known


def resaved(path, columns, mapping=None):
    """The fingerprint of these columns as a folder with checksums."""
    mr.Buffer(**columns).save(path)
    return stored(path, mapping).fingerprint()


class TestOnDisk:
    COLUMNS: ClassVar = {"a": np.arange(60.0).reshape(20, 3), "b": np.arange(20.0)}

    def test_a_saved_buffer_is_known_by_its_checksums(self, tmp_path):
        one = resaved(tmp_path / "one", self.COLUMNS)
        assert resaved(tmp_path / "copy", self.COLUMNS) == one  # another place, another time
        changed = copied(self.COLUMNS)
        changed["a"][11, 1] += 1e-9
        others = [
            resaved(tmp_path / "changed", changed),
            resaved(tmp_path / "rolled", {name: np.roll(array, 1, axis=0) for name, array in self.COLUMNS.items()}),
            resaved(tmp_path / "renamed", {"a": self.COLUMNS["a"], "c": self.COLUMNS["b"]}),
            resaved(tmp_path / "single", {name: array.astype("f4") for name, array in self.COLUMNS.items()}),
            resaved(tmp_path / "shorter", {name: array[:-1] for name, array in self.COLUMNS.items()}),
        ]
        assert len({one, *others}) == 6

    @pytest.mark.parametrize("form", FORMS)
    def test_every_form_notices_what_was_written_again(self, form, tmp_path):
        path, mapping = write(form, tmp_path, self.COLUMNS)
        before = stored(path, mapping).fingerprint()
        assert stored(path, mapping).fingerprint() == before
        changed = copied(self.COLUMNS)
        changed["a"][11, 1] += 1
        write(form, tmp_path, changed)
        assert stored(path, mapping).fingerprint() != before

    def test_the_mapping_counts(self, tmp_path):
        path, _ = write("folder", tmp_path, self.COLUMNS)
        mappings = [
            None,
            {"a": "a"},
            {"x": "a", "b": "b"},
            {"a": "b", "b": "a"},
            {"a": "a", "b": ("b", 1)},
            {"a": ("a", 1), "b": ("b", 1)},
            {"a": ("a", 1), "b": "b"},
            {"a": ["a", "b"], "b": "b"},
            {"a": "a", "b": ["b"]},
        ]
        found = [stored(path, mapping).fingerprint() for mapping in mappings]
        assert len(set(found)) == len(mappings)
        np.save(tmp_path / "bare.npy", self.COLUMNS["a"])
        picks = [{"features": pick} for pick in ([0, 1], [1, 0], slice(0, 2), slice(0, 3), [0], 0)]
        assert len({stored(tmp_path / "bare.npy", pick).fingerprint() for pick in picks}) == 5

    def test_other_columns_of_a_folder_do_not_count(self, tmp_path):
        path, _ = write("folder", tmp_path, self.COLUMNS)
        before = stored(path, {"a": "a"}).fingerprint()
        np.save(tmp_path / "b.npy", np.zeros(20))
        assert stored(path, {"a": "a"}).fingerprint() == before

    def test_a_copy_that_keeps_the_time_is_the_same(self, tmp_path):
        os.makedirs(tmp_path / "there")
        path, _ = write("lists", tmp_path, self.COLUMNS)
        copy = tmp_path / "there" / "other.parquet"
        copy.write_bytes(path.read_bytes())
        assert stored(copy).fingerprint() != stored(path).fingerprint()
        os.utime(copy, ns=(0, path.stat().st_mtime_ns))
        assert stored(copy).fingerprint() == stored(path).fingerprint()

    def test_the_index_of_a_parquet_file_tells_its_values(self, tmp_path):
        """A file whose index is longer than the end that is looked at, with size and time put back."""
        rows = 4000
        tables = [pa.table({"a": np.arange(rows) + np.eye(1, rows, 1)[0] * more}) for more in (0.0, 0.5)]
        found = []
        for number, table in enumerate(tables):
            path = tmp_path / f"{number}.parquet"
            pq.write_table(table, path, row_group_size=2, compression="none", use_dictionary=False)
            os.utime(path, ns=(0, 10**18))
            found.append((path.stat().st_size, stored(path).fingerprint()))
        assert found[0][0] == found[1][0]
        assert found[0][1] != found[1][1]

    def test_csv(self, tmp_path):
        path = tmp_path / "a.csv"
        path.write_text("x,y\n1,2\n3,4\n")
        before = stored(path).fingerprint()
        assert stored(path, {"x": "x"}).fingerprint() != before
        path.write_text("x,y\n1,2\n3,5\n")
        assert stored(path).fingerprint() != before

    def test_a_file_that_changed_or_went(self, tmp_path):
        path, _ = write("folder", tmp_path, self.COLUMNS)
        buffer = stored(path)
        np.save(tmp_path / "a.npy", np.zeros((20, 4)))
        with pytest.raises(mr.InputError, match="has changed since it was opened"):
            buffer.fingerprint()
        (tmp_path / "a.npy").unlink()
        with pytest.raises(mr.InputError, match=r"a.npy cannot be read: No such file"):
            buffer.fingerprint()
