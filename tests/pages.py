"""The code of a page of the documentation: found, run from top to bottom, and what it printed beside what it should.

The blocks of a page run in one namespace. A ``text`` block right after a ``python`` block is what that one prints, with
``...`` for what may differ. In ``console`` blocks the lines after ``$ multireplay ...`` are what the command prints.
Before a block that takes too long, or needs a cluster, stands a comment ``<!-- not run: why -->``. The log of the
demonstration is there as ``out/power.csv``, as after ``make demo``.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from typer.testing import CliRunner

from multireplay.bench.demo import sensor_log
from multireplay.bench.demo_files import DemoFolder, write_log
from multireplay.cli import app

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SHELLS = ("console", "bash")
OTHER_PROGRAMS = ("pip", "make", "git", "cd")  # shown to the reader; they would change what the tests stand on

_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```[ ]*$", re.MULTILINE | re.DOTALL)
_NOT_RUN = re.compile(r"<!-- not run: \w[^>]*-->\s*\Z")
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass
class Block:
    """One fenced block: its language, its text, where that begins, whether to run it, and what it should print."""

    language: str
    text: str
    start: int = 0
    line: int = 1
    run: bool = True
    expected: str | None = None


class Command(NamedTuple):
    """A command line, and what it should print, None if that is not shown."""

    line: str
    expected: str | None


class Printed(NamedTuple):
    """What a piece of code printed, what it should have, and the places: in words, and from where to search it."""

    where: str
    expected: str | None
    printed: str
    start: int

    @property
    def difference(self) -> str:
        """Empty where the two agree."""
        checker = doctest.OutputChecker()
        if self.expected is None or checker.check_output(self.expected, self.printed, _FLAGS):
            return ""
        return checker.output_difference(doctest.Example("", self.expected), self.printed, _FLAGS)


def blocks_of(text: str) -> list[Block]:
    """The fenced blocks; a ``text`` block that is the output of the one before is kept with that one."""
    found: list[Block] = []
    end = 0
    for match in _FENCE.finditer(text):
        between, end = text[end : match.start()], match.end()
        language, content = match.groups()
        if language == "text" and found and found[-1].language == "python" and not between.strip():
            found[-1].expected = content
            continue
        line = text[: match.start()].count("\n") + 2
        found.append(Block(language, content, match.start(2), line, _NOT_RUN.search(between) is None))
    return found


def commands_of(block: Block) -> list[Command]:
    """The commands of a shell block: in ``console`` the lines with a $, in ``bash`` all of them."""
    text = block.text.replace("\\\n", " ")
    if block.language == "bash":
        return [Command(line, None) for line in text.splitlines() if line.strip() and not line.startswith("#")]
    pieces = re.split(r"^\$ (.*)\n", text, flags=re.MULTILINE)[1:]
    return [Command(line, output if output.strip() else None) for line, output in zip(*[iter(pieces)] * 2, strict=True)]


def run_python(block: Block, namespace: dict[str, object], page: Path) -> Printed:
    """Run one block; a traceback names the line of the page."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), namespace)
    return Printed(f"{page}:{block.line}", block.expected, output.getvalue(), block.start + len(block.text))


def run_shell(block: Block, page: Path) -> Iterator[Printed]:
    """Run the multireplay commands of a block, each of which must end well."""
    for command in commands_of(block):
        name, *arguments = shlex.split(command.line, comments=True)
        if name in OTHER_PROGRAMS:
            continue
        where = f"{page}:{block.line}: {command.line}"
        assert name == "multireplay", f"{where} cannot be tested: only multireplay commands can"
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, f"{where}\n{done.output}"
        yield Printed(where, command.expected, done.output, block.start)


def run_page(page: Path) -> Iterator[Printed]:
    """Run all blocks of a page, in the current folder."""
    write_log(DemoFolder(Path("out")), sensor_log((0, 0)))
    namespace: dict[str, object] = {"__name__": "page"}
    for block in blocks_of(page.read_text(encoding="utf-8")):
        if block.language == "python" and block.run:
            yield run_python(block, namespace, page)
        elif block.language in SHELLS and block.run:
            yield from run_shell(block, page)


def has_code(page: Path) -> bool:
    return any(block.language in ("python", *SHELLS) for block in blocks_of(page.read_text(encoding="utf-8")))
