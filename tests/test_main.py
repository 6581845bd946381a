"""The command line as a process: what it imports, and Ctrl-C at any moment."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import multireplay

HELP = """
import sys
from multireplay.__main__ import main
sys.argv = ["multireplay", *{arguments}]
try:
    main()
except SystemExit as end:
    assert end.code == 0
heavy = {{"numpy", "scipy", "numba", "pyarrow", "sklearn", "matplotlib", "plotly", "jinja2"}} & set(sys.modules)
print("heavy:", sorted(heavy))
"""

STOPPED = """
import os, signal, sys

class Stop:
    def find_spec(self, name, *rest):
        if name == {module!r}:
            exec("os.kill(os.getpid(), signal.SIGINT)")  # modules execute texts, and Python minds where Ctrl-C comes

sys.meta_path.insert(0, Stop())
sys.argv = ["multireplay", "fit", {data!r}, "--target", "y", "--out", {out!r}, "--report", {out!r} + ".html"]
from multireplay.__main__ import main
main()
"""


def python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)


@pytest.mark.parametrize("arguments", [["--help"], ["fit", "--help"], ["predict", "--help"], ["evaluate", "--help"]])
def test_help_waits_for_nothing_that_is_large(arguments):
    """How long it takes depends on the machine; what it waits for does not."""
    done = python(HELP.format(arguments=arguments))
    assert done.returncode == 0, done.stderr
    assert "Usage: multireplay" in done.stdout
    assert "heavy: []" in done.stdout


def test_the_package_comes_in_without_its_rooms():
    code = "import sys, multireplay; print('numpy' in sys.modules, multireplay.__version__)"
    assert python(code).stdout.split()[0] == "False"


def test_functions_keep_their_names_where_modules_have_them_too():
    code = "import multireplay.solve, multireplay.diagnose, multireplay.estimators, multireplay as mr\n"
    code += "print(callable(mr.solve), callable(mr.diagnose), callable(multireplay.solve))"
    assert python(code).stdout.split() == ["True"] * 3


def test_functions_that_speak_of_the_package_go_to_other_processes():
    pytest.importorskip("cloudpickle")
    code = "import cloudpickle, multireplay as mr\n"
    code += "print(cloudpickle.loads(cloudpickle.dumps(lambda: mr.__version__))())"
    assert python(code).stdout.split() == [multireplay.__version__]


@pytest.mark.parametrize("module", ["typer", "rich.table", "numpy", "pyarrow.csv", "sklearn.base", "plotly.io"])
def test_ctrl_c_while_modules_come_in(tmp_path, module):
    data = tmp_path / "data.csv"
    data.write_text("x,y\n" + "".join(f"{i % 7},{i % 5}\n" for i in range(200)))
    done = python(STOPPED.format(module=module, data=str(data), out=str(tmp_path / "model.json")))
    assert done.returncode == 130, done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob(".*"))


def test_ctrl_c_before_the_first_module_of_its_own():
    """What comes in first, `signal`, is stopped: the handler is there already."""
    code = STOPPED.format(module="signal", data="", out="").replace("import os, signal, sys", "import os, _signal, sys")
    code = code.replace("signal.SIGINT", "_signal.SIGINT").replace("os.kill", "'signal' in sys.modules or os.kill")
    done = python(code)
    assert (done.returncode, done.stderr) == (130, "")


@pytest.mark.parametrize("arguments", [["--help"], ["inspect", "data.csv"], ["inspect", "data.csv", "--json"]])
def test_a_pipe_that_nobody_reads_ends_quietly(tmp_path, arguments):
    (tmp_path / "data.csv").write_text("x,y\n" + "".join(f"{i % 7},{i % 5}\n" for i in range(200)))
    command = [sys.executable, "-m", "multireplay", *arguments]
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, timeout=100, cwd=tmp_path)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


def test_ctrl_c_where_python_cannot_stop():
    code = """
import os, signal, sys
from multireplay.__main__ import main

class Late:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)

def app(prog_name):
    import time
    late = Late()
    del late
    time.sleep(20)

sys.modules["multireplay.cli"] = type(sys)("multireplay.cli")
sys.modules["multireplay.cli"].app = app
main()
"""
    done = python(code)
    assert (done.returncode, done.stderr) == (130, "")


@pytest.mark.parametrize(("number", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_computation_that_python_cannot_stop(number, code):
    code_of = """
import hashlib, os, signal, sys, threading
import multireplay.__main__ as program

def app(prog_name):
    threading.Timer(0.2, os.kill, (os.getpid(), signal.{number})).start()
    hashlib.pbkdf2_hmac("sha256", b"a", b"b", 10**9)  # takes minutes, without Python's lock

program.PATIENCE = 0.2
sys.modules["multireplay.cli"] = type(sys)("multireplay.cli")
sys.modules["multireplay.cli"].app = app
program.main()
"""
    assert python(code_of.format(number=number)).returncode == code


def test_a_process_that_is_told_to_end_leaves_nothing_half_written(tmp_path):
    code = f"""
import os, signal, sys
from multireplay.__main__ import main

def app(prog_name):
    from multireplay._write import completed
    with completed({str(tmp_path / "a.txt")!r}) as file:
        file.write(b"half")
        os.kill(os.getpid(), signal.SIGTERM)

sys.modules["multireplay.cli"] = type(sys)("multireplay.cli")
sys.modules["multireplay.cli"].app = app
main()
"""
    assert python(code).returncode == 143
    assert not list(tmp_path.iterdir())


def test_the_program_begins_here():
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {"multireplay": "multireplay.__main__:main"}
