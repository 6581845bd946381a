"""The cache of machine code: any source it was made of is part of its key, and no state of it stops a run."""

import ast
import errno
import importlib.util
import inspect
import os
import pkgutil
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import pytest
from numba.core.caching import NullCache
from numba.core.dispatcher import Dispatcher

import multireplay
from multireplay import _jit

SOURCE = Path(multireplay.__file__).parent

LOOP = """
from multireplay._jit import kernel
from multireplay.problems.links import IDENTITY, apply

@kernel
def loop(z):
    return 2.0 * apply(IDENTITY, z)
"""

RUN = """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    from multireplay.sets.loop import loop
    from multireplay.replay import dyadic
    print(loop(3.0), sum(loop.stats.cache_hits.values()), len(dyadic.Dyadic().plan(4)[0].positions))
    told = [w for w in caught if w.category is RuntimeWarning]
    print(len(told), *[w.message for w in told])
"""


@pytest.fixture
def copied(tmp_path):
    """A copy of the package with one loop more, that calls a function of another room."""
    package = tmp_path / "lib" / "multireplay"
    shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "sets" / "loop.py").write_text(LOOP)
    return package


def run(package, **environment):
    inherited = {name: value for name, value in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        env={**inherited, "PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1", **environment},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    answer, told = done.stdout.splitlines()
    return answer, told


def test_an_edit_in_another_file_is_noticed(copied, tmp_path):
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    assert run(copied, **cache) == ("6.0 0 4", "0")
    assert run(copied, **cache) == ("6.0 1 4", "0")
    with (copied / "problems" / "links.py").open("a") as file:
        file.write("\n\n@jit_borrowing\ndef apply(link, z):\n    return z + 1.0\n")
    assert run(copied, **cache) == ("8.0 0 4", "0")


def test_without_a_folder_to_write_to_functions_are_compiled_with_one_warning(copied, tmp_path):
    (tmp_path / "file").touch()
    (copied / "__pycache__").touch()
    answer, told = run(copied, HOME=str(tmp_path / "file"), LOCALAPPDATA=str(tmp_path / "file"))
    assert answer == "6.0 0 4"
    assert told.startswith("1 a compiled function cannot be read from the cache")
    assert str(tmp_path / "file") in told
    assert "NUMBA_CACHE_DIR" in told


def test_without_a_home_the_cache_is_beside_the_sources(copied, tmp_path):
    (tmp_path / "file").touch()
    assert run(copied, HOME=str(tmp_path / "file"), LOCALAPPDATA=str(tmp_path / "file")) == ("6.0 0 4", "0")
    assert list((copied / "__pycache__" / "kernels").rglob("loop.loop-*.nbi"))


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, before any warning."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(_jit, "_warned", [])
    _jit._folder.cache_clear()
    yield tmp_path / "cache" / "multireplay"
    _jit._folder.cache_clear()


@pytest.fixture
def triple(tmp_path):
    """A function that makes the compiled function of a file anew, as another process would."""
    file = tmp_path / "own.py"
    file.write_text("from multireplay._jit import jit\n\n@jit\ndef triple(x):\n    return 3 * x\n")

    def make():
        spec = importlib.util.spec_from_file_location("own", file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.triple

    return make


def hits(function):
    return sum(function.stats.cache_hits.values())


def test_machine_code_is_read_back(cache, triple):
    assert triple()(2) == 6
    again = triple()
    assert (again(2), hits(again)) == (6, 1)
    assert Path(again.stats.cache_path).is_relative_to(cache / _jit.digest())


@pytest.mark.parametrize("ending", ["nbi", "nbc"])
@pytest.mark.parametrize(
    "damage",
    [lambda old: b"", lambda old: old[: len(old) // 2], lambda old: os.urandom(300),
     lambda old: old[:-200] + bytes([old[-200] ^ 1]) + old[-199:]],
    ids=["empty", "truncated", "random", "one bit"],
)  # fmt: skip
def test_a_damaged_file_is_warned_of_once_and_written_anew(cache, triple, ending, damage):
    triple()(2)
    (file,) = cache.rglob(f"*.{ending}")
    file.write_bytes(damage(file.read_bytes()))
    with pytest.warns(RuntimeWarning, match=r"own\.triple.* is damaged") as told:
        assert triple()(2) == 6
    assert len(told) == 1
    again = triple()
    assert (again(2), hits(again)) == (6, 1)


def test_code_for_other_types_is_never_taken(cache, triple):
    (triple()(2), triple()(2.5))
    one, two = cache.rglob("*.nbc")
    content = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(content)
    again = triple()
    assert (again(2), again(2.5)) == (6, 7.5)
    later = triple()
    assert (later(2), later(2.5), hits(later)) == (6, 7.5, 2)


def test_a_full_disk_is_warned_of_once(cache, triple, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(_jit._CheckedFiles, "_save_data", full)
    with pytest.warns(RuntimeWarning, match="No space left on device.*make room on the disk") as told:
        assert (triple()(2), triple()(2.5)) == (6, 7.5)
    assert len(told) == 1


def test_a_folder_that_cannot_be_made_is_warned_of_once(cache, triple, tmp_path):
    (tmp_path / "cache").touch()
    with pytest.warns(RuntimeWarning, match="NUMBA_CACHE_DIR") as told:
        assert (triple()(2), triple()(2.5)) == (6, 7.5)
    assert len(told) == 1
    assert triple().stats.cache_path is None


def test_caches_of_older_sources_are_removed_and_nothing_else(cache):
    for number in range(10):
        room = cache / f"{number:016x}" / "multireplay.sets"
        room.mkdir(parents=True)
        for name in ("a.py311.nbi", "a.py311.1.nbc", "a.py311.1.nbc.tmp.0123456789abcdef"):
            (room / name).touch()
        os.utime(room.parent, (number, number))
    (cache / f"{1:016x}" / "multireplay.sets" / "notes.txt").write_text("mine")
    (cache / "another").mkdir()
    os.utime(cache / "another", (0, 0))
    assert _jit._folder() == cache / _jit.digest()
    assert {path.name for path in cache.iterdir()} == {
        "another", _jit.digest(), f"{1:016x}", *(f"{number:016x}" for number in range(5, 10))
    }  # fmt: skip
    assert [path.name for path in (cache / f"{1:016x}" / "multireplay.sets").iterdir()] == ["notes.txt"]


def test_the_digest_is_that_of_names_and_contents(tmp_path, monkeypatch):
    def of(**files):
        folder = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        for name, text in files.items():
            (folder / f"{name}.py").write_text(text)
        monkeypatch.setattr(_jit, "PACKAGE", folder)
        monkeypatch.setattr(_jit, "ROOMS", ("",))
        _jit.digest.cache_clear()
        return _jit.digest()

    assert of(a="x", b="y") == of(a="x", b="y")
    assert len({of(a="x", b="y"), of(a="y", b="x"), of(a="xy", b=""), of(a="x", c="y"), of(a="x")}) == 5
    _jit.digest.cache_clear()


def modules():
    for found in pkgutil.walk_packages([str(SOURCE)], "multireplay."):
        if ".torchrl" not in found.name and not found.name.endswith("__main__"):
            yield importlib.import_module(found.name)


def compiled_functions():
    for module in modules():
        for value in vars(module).values():
            if isinstance(value, Dispatcher) and value.py_func.__module__ == module.__name__:
                yield module, value


def test_the_key_covers_all_that_a_compiled_function_names():
    for module, function in compiled_functions():
        own = Path(inspect.getfile(module)).relative_to(SOURCE).parts[0]
        imports = [node for node in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(node, ast.ImportFrom)]
        for node in imports:
            names = {alias.asname or alias.name for alias in node.names}
            if (node.module or "").startswith("multireplay.") and names & set(function.py_func.__code__.co_names):
                room = node.module.split(".")[1]
                covered = {own, *_jit.ROOMS}
                assert room in covered or f"{room}.py" in covered, f"{function} uses {names} of {node.module}"


def test_every_function_is_compiled_in_one_way():
    for _, function in compiled_functions():
        assert type(function._cache) in (NullCache, _jit._SourceCache), function
    for path in SOURCE.rglob("*.py"):
        if path.name != "_jit.py":
            assert "_nrt" not in path.read_text(), path
            assert "numba.njit(" not in path.read_text(), path
            assert "@numba.njit" not in path.read_text(), path


def test_what_the_decorators_tell_numba():
    def function(x):
        return x

    def told(decorator):
        return {name: value for name, value in decorator(function).targetoptions.items() if name != "nopython"}

    assert told(_jit.jit) == {"nogil": True, "error_model": "numpy", "boundscheck": None}
    assert told(_jit.jit_borrowing) == {**told(_jit.jit), "_nrt": False}
    assert told(_jit.kernel(fastmath={"nsz"})) == {"fastmath": {"nsz"}, "_nrt": False, "boundscheck": None}
    assert told(_jit.kernel) == {**told(_jit.users_kernel), "_nrt": False}
    assert told(_jit.users_kernel) == {**_jit.LOOP, "boundscheck": None}
    assert told(_jit.users_kernel(nogil=False)) == {"nogil": False, "boundscheck": None}
    assert type(_jit.users_kernel(function)._cache) is NullCache
