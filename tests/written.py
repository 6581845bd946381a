"""Columns written to disk in every form that can be opened, by other means than the package's own."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from multireplay.buffer.disk.layout import Assembly, resolve
from multireplay.buffer.disk.opening import find_source
from multireplay.buffer.disk.stored import StoredBuffer

FORMS = ["folder", "fortran", "npz", "npz_compressed", "npz_fortran", "lists", "ragged", "parts", "wide"]


def write(form: str, where: Path, columns: dict[str, np.ndarray]) -> tuple[Path, dict[str, object] | None]:
    """The path that was written, and the mapping that gives the columns back."""
    if form in ("folder", "fortran"):
        for name, array in columns.items():
            np.save(where / f"{name}.npy", np.asfortranarray(array) if form == "fortran" else array)
        return where, None
    if form.startswith("npz"):
        save = np.savez_compressed if form == "npz_compressed" else np.savez
        arrays = {name: np.asfortranarray(array) if form == "npz_fortran" else array for name, array in columns.items()}
        save(where / "columns.npz", **arrays)
        return where / "columns.npz", None
    if form == "parts":
        rows = len(next(iter(columns.values())))
        cuts = [0, rows // 3, rows // 3, rows]
        for number, (start, stop) in enumerate(itertools.pairwise(cuts), start=9):
            part = {name: array[start:stop] for name, array in columns.items()}
            pq.write_table(table(part, "fixed"), where / f"part-{number}.parquet", row_group_size=5)
        return where, None
    kind = {"lists": "fixed", "ragged": "ragged", "wide": "wide"}[form]
    pq.write_table(table(columns, kind), where / "columns.parquet", row_group_size=7, compression="snappy")
    mapping = None
    if form == "wide":
        mapping = {
            name: name if array.ndim == 1 else [f"{name}{feature}" for feature in range(array.shape[1])]
            for name, array in columns.items()
        }
    return where / "columns.parquet", mapping


def table(columns: dict[str, np.ndarray], kind: str) -> pa.Table:
    found: dict[str, pa.Array] = {}
    for name, array in columns.items():
        if array.ndim == 1:
            found[name] = pa.array(array)
        elif kind == "fixed":
            found[name] = pa.FixedSizeListArray.from_arrays(pa.array(array.ravel()), array.shape[1])
        elif kind == "ragged":
            found[name] = pa.array([row.tolist() for row in array], pa.list_(pa.from_numpy_dtype(array.dtype)))
        else:
            found |= {f"{name}{feature}": pa.array(array[:, feature].copy()) for feature in range(array.shape[1])}
    return pa.table(found)


def stored(path: Path, columns: object = None, rows: int = 3) -> StoredBuffer:
    """A buffer on disk whose blocks have `rows` rows, however small it is."""
    source = find_source(path, 10**9)
    chosen = resolve(columns, source)
    assembly = Assembly(source, list(dict.fromkeys(column.layout for column in chosen.values())))
    overlap = max(column.shift for column in chosen.values())
    a_row = max(assembly.row_bytes, assembly.scratch_bytes)
    return StoredBuffer(source, chosen, source.overhead(assembly.names) + 4 * a_row * (rows + overlap))


def joined(buffer: StoredBuffer, *args, **kwargs) -> dict[str, np.ndarray]:
    blocks = list(buffer.blocks(*args, **kwargs))  # kept, so that reused memory would show
    assert all(array.flags.c_contiguous for _, block in blocks for array in block.values())
    starts = np.cumsum([kwargs.get("first", 0), *(len(next(iter(block.values()))) for _, block in blocks)])
    assert [first for first, _ in blocks] == starts[:-1].tolist()
    return {name: np.concatenate([block[name] for _, block in blocks]) for name in blocks[0][1]}
