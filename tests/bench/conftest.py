"""One small run of everything, made once and shared by all tests, also between the processes of pytest-xdist."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from multireplay.bench import EXPERIMENTS, reproduce, write_claims

INSTANCES = 2
SOME = ("fig2b", "fig3a", "tracking", "theory")
"""Experiments of every kind."""


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """The folder `name`, filled by `make` in whichever process comes first."""
    base = factory.getbasetemp()
    if base.name.startswith("popen-"):  # a process of pytest-xdist: one level up is common to all
        base = base.parent
    folder = base / name
    with (base / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "made").exists():
            make(folder)
            (folder / "made").touch()
    return folder


@pytest.fixture(scope="session")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All experiments by two processes, with the verdicts. To be read only."""

    def make(folder: Path) -> None:
        reproduce(list(EXPERIMENTS.values()), INSTANCES, 0, 2, folder, "small")
        write_claims(folder)

    return made_once(tmp_path_factory, "everything", make)


@pytest.fixture(scope="session")
def by_one_process(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some of the same by one process, from nothing."""
    return made_once(
        tmp_path_factory,
        "by_one_process",
        lambda folder: reproduce([EXPERIMENTS[name] for name in SOME], INSTANCES, 0, 1, folder, "small"),
    )


@pytest.fixture
def copied(everything: Path, tmp_path: Path) -> Path:
    """A copy of the run that a test may damage."""
    return Path(shutil.copytree(everything, tmp_path / "copied"))
