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
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, InTreeCacheLocator
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
    """Compile a function of a file with Numba at its first call; its machine code is kept for the next process.

    Floating-point arithmetic stays IEEE, and a division by zero gives inf or nan as it does in NumPy. The global
    interpreter lock is released while the function runs.
    """
    compiled: F = _kept_on_disk(function, nogil=True, error_model="numpy")
    return compiled


def jit_borrowing(function: F) -> F:
    """Compile like :func:`jit` a function that borrows the arrays given to it and makes none of its own.

    Arrays are then passed without counting references, which costs about 30 ns a call otherwise: more than a
    whole step in ten dimensions. Slices are fine; if it or a compiled function it calls allocates an array, it fails
    to compile.
    """
    compiled: F = kernel(function, nogil=True, error_model="numpy")
    return compiled


def kernel(function: Function | None = None, **options: Any) -> Any:
    """Compile a loop over steps, or with options for `numba.njit` in place of `LOOP` a part of one.

    It borrows its arrays like the functions of :func:`jit_borrowing`. Any option may change the last bits of an answer.
    """
    if function is None:
        return partial(kernel, **options)
    return _kept_on_disk(function, _nrt=False, **(options or LOOP))


def users_kernel(function: Function | None = None, **options: Any) -> Any:
    """Compile a loop that calls a function of the user's, which may allocate, and may change without our noticing.

    So references are counted, and it is compiled anew in every process. Options are those of :func:`kernel`.
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
    """Digest of Numba's version and all sources in `ROOMS` and one folder or file more, in 16 hexadecimal digits."""
    result = hashlib.sha256((digest() if room else numba.__version__).encode())
    for top in [PACKAGE / name for name in ([room] if room else ROOMS)]:
        for path in [top] if top.suffix == ".py" else sorted(top.rglob("*.py")):
            content = path.read_bytes()
            result.update(f"{os.path.relpath(path, PACKAGE)} {len(content)}\n".encode() + content)
    return result.hexdigest()[:16]


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
        folder = place / digest()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
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


class _Place(InTreeCacheLocator):  # type: ignore[misc]
    def get_cache_path(self) -> str:
        return str(_folder() / self.get_suitable_cache_subpath(self._py_file))


class _Code(CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_Place,)


class _SourceCache(FunctionCache):  # type: ignore[misc]
    """Numba's cache of one function in our place and under our key, looked for at the first call."""

    _enabled = True

    def __init__(self, function: Function) -> None:
        self._py_func, self._name = function, function.__qualname__
        file = Path(inspect.getfile(function))
        room = file.relative_to(PACKAGE).parts[0] if file.is_relative_to(PACKAGE) else str(file)
        # The sources are read now: later they may have changed, and be taken for those of what is loaded.
        with suppress(OSError):  # sources in an archive: then there is no folder either
            self._stamp = digest("" if room in ROOMS else room)

    @cached_property
    def _impl(self) -> _Code:
        _folder()  # whose failure says more than Numba's
        return _Code(self._py_func)

    @cached_property
    def _cache_file(self) -> _CheckedFiles:
        return _CheckedFiles(self._impl.locator.get_cache_path(), self._impl.filename_base, self._stamp)

    @property
    def cache_path(self) -> str | None:
        with suppress(OSError, RuntimeError):
            return str(self._impl.locator.get_cache_path())
        return None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            found = super().load_overload(sig, target_context)
        except Exception as failure:  # damaged files fail in any way
            _warn_once(failure)
            with suppress(Exception):
                self.flush()
            return None
        wanted = tuple(normalize_signature(sig)[0])  # processes that save at once may give one file to two of these
        return found if found is not None and found.signature.args == wanted else None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except Exception as failure:
            _warn_once(failure)


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
    with suppress(FileNotFoundError):
        content = Path(path).read_bytes()
        if hashlib.sha256(content[:-32]).digest() != content[-32:]:
            raise ValueError(f"{path} is damaged")  # an OSError would be taken for a file that is not there
