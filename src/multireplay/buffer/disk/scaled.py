"""A record on disk whose features are standardized as they are read, with a column of ones beside them."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any

import numpy as np

from multireplay.buffer.columns import Array
from multireplay.buffer.disk.source import Field
from multireplay.buffer.disk.stored import StoredBuffer
from multireplay.buffer.fingerprint import Fingerprint
from multireplay.buffer.names import INTERCEPT

Scaled = tuple[tuple[float, ...], tuple[float, ...]]
"""The mean and the scale of every feature."""


class ScaledBuffer(StoredBuffer):
    """The first rows of a record on disk with features ((x − mean)/scale, 1): nothing of it is written anywhere.

    Examples
    --------
    >>> import tempfile, numpy as np, multireplay as mr
    >>> folder = tempfile.TemporaryDirectory()
    >>> np.save(folder.name + "/features.npy", np.arange(400_000.0).reshape(-1, 2))
    >>> stored = mr.Buffer.open(folder.name, memory="5 MB")
    >>> ScaledBuffer(stored, ((0.0, 1.0), (2.0, 4.0))).take([1])["features"]
    array([[1. , 0.5, 1. ]])
    >>> folder.cleanup()
    """

    def __init__(self, stored: StoredBuffer, scaled: Scaled, rows: int | None = None) -> None:
        _, columns, left_out = stored.made_of
        super().__init__(stored._source, columns, stored.memory, stored.feature_names, left_out)
        self.scaled, self._length = scaled, len(stored) if rows is None else rows
        self._mean, self._scale = map(np.array, scaled)
        field = self._fields["features"]
        self._fields["features"] = Field(field.dtype, len(self._mean) + 1)
        if self._feature_names is not None:
            self._feature_names = (*self._feature_names, INTERCEPT)

    def blocks(
        self, names: Iterable[str] | None = None, first: int = 0, last: int | None = None, aside: int = 0
    ) -> Generator[tuple[int, dict[str, Array]], None, None]:
        for start, block in super().blocks(names, first, last, aside):
            yield start, self._designed(block)

    def take(self, rows: Any, names: Iterable[str] | None = None, verified: bool = True) -> dict[str, Array]:
        return self._designed(super().take(rows, names, verified))

    def _designed(self, block: dict[str, Array]) -> dict[str, Array]:
        if "features" not in block:
            return block
        rows = block["features"]
        out = np.ones((len(rows), rows.shape[1] + 1), dtype=rows.dtype)
        np.subtract(rows, self._mean, out=out[:, :-1], casting="same_kind")
        out[:, :-1] /= self._scale
        return {**block, "features": out}

    def fingerprint(self) -> str:
        found = Fingerprint()
        found.add_facts([super().fingerprint(), list(map(list, self.scaled))])
        return found.text()
