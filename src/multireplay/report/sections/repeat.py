"""How to repeat the run: the program, the record's fingerprint, and versions."""

from __future__ import annotations

import platform
from importlib import metadata

from multireplay.report.blocks import Block, Code, Section, Table, Text
from multireplay.report.evidence import Evidence
from multireplay.report.script import script

PACKAGES = ("numpy", "scipy", "numba", "scikit-learn")


def section(evidence: Evidence, command: str | None = None) -> Section:
    program = script(evidence.result, evidence.recipe)
    blocks: list[Block] = [Code(program, caption="In Python"), Text(_randomness(evidence)), *versions()]
    return Section("Repeat", [*on_the_command_line(command), *blocks])


def on_the_command_line(command: str | None) -> list[Block]:
    """The command that repeats it, if there is one."""
    return [Code(command, caption="On the command line")] if command else []


def versions() -> list[Block]:
    """What the page was made with."""
    import multireplay

    found = {"Python": platform.python_version(), "multireplay": multireplay.__version__}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    rows = [{"package": name, "version": version} for name, version in found.items()]
    return [Table(rows, caption="Versions")]


def _randomness(evidence: Evidence) -> str:
    seed = getattr(evidence.replay, "seed", None)
    how = "The run uses no random numbers" if seed is None else f"The order comes from the seed {seed}"
    return f"{how}: the same record gives the same answer, up to rounding, on any machine."
