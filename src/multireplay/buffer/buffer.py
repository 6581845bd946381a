"""The buffer: one ordered record, stored as named columns of equal length."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast, overload

import numpy as np
from scipy.sparse import issparse

from multireplay.buffer import foreign
from multireplay.buffer.chains import RowChains
from multireplay.buffer.columns import Array, Columns, SparseColumn, as_sparse_column, kept_type, width_of
from multireplay.buffer.fingerprint import Fingerprint
from multireplay.buffer.names import (
    FEATURES,
    Names,
    as_names,
    names_in,
    place_in_words,
    refuse_reordered,
    require_count,
    warn_unordered,
)
from multireplay.errors import InputError

if TYPE_CHECKING:
    from multireplay.buffer.disk import StoredBuffer

MAX_ROWS = 2**46
"""Positions ⌊t·B/2^k⌋ are computed in 64-bit integers block by block; beyond this B they would overflow."""

STATES = ("states", "next_states")
"""Columns of row numbers of a feature table: whole numbers in them stay whole numbers."""


class Buffer:
    """One long, ordered record as named columns: row t is the sample ξ_t of the paper.

    Columns are kept as they are (views are not copied) when they hold float64, float32 or booleans;
    other real numbers become float64, apart from whole numbers in ``states`` and ``next_states``, which are rows of a
    feature table. A scipy sparse matrix is kept as CSR. Arrays of PyTorch, CuPy or another library of the array API
    standard stay in that library and on their device. Every value must be finite. ``buffer[name]`` is a column,
    ``buffer[10:20]`` a buffer of those rows, as views.

    Parameters
    ----------
    names : sequence of str, optional
        Of the features, or of the coordinates of x where there is no column ``features``; what is said of them uses
        these. A data frame (pandas, polars, pyarrow) that is given as ``features`` keeps those of its columns. So no
        column can be called "names" here.
    groups : array of shape (rows,), optional
        Which of several series a row belongs to, as any labels; the rows of a series are together, in time order. They
        are kept beside the columns, are no sample, and `diagnose` measures nothing across their borders. Series are
        taken as independent of one another: where they share shocks at the same time, intervals are too short.
    **columns
        Arrays whose first axis is time, all of one length. One-dimensional columns hold a number a
        sample, two-dimensional ones, dense or sparse, a row a sample.

    Examples
    --------
    >>> import numpy as np
    >>> import multireplay as mr
    >>> F = np.eye(4)
    >>> buffer = mr.Buffer(features=F[:-1], next_features=F[1:], rewards=[1, 0, 2])
    >>> buffer
    Buffer(3 rows: features (3, 4) float64, next_features (3, 4) float64, rewards (3,) float64)
    >>> len(buffer), buffer[1:]["rewards"]
    (3, array([0., 2.]))
    >>> import scipy.sparse
    >>> mr.Buffer(features=scipy.sparse.csr_array(F), targets=[1, 0, 2, 0])
    Buffer(4 rows: features (4, 4) float64 with 4 nonzeros, targets (4,) float64)
    >>> weather = mr.Buffer(features=[[20.0, 0.4], [21.0, 0.5]], targets=[1.0, 2.0], names=["temp", "hum"])
    >>> weather[1:].feature_names
    ('temp', 'hum')
    >>> mr.Buffer(targets=[1.0, 2.0, 5.0], groups=["north", "north", "south"]).chains.lengths
    (2, 1)
    """

    _chains: RowChains | None

    def __init__(
        self, /, *unnamed: Any, names: Iterable[str] | None = None, groups: Any = None, **columns: Any
    ) -> None:
        if unnamed:
            raise InputError("a buffer's columns need names: Buffer(features=A, targets=y), or Buffer(**dictionary)")
        if not columns:
            raise InputError("a buffer needs at least one column, for example Buffer(features=..., targets=...)")
        self._fill(columns, names)
        if groups is None:
            return warn_unordered(columns)
        self._chains = RowChains.of(groups, len(self))

    def _fill(self, columns: Mapping[str, Any], names: Iterable[str] | None) -> None:
        own = names_in(columns.get("features"))
        found = own if names is None else as_names(names)
        arrays = {name: _as_column(name, values, found) for name, values in columns.items()}
        _check_lengths({name: array.shape[0] for name, array in arrays.items()})
        if found is not None:
            require_count(found, width_of(arrays["features"]) if "features" in arrays else len(found))
            refuse_reordered(found, own, "the data frame given as 'features' has", "names")
            refuse_reordered(found, names_in(columns.get("next_features")), "column 'next_features' has", "'features'")
        for name, array in arrays.items():
            if isinstance(array, np.ndarray) and array.dtype.kind == "f":  # the others have been checked
                foreign.require_finite(name, array, found if name in FEATURES else None)
        self._keep(arrays, found)

    @classmethod
    def open(
        cls,
        path: Any,
        columns: Any = None,
        memory: int | str = "512 MB",
        time: Any = None,
        names: Iterable[str] | None = None,
        groups: Any = None,
    ) -> Buffer | StoredBuffer:
        """A buffer from a file or a folder. What takes at most half of `memory` is loaded; more stays on disk.

        Parameters
        ----------
        path
            A ``.npy`` or ``.npz`` file, a folder of ``.npy`` files (one a column), a Parquet file, a folder of Parquet
            files (in the natural order of their paths; keys of folders key=value are columns), or a small ``.csv``
            file; or the store of an `mr.Stream`, of which these are the rows that it still has. Tables also by a URI,
            ``"s3://bucket/folder"`` (gs, abfs, hdfs), or a pair of a pyarrow file system and a path in it. Or Dask's
            DataFrame, Array or dictionary of Arrays, a partition at a time.
        columns
            What the columns are made of, by name: ``"psi"`` is a stored column, ``["a", "b"]`` stored columns side by
            side, ``("psi", +1)`` a stored column one row further on, so that a trajectory's next features need not be
            stored. A ``.npy`` file holds one column, ``samples``; numbers or a slice pick features. By default all.
        memory
            How much memory may be used, such as ``"512 MB"`` or ``"2 GB"``, or a number of bytes.
        time
            A stored column that must not decrease, numbers or dates: it is read once and checked. It is a column of
            the buffer only if `columns` names it. Shifts join nothing over a gap or a time that is there twice.
        names
            Of the features, if not those of the stored columns that lie side by side in them, or those that were saved.
        groups
            A stored column, numbers or text, that says which of several series a row belongs to. A row that a shift
            would make of two series is left out (unless it is ``terminated``: what comes next is not read there);
            ``buffer.chains``, and ``left_out`` of a record on disk, say how many were. The rows of a series that take
            turns with others are brought together: those of a record on disk in a temporary folder (see `TMPDIR`).
            A stored column called ``groups`` is taken for it where no `columns` are named.

        Returns
        -------
        Buffer or StoredBuffer
            The record in memory, or on disk, where it is read in blocks within the budget.

        Examples
        --------
        >>> import tempfile, numpy as np, multireplay as mr
        >>> folder = tempfile.TemporaryDirectory()
        >>> np.savez(folder.name + "/run.npz", psi=np.eye(4), reward=[1.0, 0.0, 2.0, 0.0])
        >>> names = {"features": "psi", "next_features": ("psi", +1), "rewards": "reward"}
        >>> mr.Buffer.open(folder.name + "/run.npz", columns=names)
        Buffer(3 rows: features (3, 4) float64, next_features (3, 4) float64, rewards (3,) float64)
        >>> folder.cleanup()
        """
        from multireplay.buffer.disk.opening import open_buffer  # which needs this class

        return open_buffer(path, columns, memory, time, names, groups)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the buffer as a folder: one ``.npy`` file a column, and a page with checksums.

        The folder has its name only once it is complete; a buffer saved there before is replaced. Groups are saved as
        the numbers 0, 1, … of the chains.

        Examples
        --------
        >>> import tempfile, multireplay as mr
        >>> folder = tempfile.TemporaryDirectory()
        >>> mr.Buffer(features=[[1.0], [2.0]], targets=[0.0, 1.0]).save(folder.name + "/record")
        >>> mr.Buffer.open(folder.name + "/record")
        Buffer(2 rows: features (2, 1) float64, targets (2,) float64)
        >>> folder.cleanup()
        """
        from multireplay.buffer.disk.folder import save_arrays

        chains = {} if self._chains is None else {"groups": self._chains.numbers}
        save_arrays(path, {**chains, **self.to_numpy().columns}, self.feature_names)

    def to_numpy(self) -> Buffer:
        """This record with columns of other libraries as NumPy arrays: copied from a device, otherwise views.

        Examples
        --------
        >>> import multireplay as mr
        >>> buffer = mr.Buffer(features=[[1.0], [2.0]])
        >>> buffer.to_numpy() is buffer
        True
        """
        brought = {name: foreign.as_numpy(array) for name, array in self._columns.items() if foreign.is_foreign(array)}
        return _of_checked({**self._columns, **brought}, self.feature_names, self._chains) if brought else self

    def fingerprint(self) -> str:
        """Thirty-two letters that tell this record from any other of the same shape: a hash of 128 bits.

        It covers the names, types, shapes and all values of all columns (of sparse ones the nonzeros and their
        places), whichever library they are of and wherever they lie, but not the order in which they were named, nor
        the names of features. A record is read once, at about the speed of memory. No defence against somebody who
        wants two records to agree.

        Examples
        --------
        >>> import multireplay as mr
        >>> one, same, other = (mr.Buffer(targets=values).fingerprint() for values in ([0.0, 1.0], [0, 1], [1, 0]))
        >>> one == same, one == other
        (True, False)
        """
        found = Fingerprint()
        for name in sorted(self._columns):
            found.add_array(name, self._columns[name])
        return found.text()

    def _keep(self, arrays: dict[str, Array], names: Names | None) -> None:
        self._columns: Columns = MappingProxyType(arrays)
        self._names = names
        self._chains = None

    @property
    def columns(self) -> Columns:
        """The columns by name, in the order they were given."""
        return self._columns

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The names of the features, if they have any."""
        return self._names

    @property
    def chains(self) -> RowChains | None:
        """Which rows follow on one another, where there are groups or a time column; None where all do."""
        return self._chains

    @property
    def groups(self) -> Array | None:
        """The group of every row, if there are groups."""
        return None if self._chains is None else self._chains.labels

    def __len__(self) -> int:
        return int(next(iter(self._columns.values())).shape[0])

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    @overload
    def __getitem__(self, key: str) -> Array: ...

    @overload
    def __getitem__(self, key: slice) -> Buffer: ...

    def __getitem__(self, key: str | slice) -> Array | Buffer:
        if isinstance(key, slice):
            return self._rows(key)
        if not isinstance(key, str):
            raise InputError(f"buffer[{key!r}] is neither a column nor a slice of rows such as buffer[10:20]")
        if key not in self._columns:
            raise InputError(f"no column {key!r} in this buffer; it has {', '.join(self._columns)}")
        return self._columns[key]

    def _rows(self, rows: slice) -> Buffer:
        there = {name: foreign.rows_of(array, rows) for name, array in self._columns.items()}
        found = _of_checked(there, self.feature_names, None if self._chains is None else self._chains.taken(rows))
        if not len(found):
            raise InputError(f"no rows in {rows} of this buffer, which has {len(self)}")
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return buffer_of, (dict(self._columns), self.feature_names, self._chains)

    def __repr__(self) -> str:
        parts = []
        for name, array in self._columns.items():
            nonzeros = f" with {array.nnz} nonzeros" if isinstance(array, SparseColumn) else ""
            parts.append(f"{name} {tuple(array.shape)} {array.dtype}{nonzeros}")
        return f"Buffer({len(self)} rows: {', '.join(parts)})"


def buffer_of(
    columns: Mapping[str, Any], names: Iterable[str] | None = None, chains: RowChains | None = None
) -> Buffer:
    """The buffer of these columns, whatever they are called: also where one is called "names"."""
    found = Buffer.__new__(Buffer)
    found._fill(columns, names)
    found._chains = chains
    return found


def _of_checked(arrays: dict[str, Array], names: Names | None, chains: RowChains | None) -> Buffer:
    """A buffer of columns whose values have been checked."""
    found = Buffer.__new__(Buffer)
    found._keep(arrays, names)
    found._chains = chains
    return found


def _as_column(name: str, values: Any, names: Names | None) -> Array:
    """A column as it is kept; `names` are those of the features, for messages."""
    names = names if name in FEATURES else None
    if issparse(values):
        return as_sparse_column(name, values, names)
    if foreign.is_foreign(values):
        return cast(Array, foreign.as_column(name, values, name in STATES, names))
    if np.ma.is_masked(values):
        row = int(np.argwhere(np.ma.getmaskarray(values))[0, 0])
        raise InputError(f"column {name!r} has masked entries, the first at row {row} (counting from 0); fill them")
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InputError(f"column {name!r} is not a regular array: {error}") from None
    if array.ndim not in (1, 2):
        raise InputError(f"column {name!r} has {array.ndim} dimensions; it needs 1 (numbers) or 2 (rows)")
    if array.dtype == np.object_:
        return _from_objects(name, array, names)
    kind = kept_type(array.dtype)
    if kind is None:
        raise InputError(f"column {name!r} has dtype {array.dtype}; it needs real numbers or booleans")
    if (kind.kind in "iu" and not (name in STATES and array.ndim == 1)) or (kind.kind == "b" and name in FEATURES):
        kind = np.dtype(np.float64)
    return array.astype(kind, copy=False)


def _from_objects(name: str, array: Array, names: Names | None) -> Array:
    """Python objects as numbers, such as a data frame with columns of several types gives."""
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        for place, value in np.ndenumerate(array):
            try:
                float(value)
            except (TypeError, ValueError, OverflowError):
                where = place_in_words(place, names)
                raise InputError(f"column {name!r} holds {value!r} at {where}, which is not a number") from None
        raise InputError(f"column {name!r} has dtype object; it needs real numbers or booleans") from None


def _check_lengths(lengths: dict[str, int]) -> None:
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise InputError(f"all columns need the same number of rows, but {found}")
    (name, length), *_ = lengths.items()
    if length == 0:
        raise InputError(f"the buffer is empty: column {name!r} has no rows")
    if length > MAX_ROWS:
        raise InputError(f"{length} rows are more than the {MAX_ROWS} that positions are computed for")
