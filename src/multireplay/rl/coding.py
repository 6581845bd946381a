"""How observations and actions are stored, one row each, and read back as the environment gave them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from multireplay.errors import InputError
from multireplay.rl.spaces import Array, gymnasium, sizes_of


class Coding:
    """How the values of a space are stored, one row each.

    `Discrete` is stored as an integer; `Box`, `MultiDiscrete` and `MultiBinary` as the arrays they are; a `Tuple` of
    `Discrete` (Blackjack) as a row of integers. Any other `Tuple` or `Dict` is stored as `gymnasium.spaces.flatten` of
    it. ``space`` is the space of what is stored.
    """

    def __init__(self, space: Any) -> None:
        spaces = gymnasium().spaces
        self.original = space
        self.flattened = False
        if isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
            self.space = space
        elif isinstance(space, spaces.Tuple) and all(isinstance(part, spaces.Discrete) for part in space.spaces):
            sizes, starts = zip(*((part.n, part.start) for part in space.spaces), strict=True)
            self.space = spaces.MultiDiscrete(sizes, start=starts)
        else:
            self.space = _flat_space(space)
            self.flattened = True
        self.shape = tuple(self.space.shape)
        self.dtype = self.space.dtype

    def one(self, value: Any) -> Array:
        """A value of the space as an array of ``shape``."""
        array = np.asarray(gymnasium().spaces.flatten(self.original, value) if self.flattened else value)
        if array.shape != self.shape:
            raise InputError(f"an array of shape {array.shape} is not in {self.original}")
        return array

    def many(self, values: Any, count: int) -> Array:
        """`count` values of the space, batched as a vector environment does it; always a copy."""
        if self.flattened:
            values = _flatten_batch(self.original, values, count)
        elif isinstance(values, tuple):  # columns of a `Tuple`
            values = np.stack([np.asarray(part) for part in values], axis=1)
        array = np.array(values, dtype=self.dtype)
        if array.shape != (count, *self.shape):
            raise InputError(f"{count} values of {self.original} came as an array of shape {array.shape}")
        return array

    def decode(self, rows: Array) -> Any:
        """Stored rows as a batch of the space's own values: what a vector environment gives."""
        if self.flattened:
            return _unflatten_batch(self.original, rows)
        return tuple(rows.T) if self.space is not self.original else rows

    def each(self, rows: Array) -> Iterator[Any]:
        """Stored rows as values of the space, one by one."""
        if self.space is self.original:
            return iter(rows)
        utils = gymnasium().vector.utils
        return iter(utils.iterate(utils.batch_space(self.original, len(rows)), self.decode(rows)))

    def encode(self, values: Any) -> tuple[Array, bool]:
        """One value of the space, or a list of them, or stored rows: as an array, and whether it is one value."""
        if self._is_one(values):
            return self._encoded(values), True
        if isinstance(values, list | tuple) and values and all(map(self._is_one, values)):
            return np.stack([self._encoded(value) for value in values]), False
        array = np.asarray(values)
        if array.shape == self.shape:
            return array, True
        if array.shape[1:] == self.shape and array.ndim:
            return array, False
        what = f"an array of shape {array.shape}" if array.dtype != object else repr(values)
        raise InputError(f"{what} is neither an observation of {self.original} nor rows of them")

    def _is_one(self, value: Any) -> bool:
        """Whether it is written as one value of a `Dict` or `Tuple`."""
        spaces = gymnasium().spaces
        if isinstance(self.original, spaces.Dict):
            return isinstance(value, Mapping)
        return isinstance(self.original, spaces.Tuple) and isinstance(value, tuple) and len(value) == len(self.original)

    def _encoded(self, value: Any) -> Array:
        try:
            return self.one(value)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise InputError(
                f"{value!r} is not an observation of {self.original}: {type(error).__name__}: {error}"
            ) from None

    def empty(self, count: int) -> Array:
        """Room for `count` values."""
        return np.empty((count, *self.shape), dtype=self.dtype)


def stored(space: Any) -> Any:
    """The space of what is stored of a space's values; that of the values themselves unless it is made of parts."""
    return Coding(space).space


def pack(space: Any) -> dict[str, Array]:
    """A stored space as arrays, for a file."""
    spaces = gymnasium().spaces
    if isinstance(space, spaces.Dict | spaces.Tuple):
        named = isinstance(space, spaces.Dict)
        parts = dict(space.spaces) if named else dict(enumerate(space.spaces))
        packed = {
            f"{place}.{key}": value for place, part in enumerate(parts.values()) for key, value in pack(part).items()
        }
        return {"names" if named else "places": np.array(list(parts)), **packed}
    if isinstance(space, spaces.Discrete):
        return {"discrete": np.array([space.n, space.start])}
    if isinstance(space, spaces.MultiDiscrete):
        return {"sizes": space.nvec, "size_starts": space.start}
    if isinstance(space, spaces.MultiBinary):
        return {"binary": np.array(space.shape)}
    return {"low": space.low, "high": space.high}


def unpack(arrays: Mapping[str, Array]) -> Any:
    """The space that was packed."""
    spaces = gymnasium().spaces
    for kind in ("names", "places"):
        if kind in arrays:
            parts = [
                unpack({key.partition(".")[2]: value for key, value in arrays.items() if key.startswith(f"{place}.")})
                for place in range(len(arrays[kind]))
            ]
            named = dict(zip(arrays[kind].tolist(), parts, strict=True))
            return spaces.Dict(named) if kind == "names" else spaces.Tuple(parts)
    if "discrete" in arrays:
        return spaces.Discrete(int(arrays["discrete"][0]), start=int(arrays["discrete"][1]))
    if "sizes" in arrays:
        return spaces.MultiDiscrete(arrays["sizes"], start=arrays["size_starts"])
    if "binary" in arrays:
        shape = arrays["binary"].tolist()
        return spaces.MultiBinary(shape if len(shape) > 1 else shape[0])
    return spaces.Box(arrays["low"], arrays["high"], dtype=arrays["low"].dtype.type)


def _flat_space(space: Any) -> Any:
    spaces = gymnasium().spaces
    flattenable = isinstance(space, spaces.Tuple | spaces.Dict) and space.is_np_flattenable
    flat = spaces.flatten_space(space) if flattenable else None
    if not isinstance(flat, spaces.Box):
        raise InputError(
            f"{space} cannot be stored as a row of numbers; wrap the environment so that its observations and actions "
            "are arrays, for example with gymnasium.wrappers.TransformObservation"
        )
    return flat


def _flatten_batch(space: Any, values: Any, count: int) -> Array:
    """`gymnasium.spaces.flatten` of every value of a batch, column by column."""
    spaces = gymnasium().spaces
    if isinstance(space, spaces.Dict | spaces.Tuple):
        keys = space.spaces if isinstance(space, spaces.Dict) else range(len(space.spaces))
        return np.concatenate([_flatten_batch(space[key], values[key], count) for key in keys], axis=1)
    array = np.asarray(values).reshape(count, -1)
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        sizes, starts = sizes_of(space) or ((), ())
        hot = [np.eye(size)[array[:, i] - start] for i, (size, start) in enumerate(zip(sizes, starts, strict=True))]
        return np.concatenate(hot, axis=1)
    return array


def _unflatten_batch(space: Any, rows: Array) -> Any:
    """What `_flatten_batch` flattened."""
    spaces = gymnasium().spaces
    if isinstance(space, spaces.Dict | spaces.Tuple):
        parts = dict(space.spaces) if isinstance(space, spaces.Dict) else dict(enumerate(space.spaces))
        ends = np.cumsum([spaces.flatdim(part) for part in parts.values()])
        pieces = np.split(rows, ends[:-1], axis=1)
        found = {key: _unflatten_batch(part, piece) for (key, part), piece in zip(parts.items(), pieces, strict=True)}
        return found if isinstance(space, spaces.Dict) else tuple(found.values())
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        sizes, starts = sizes_of(space) or ((), ())
        hot = np.split(rows, np.cumsum(sizes)[:-1], axis=1)
        rows = np.stack([part.argmax(axis=1) + start for part, start in zip(hot, starts, strict=True)], axis=1)
    return rows.reshape(len(rows), *space.shape).astype(space.dtype)
