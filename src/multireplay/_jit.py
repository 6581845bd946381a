"""The one way this package compiles a function, and the cache on disk that keeps the machine code.

Numba's own cache notices a change only in the file that a function is in, although the machine code holds whatever
that function calls, from whichever file. Here the key is a digest of all sources that may have gone into it: the rooms
in `ROOMS`, which hold the loops and what they are made of, and the room of the function itself.

A cache is only a help. If it cannot be written or read (no folder of the user's own, a full disk, a damaged file),
there is one warning, and functions are compiled anew in every process.
"""

from __future__ import annotations

import hashlib
import inspect
import io
import os
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    InTreeCacheLocator,
    NullCache,
)
from numba.core.sigutils import normalize_signature
from numba.misc.appdirs import AppDirs

Function = Callable[..., Any]
F = TypeVar("F", bound=Function)

FAST = {"reassoc", "contract", "arcp", "nsz"}
"""What the loops over steps allow: sums may be reordered, NaN and infinity keep their meaning."""
LOOP: dict[str, Any] = {"fastmath": FAST, "nogil": True, "error_model": "numpy"}

PACKAGE = Path(__file__).parent
ROOMS = ("_jit.py", "buffer", "engine", "problems", "replay", "sets", "vectors")
KEPT = 5  # caches of other versions of the sources: several checkouts may be at work in turn


def jit(function: F) -> F:
    """Compile a function with Numba at its first call; the machine code is kept on disk for the next process.

    Floating-point arithmetic stays IEEE: no reordering of sums, and a division by zero gives inf or nan as it
    does in NumPy. The global interpreter lock is released while the function runs.

    Parameters
    ----------
    function
        A function within Numba's nopython subset, defined in a file.

    Returns
    -------
    callable
        The compiled function, with the signature of the one given.
    """
    compiled: F = _kept_on_disk(function, nogil=True, error_model="numpy")
    return compiled


def jit_borrowing(function: F) -> F:
    """Compile like :func:`jit` a function that borrows the arrays given to it and makes none of its own.

    Arrays are then passed without counting references, which costs about 30 ns a call otherwise: more than a
    whole step in ten dimensions. Slices are fine; a function that allocates an array fails to compile.

    Parameters
    ----------
    function
        A function within Numba's nopython subset, defined in a file. It and all compiled functions it calls
        must allocate nothing.

    Returns
    -------
    callable
        The compiled function, with the signature of the one given.
    """
    compiled: F = kernel(function, nogil=True, error_model="numpy")
    return compiled


def kernel(function: Function | None = None, **options: Any) -> Any:
    """Compile a loop over steps of the built-in problems, or with options of its own a part of one.

    It is kept on disk, and borrows its arrays like the functions of :func:`jit_borrowing`.

    Parameters
    ----------
    function
        The function; without one, a decorator is returned.
    **options
        What `numba.njit` is told in place of `LOOP`: ``fastmath``, ``inline``, ``nogil``, ``error_model``. Each of them
        may change the last bits of an answer.
    """
    if function is None:
        return partial(kernel, **options)
    return _kept_on_disk(function, _nrt=False, **(options or LOOP))


def users_kernel(function: Function | None = None, **options: Any) -> Any:
    """Compile a loop that calls a function of the user's, which may allocate, and may change without our noticing.

    So references are counted, and it is compiled anew in every process.

    Parameters
    ----------
    function, **options
        As in :func:`kernel`.
    """
    if function is None:
        return partial(users_kernel, **options)
    return numba.njit(**(options or LOOP))(function)


def _kept_on_disk(function: Function, **options: Any) -> Any:
    compiled: Any = numba.njit(**options)(function)
    if hasattr(compiled, "_cache"):  # NUMBA_DISABLE_JIT=1 leaves the function as it is
        compiled._cache = _SourceCache(function)
    return compiled


@cache
def digest(room: str = "") -> str:
    """The digest of Numba's version and of all sources in `ROOMS` and one room more, 16 hexadecimal digits.

    Parameters
    ----------
    room : str
        A folder or file, relative to the package or absolute.
    """
    result = hashlib.sha256((digest() if room else numba.__version__).encode())
    for name in [room] if room else ROOMS:
        for path in _sources(os.path.join(PACKAGE, name)):
            with open(path, "rb") as file:
                content = file.read()
            result.update(f"{os.path.relpath(path, PACKAGE)} {len(content)}\n".encode())
            result.update(content)
    return result.hexdigest()[:16]


def _sources(path: str) -> list[str]:
    if path.endswith(".py"):
        return [path]
    return sorted(os.path.join(at, name) for at, _, names in os.walk(path) for name in names if name.endswith(".py"))


def _stamp(file: str) -> str:
    """The digest that machine code of a function in this file depends on."""
    path = Path(file)
    if not path.is_relative_to(PACKAGE):
        return digest(file)
    room = path.relative_to(PACKAGE).parts[0]
    return digest() if room in ROOMS else digest(room)


def _places() -> list[Path]:
    """Where caches may be, the best first; Numba's own setting alone if there is one."""
    if numba.config.CACHE_DIR:
        return [Path(numba.config.CACHE_DIR, "multireplay")]
    return [Path(AppDirs("multireplay", appauthor=False).user_cache_dir), PACKAGE / "__pycache__" / "kernels"]


@cache
def _folder() -> Path:
    """The folder of this version of the sources, in the first place where it can be made and written to."""
    failure = OSError("there is no place for it")
    for place in _places():
        try:
            folder = place / digest()
            folder.mkdir(parents=True, exist_ok=True)
            probe = folder / f"{os.getpid()}.probe"
            probe.touch()
            probe.unlink()
            os.utime(folder)  # the ones used last are kept
        except OSError as error:
            failure = error
        else:
            _forget_old(place)
            return folder
    raise failure


def _forget_old(place: Path) -> None:
    """Remove all caches but those used last: only what Numba wrote, and folders that are then empty."""
    with suppress(OSError):
        ours = [path for path in place.iterdir() if re.fullmatch("[0-9a-f]{16}", path.name) and not path.is_symlink()]
        for old in sorted(ours, key=lambda path: path.stat().st_mtime, reverse=True)[1 + KEPT :]:
            with suppress(OSError):
                _remove(old)


def _remove(old: Path) -> None:
    for room in [path for path in old.iterdir() if not path.is_symlink()]:
        for file in room.glob("*.nb[ci]*"):
            file.unlink(missing_ok=True)
        room.rmdir()
    old.rmdir()


_warned: list[str] = []


def _warn_once(failure: Exception) -> None:
    if _warned:
        return
    _warned.append(
        f"a compiled function cannot be read from the cache on disk or kept in it ({type(failure).__name__}: "
        f"{failure}). It is compiled anew instead. The cache is in {' or '.join(map(str, _places()))}: if this comes "
        "again, delete that folder, make room on the disk, or name another folder by setting NUMBA_CACHE_DIR"
    )
    warnings.warn(_warned[0], RuntimeWarning, stacklevel=2)


class _SourceCache(NullCache):  # type: ignore[misc]
    """What a dispatcher asks for machine code: the files below, as long as they can be used.

    The sources are read when the function is defined, not later: they might have changed by then, and the machine code
    of what is loaded would be kept as that of what is on disk.
    """

    def __init__(self, function: Function) -> None:
        self._function = function
        try:
            self._stamp = _stamp(inspect.getfile(function))
        except (OSError, TypeError):  # sources in an archive, or none at all
            self._stamp = ""

    @cached_property
    def _files(self) -> _Files:
        if not self._stamp:
            raise OSError(f"the sources in {PACKAGE} cannot be read")
        return _Files(self._function, self._stamp)

    @property
    def cache_path(self) -> str | None:
        """The folder of this function's machine code, None without one."""
        with suppress(OSError, RuntimeError):
            return str(self._files.cache_path)
        return None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The machine code for these types of arguments, None if it must be made."""
        try:
            found = self._files.load_overload(sig, target_context)
        except Exception as failure:  # damaged files fail in any way
            _warn_once(failure)
            self.flush()
            return None
        wanted = tuple(normalize_signature(sig)[0])  # processes that save at once may give one file to two of these
        return found if found is not None and found.signature.args == wanted else None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep machine code for these types of arguments, if possible."""
        try:
            self._files.save_overload(sig, data)
        except Exception as failure:
            _warn_once(failure)

    def flush(self) -> None:
        """Forget all machine code of this function, so that new code can be kept."""
        with suppress(Exception):
            self._files.flush()


class _Place(InTreeCacheLocator):  # type: ignore[misc]
    """Where the machine code of one function is kept."""

    @classmethod
    def from_function(cls, function: Function, file: str) -> _Place:
        """The place of a function; Numba would try here whether it can be written to, and hide why it cannot."""
        return cls(function, file)

    def get_cache_path(self) -> str:
        file = Path(self._py_file)
        if not file.is_relative_to(PACKAGE):
            return str(_folder() / self.get_suitable_cache_subpath(self._py_file))
        return str(_folder() / ".".join(("multireplay", *file.relative_to(PACKAGE).parts[:-1])))


class _Code(CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_Place,)


class _Files(FunctionCache):  # type: ignore[misc]
    """Numba's cache of one function, in our place and under our key."""

    _impl_class = _Code

    def __init__(self, function: Function, stamp: str) -> None:
        super().__init__(function)
        name = self._impl.filename_base
        self._cache_file = _CheckedFiles(cache_path=self.cache_path, filename_base=name, source_stamp=stamp)


class _CheckedFiles(IndexDataCacheFile):  # type: ignore[misc]
    """Numba's two files, each with a checksum at its end that is looked at before anything is made of the rest."""

    @contextmanager
    def _open_for_write(self, path: str) -> Iterator[io.BytesIO]:
        with super()._open_for_write(path) as file:
            content = io.BytesIO()
            yield content
            file.write(content.getvalue() + hashlib.sha256(content.getvalue()).digest())

    def _load_index(self) -> Any:
        _check(self._index_path)
        return super()._load_index()

    def _load_data(self, name: str) -> Any:
        _check(self._data_path(name))
        return super()._load_data(name)


def _check(path: str) -> None:
    with suppress(FileNotFoundError), open(path, "rb") as file:
        content = file.read()
        if hashlib.sha256(content[:-32]).digest() != content[-32:]:
            raise ValueError(f"{path} is damaged")  # an OSError would be taken for a file that is not there
