"""Arrays of any library that follows the array API standard: NumPy, PyTorch, CuPy, JAX, on any device."""

from __future__ import annotations

import functools
import math
from typing import Any, TypeAlias

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray

from multireplay.buffer.names import FEATURES, Names, place_in_words
from multireplay.errors import InputError

Array: TypeAlias = Any
"""An array of any library; the standard has no type for it."""
Namespace: TypeAlias = Any
"""The functions of an array library under their standard names."""

CACHED = 2**18
"""Bytes of one block of rows on a CPU, so that it stays in the cache while it is worked on."""
LARGE = 2**28
"""Bytes of one block of rows on a device, where every operation should be large."""
FEWEST = 64
NARROW = 16
"""Below so many numbers a row, what a row costs is its bookkeeping; a product with ones does without."""
WIDE = 256
"""From so many columns on a product of matrices costs more than to cut their numbers in halves."""
SUMMED = 2**12
"""Rows whose products of halves are added up in one go: such sums are cut off, not rounded."""
_NUMPY: Namespace = compat.array_namespace(np.empty(0))  # looked up once: small buffers are made in great numbers


def is_foreign(values: object) -> bool:
    """Whether this is an array of another library than NumPy, and a dense one with values of its own."""
    if isinstance(values, np.ndarray | np.generic) or not compat.is_array_api_obj(values):
        return False
    return not (compat.is_dask_array(values) or compat.is_pydata_sparse_array(values))


def namespace(array: Array) -> Namespace:
    """The library of an array, under the names of the standard."""
    return _NUMPY if isinstance(array, np.ndarray) else compat.array_namespace(array)


def on_cpu(array: Array) -> bool:
    """Whether the array lies in the memory of the processor."""
    return isinstance(array, np.ndarray) or "cpu" in str(compat.device(array)).lower()


def device(array: Array) -> Any:
    """Where the array lies."""
    return compat.device(array)


def describe(array: Array) -> str:
    """The library and device of an array, for a person: "numpy on cpu"."""
    return f"{type(array).__module__.partition('.')[0]} on {compat.device(array)}"


def as_numpy(array: Array) -> NDArray[Any]:
    """The values as a NumPy array: a view where that is possible, a copy from a device."""
    if isinstance(array, np.ndarray):
        return array
    if compat.is_torch_array(array):
        array = array.detach().cpu()
    elif compat.is_cupy_array(array):
        array = array.get()
    try:
        return np.asarray(array)
    except RuntimeError:  # it lies where NumPy cannot read: bring it home first
        home = namespace(array).__array_namespace_info__().default_device()
        return np.asarray(compat.to_device(array, home))


def like(values: NDArray[Any], other: Array) -> Array:
    """NumPy values as an array of the library, type and device of another one."""
    with np.errstate(over="ignore"):
        return near(np.array(values, dtype=numpy_type(other)), other)  # converted here: what travels is small


def row_dots(xp: Namespace, X: Array, Y: Array) -> Array:
    """The inner product of each row of Y with that row of X, or with X itself if that is one vector.

    The latter stays a product of a matrix and a vector, for which no library rounds X to a shorter type (TF32).
    """
    if X.ndim == 1:
        return Y @ X
    if Y.shape[1] < NARROW:
        return (X * Y) @ xp.ones_like(Y[0, :])
    if isinstance(Y, np.ndarray):
        return xp.linalg.vecdot(X, Y)  # without an array of the products
    return xp.sum(X * Y, axis=1)


def near(values: NDArray[Any], other: Array) -> Array:
    """NumPy values, of whatever type, as an array of the library and device of another one."""
    return namespace(other).asarray(values, device=compat.device(other))


def rows_of(array: Array, rows: slice) -> Array:
    """Consecutive rows, as a view where the library has views."""
    return array[rows, :] if array.ndim == 2 and is_foreign(array) else array[rows]


def rows_at_once(row_bytes: int, array: Array) -> int:
    """How many rows of that many bytes make a block of good size where this array lies."""
    return max(FEWEST, block_bytes(array) // max(1, row_bytes))


def block_bytes(array: Array) -> int:
    """The size of a block of rows that is worked on at once where this array lies."""
    return CACHED if on_cpu(array) else LARGE


def row_bytes(array: Array) -> int:
    """The size of one row of a column."""
    return numpy_type(array).itemsize * int(array.shape[1] if array.ndim == 2 else 1)


def numpy_type(array: Array) -> np.dtype[Any]:
    """The type of a column's values, in NumPy's words."""
    if isinstance(array, np.ndarray) and array.dtype.kind == "f":
        return np.dtype(array.dtype)
    xp = namespace(array)
    if xp.isdtype(array.dtype, "bool"):
        return np.dtype(np.bool_)
    return np.dtype(np.float32 if array.dtype == xp.float32 else np.float64)


def blocks(length: int, size: int) -> list[slice]:
    """The rows 0, …, length − 1 in consecutive blocks."""
    return [slice(start, min(start + size, length)) for start in range(0, length, size)]


def as_column(name: str, values: Array, whole: bool = False, names: Names | None = None) -> Array:
    """A column of a buffer from an array of another library, on its device; copied only if its type must change.

    Whole numbers become float64 unless they are to stay `whole`. `names` are those of its features, for messages.
    """
    if values.ndim not in (1, 2):
        raise InputError(f"column {name!r} has {values.ndim} dimensions; it needs 1 (numbers) or 2 (rows)")
    xp = namespace(values)
    array = values.detach() if compat.is_torch_array(values) else values  # nothing here is differentiated
    flags = xp.isdtype(array.dtype, "bool")
    if (flags and name not in FEATURES) or (whole and xp.isdtype(array.dtype, "integral")):
        return array
    if flags or xp.isdtype(array.dtype, "integral"):
        array = xp.astype(array, xp.float64)
    elif not xp.isdtype(array.dtype, "real floating"):
        raise InputError(f"column {name!r} has dtype {array.dtype}; it needs real numbers or booleans")
    elif array.dtype not in (xp.float32, xp.float64):
        array = xp.astype(array, xp.float32)
    require_finite(name, array, names)
    return array


def require_finite(name: str, array: Array, names: Names | None = None) -> None:
    """Raise if a value is NaN or infinite, naming the first place; reads the column once, in blocks."""
    for rows in blocks(array.shape[0], rows_at_once(row_bytes(array), array)):
        block = rows_of(array, rows)
        place = first_not_finite(block)
        if place is not None:
            value = float(block[place[: array.ndim]])
            where = place_in_words((rows.start + place[0], place[1])[: array.ndim], names)
            raise InputError(f"column {name!r} holds {value} at {where}; all values must be finite")


def first_not_finite(block: Array) -> tuple[int, int] | None:
    """Row and feature of the first value that is NaN or infinite."""
    xp = namespace(block)
    with np.errstate(over="ignore", invalid="ignore"):
        if math.isfinite(xp.sum(block)):
            return None
    return first_true(~xp.isfinite(block))  # none where the sum overflowed and the values did not


def first_true(flags: Array) -> tuple[int, int] | None:
    """Row and feature of the first of these that is true."""
    xp = namespace(flags)
    if not bool(xp.any(flags)):
        return None
    first = int(xp.argmax(xp.astype(xp.reshape(flags, (-1,)), xp.int8)))
    return divmod(first, flags.shape[1] if flags.ndim == 2 else 1)


class ForeignColumn:
    """A column of any library, with what the package asks of a column: a length, slices and picked rows, its type."""

    def __init__(self, array: Array) -> None:
        self.array = array
        self.shape, self.ndim, self.dtype = tuple(array.shape), array.ndim, numpy_type(array)
        self.nbytes = self.shape[0] * row_bytes(array)

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, rows: slice | NDArray[np.int64]) -> ForeignColumn:
        return ForeignColumn(rows_of(self.array, rows) if isinstance(rows, slice) else picked(self.array, rows))

    def astype(self, dtype: Any) -> ForeignColumn:
        """The column in another of NumPy's types."""
        xp = namespace(self.array)
        return ForeignColumn(xp.astype(self.array, getattr(xp, np.dtype(dtype).name), copy=False))

    def times(self, factors: NDArray[Any]) -> ForeignColumn:
        """Every feature times a number of its own, or with a matrix their combinations."""
        there = like(factors, self.array)
        return ForeignColumn(self.array * there if factors.ndim == 1 else self.array @ there)

    def mean_power(self, power: int) -> NDArray[np.float64]:
        """The mean of that power of every feature, 2 or 4."""
        xp = namespace(self.array)
        for dtype in (self.array.dtype, xp.float64):  # where squares are too large for their type
            array = xp.astype(self.array, dtype, copy=False)
            lengths = xp.linalg.vector_norm(array if power == 2 else array * array, axis=0)
            found = as_numpy(lengths).astype(np.float64) ** 2 / len(self)
            if np.isfinite(found).all() and found.all():
                break
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(as_numpy(self.array), dtype=dtype, copy=copy)


def array_of(column: Any) -> Array:
    """The array of a column; a block of a record on disk is one itself."""
    return column.array if isinstance(column, ForeignColumn) else column


def stretch_sums(weights: Array, rows: Array, bounds: NDArray[np.int64]) -> Array:
    """Σ_t w_t ψ_t over the rows from bounds[i] to before bounds[i + 1], for each i: one product for all stretches.

    The stretches are all but equal: the product is of equal ones, and the few rows between their bounds and these are
    then given from one to the next. Shorter types in it (TF32, where a user allows it) round the rows, not the point.
    """
    xp, count, dim = namespace(rows), len(bounds) - 1, rows.shape[1]
    if count == 1:
        return (weights @ rows)[None, :]
    each = int(bounds[-1]) // count
    equal = slice(0, each * count)
    found = xp.matmul(
        xp.reshape(weights[equal], (count, 1, each)), xp.reshape(rows_of(rows, equal), (count, each, dim))
    )[:, 0, :]
    late = [np.arange(each * i, end) for i, end in enumerate(bounds.tolist())]
    moved = np.concatenate(late)
    if not len(moved):
        return found
    of = np.repeat(np.arange(count + 1), [len(part) for part in late])
    owner = like(np.arange(count + 1)[:, None] == of, rows)
    parts = owner @ (picked(weights, moved)[:, None] * picked(rows, moved))
    return found + parts[1:, :] - parts[:-1, :]


def crossed(left: Array, *rights: Array) -> list[Array]:
    """LᵀR for each R, to some three digits where a device multiplies numbers of half precision many times faster.

    All are rounded alike, and sums of products are not: these are the products of rows that differ a little. It is for
    matrices that are far from singular, of columns of about one size.
    """
    rows, columns = left.shape
    if columns < WIDE or rows < SUMMED or numpy_type(left) != np.float32 or not multiplies_halves(left):
        return [left.T @ right for right in rights]
    xp, pieces = namespace(left), rows // SUMMED
    each = rows // pieces
    equal, rest = slice(0, pieces * each), slice(pieces * each, rows)

    def rounded(whole: Array) -> Array:
        return xp.reshape(xp.astype(rows_of(whole, equal), xp.float16), (pieces, each, columns))

    first = rounded(left)
    return [
        product_of_halves(first, first if right is left else rounded(right))
        + rows_of(left, rest).T @ rows_of(right, rest)
        for right in rights
    ]


def product_of_halves(left: Array, right: Array) -> Array:
    """Σ LᵀR over pieces, of numbers in half precision, added up in single precision: so far PyTorch alone has it."""
    xp = namespace(left)
    return xp.sum(xp.bmm(left.mT, right, out_dtype=xp.float32), axis=0)


def multiplies_halves(array: Array) -> bool:
    """Whether there are fast products of numbers of half precision where the array lies."""
    return not on_cpu(array) and _halves_on(namespace(array), str(device(array)))


@functools.cache
def _halves_on(xp: Namespace, where: str) -> bool:
    try:
        one = xp.ones((1, 16, 16), dtype=xp.float16, device=where)
        return bool(product_of_halves(one, one)[0, 0] == 16)
    except (AttributeError, TypeError, ValueError, RuntimeError):
        return False


def rows_between(array: Array, later: Array) -> int | None:
    """By how many rows `later` begins after `array` where both are views of the same rows in memory, otherwise None."""
    if array.shape != later.shape or array.dtype != later.dtype or type(array) is not type(later):
        return None
    if on_cpu(array):
        array, later = as_numpy(array), as_numpy(later)  # both are kept, so that one of them has no place of the other
    places = []
    for one in (array, later):
        found = getattr(one, "__array_interface__", None) or getattr(one, "__cuda_array_interface__", None)
        if found is None or found.get("strides") is not None:
            return None
        places.append(found["data"][0])
    moved, rest = divmod(places[1] - places[0], row_bytes(array))
    return moved if rest == 0 and 0 < moved < array.shape[0] else None


def picked(array: Array, rows: NDArray[np.int64]) -> Array:
    """The rows of these numbers, in their order, where the array lies."""
    return namespace(array).take(array, near(rows, array), axis=0)
