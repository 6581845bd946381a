"""Fingerprints: 128 bits that tell one record from another, taken at about the speed at which memory is read.

The bytes of an array go through NH, the hash of sums of products of 32-bit halves from UMAC (RFC 4418), with fixed
keys, once for either half of 128 bits: two different blocks of 128 kB have the same value with probability 2^-64, were
the keys drawn at random. The values of the blocks go through BLAKE2b. This tells records apart that differ by chance or
by mistake, not ones that somebody has made to look alike.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from multireplay.buffer import foreign

WORDS = 2**14
"""Words of 64 bits in a block: what is worked out on the way stays in the cache."""
_SHIFT = 4
_KEYS = np.random.PCG64(2**46).random_raw(WORDS + _SHIFT)  # the other 64 bits have the same keys, moved by the shift
_LOW, _HALF = np.uint64(2**32 - 1), np.uint64(32)

Words = NDArray[np.uint64]


class Fingerprint:
    """The fingerprint of whatever is added to it, in that order."""

    def __init__(self) -> None:
        self._digest = blake2b(digest_size=16)
        self._room = np.empty((2, WORDS), np.uint64)

    def text(self) -> str:
        """The fingerprint as 32 letters."""
        return self._digest.hexdigest()

    def add_facts(self, facts: Any) -> None:
        """Add what JSON can say: numbers, texts, lists and dictionaries of them."""
        self._digest.update(json.dumps(facts, sort_keys=True).encode() + b"\n")

    def add_array(self, name: str, array: Any) -> None:
        """Add name, type, shape and all values of an array: dense or sparse, of NumPy or another library.

        It is read in blocks of rows, which alone are copied where they are not contiguous or on a device.
        """
        if issparse(array):
            rows = array.tocsr()
            self.add_facts([name, "sparse", list(rows.shape)])
            for part in ("data", "indices", "indptr"):
                self.add_array(part, getattr(rows, part))
            return
        shape = list(map(int, array.shape))
        kind = foreign.as_numpy(foreign.rows_of(array, slice(0, 1))).dtype
        self.add_facts([name, kind.str, shape])
        row_bytes = kind.itemsize * int(np.prod(shape[1:]))
        for rows in foreign.blocks(shape[0], max(1, 64 * WORDS // max(1, row_bytes))):
            block = np.ascontiguousarray(foreign.as_numpy(foreign.rows_of(array, rows)))
            self._add_bytes(block.reshape(-1).view(np.uint8))

    def _add_bytes(self, values: NDArray[np.uint8]) -> None:
        for start in range(0, len(values), 8 * WORDS):
            block = values[start : start + 8 * WORDS]
            if len(block) % 8:
                block = np.concatenate([block, np.zeros(-len(block) % 8, np.uint8)])
            self._digest.update(self._folded(block.view(np.uint64), 0) + self._folded(block.view(np.uint64), _SHIFT))

    def _folded(self, words: Words, shift: int) -> bytes:
        """Σ (low half of w_t + k_t)·(high half of w_t + k_t) mod 2^64, where w_t + k_t is added in halves."""
        count = len(words)
        low, high = self._room[:, :count]
        keys = _KEYS[shift : shift + count]
        np.add(words.view(np.uint32), keys.view(np.uint32), out=low.view(np.uint32))
        np.right_shift(low, _HALF, out=high)
        np.bitwise_and(low, _LOW, out=low)
        np.multiply(low, high, out=low)
        return bytes(low.sum(dtype=np.uint64).tobytes())
