"""The built wheel holds the package and nothing else, and runs the demo where nothing but it is installed.

Usage: python .ci/wheel.py FOLDER, where the wheel and the source archive lie (make wheel).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"


def check_content(wheel: Path) -> None:
    """Every file of the package, data files too, and beside them only what describes it."""
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if not name.partition("/")[0].endswith(".dist-info")}
    package = {path.relative_to(SOURCE).as_posix() for path in (SOURCE / "multireplay").rglob("*") if path.is_file()}
    package = {name for name in package if not name.endswith(".pyc")}
    if held != package:
        raise SystemExit(f"{wheel.name}: missing {sorted(package - held)}, too much {sorted(held - package)}")
    print(f"{wheel.name}: {len(held)} files, {wheel.stat().st_size / 1e6:.1f} MB")


def check_install(wheel: Path, folder: Path) -> None:
    """In an environment of its own: the version is the wheel's, and the demo writes what it promises."""
    venv.create(folder / "environment", with_pip=True)
    programs = folder / "environment" / ("Scripts" if os.name == "nt" else "bin")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "NUMBA"))}

    def run(*command: str) -> str:
        program = str(programs / command[0])
        done = subprocess.run([program, *command[1:]], cwd=folder, env=variables, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {done.stdout}")
        return done.stdout

    run("python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel))
    version = run("multireplay", "--version").split()
    if version != wheel.name.split("-")[:2]:
        raise SystemExit(f"{wheel.name} says it is {' '.join(version)}")
    began = time.perf_counter()
    print(run("multireplay", "demo", "--out", "out"))
    print(f"with the start of Python and all that is compiled at first use: {time.perf_counter() - began:.0f} s")
    if not list((folder / "out").glob("*.png")):
        raise SystemExit("the demo has drawn nothing")


def main() -> None:
    """Check the one wheel in the folder that is named."""
    (wheel,) = Path(sys.argv[1]).resolve().glob("*.whl")
    check_content(wheel)
    with tempfile.TemporaryDirectory() as folder:
        check_install(wheel, Path(folder))


if __name__ == "__main__":
    main()
