"""Every code block of the documentation is run, page by page, and the site is built with warnings as errors.

The blocks of a page run from top to bottom in one namespace and one empty folder. A ``text`` block right after a
``python`` block is what that one prints, with ``...`` for what may differ. In ``console`` blocks the lines after
``$ multireplay ...`` are what the command prints. A block that takes too long has a comment ``<!-- not run: why -->``
before it.
"""

from __future__ import annotations

import contextlib
import doctest
import html.parser
import importlib
import io
import re
import shlex
import subprocess
import sys
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from typer.testing import CliRunner

from multireplay.cli import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```[ ]*$", re.MULTILINE | re.DOTALL)
NOT_RUN = re.compile(r"<!-- not run: \w[^>]*-->\s*\Z")
ROOMS = ("", ".problems", ".replay", ".sets", ".simulate", ".theory", ".storage", ".report", ".diagnose")
SHELLS = ("console", "bash")
OTHER_PROGRAMS = ("pip", "make", "git", "cd")  # shown to the reader; they would change what the tests stand on


@dataclass
class Block:
    """One fenced block: its language, its text, the line it begins at, and what it should print."""

    language: str
    text: str
    line: int
    run: bool
    expected: str | None = None


@dataclass
class Command:
    """A command line, and what it should print."""

    line: str
    expected: list[str] = field(default_factory=list)


def blocks_of(text: str) -> list[Block]:
    found: list[Block] = []
    end = 0
    for match in FENCE.finditer(text):
        between, end = text[end : match.start()], match.end()
        language, content = match.groups()
        if language == "text" and found and found[-1].language == "python" and not between.strip():
            found[-1].expected = content
            continue
        line = text[: match.start()].count("\n") + 2
        found.append(Block(language, content, line, NOT_RUN.search(between) is None))
    return found


def commands_of(block: Block) -> list[Command]:
    """The commands of a shell block: in ``console`` the lines with a $, in ``bash`` all of them."""
    found: list[Command] = []
    for line in block.text.replace("\\\n", " ").splitlines():
        if block.language == "bash" and line.strip() and not line.startswith("#"):
            found.append(Command(line))
        elif line.startswith("$ "):
            found.append(Command(line[2:]))
        elif block.language == "console" and found:
            found[-1].expected.append(line)
    return found


def check(expected: str, printed: str, where: str) -> None:
    checker = doctest.OutputChecker()
    example = doctest.Example("", expected)
    if not checker.check_output(expected, printed, FLAGS):
        raise AssertionError(f"{where}\n{checker.output_difference(example, printed, FLAGS)}")


def run_python(block: Block, namespace: dict[str, object], page: Path) -> None:
    source = "\n" * (block.line - 1) + block.text  # so that a traceback names the line of the page
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(source, str(page), "exec"), namespace)
    if block.expected is not None:
        check(block.expected, printed.getvalue(), f"{page}:{block.line}")


def run_shell(block: Block, page: Path) -> None:
    for command in commands_of(block):
        name, *arguments = shlex.split(command.line, comments=True)
        if name in OTHER_PROGRAMS:
            continue
        where = f"{page}:{block.line}: {command.line}"
        assert name == "multireplay", f"{where} cannot be tested: only multireplay commands can"
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, f"{where}\n{done.output}"
        if any(line.strip() for line in command.expected):
            check("\n".join(command.expected) + "\n", done.stdout, where)


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def with_code(page: Path) -> bool:
    return any(block.language in ("python", *SHELLS) for block in blocks_of(page.read_text(encoding="utf-8")))


@pytest.mark.parametrize("page", [page for page in PAGES if with_code(page)], ids=page_name)
def test_code_of_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.syspath_prepend(tmp_path)
    namespace: dict[str, object] = {"__name__": "page"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a page shows no code that warns, unless it catches the warning itself
        for block in blocks_of(page.read_text(encoding="utf-8")):
            if block.language == "python":
                run_python(block, namespace, page)
            elif block.language in SHELLS and block.run:
                run_shell(block, page)
    plt.close("all")


def test_blocks_are_found_with_their_output_and_their_mark() -> None:
    text = "```python\nprint(1)\n```\n\n```text\n1\n```\nwords\n\n<!-- not run: takes minutes -->\n```bash\nls\n```\n"
    first, second = blocks_of(text)
    assert (first.text, first.expected, first.line, first.run) == ("print(1)\n", "1\n", 2, True)
    assert (second.language, second.run) == ("bash", False)


def test_commands_are_found_with_their_output() -> None:
    block = Block("console", "$ multireplay a \\\n  --b\none\ntwo\n$ pip c\n", 1, True)
    first, second = commands_of(block)
    assert (first.line.split(), first.expected) == (["multireplay", "a", "--b"], ["one", "two"])
    assert second == Command("pip c")


def test_wrong_output_is_told(tmp_path: Path) -> None:
    run_python(Block("python", "print('a b c')", 1, True, "a ... c\n"), {}, tmp_path)
    with pytest.raises(AssertionError, match="Expected"):
        run_python(Block("python", "print('a b c')", 1, True, "a c\n"), {}, tmp_path)


def test_a_command_that_fails_is_told(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="no-such-command"):
        run_shell(Block("bash", "multireplay no-such-command\n", 1, True), tmp_path)


def public_names() -> list[str]:
    """Everything that ``__all__`` of the package and its rooms names, other than the rooms themselves."""
    modules = [importlib.import_module(f"multireplay{room}") for room in ROOMS]
    found = [getattr(module, name) for module in modules for name in module.__all__]
    return sorted({f"{entry.__module__}.{entry.__qualname__}" for entry in found if hasattr(entry, "__qualname__")})


def test_every_public_name_has_its_entry_in_the_reference() -> None:
    listed = set()
    for page in (ROOT / "docs" / "api").glob("*.md"):
        for path in re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE):
            module, name = path.rsplit(".", 1)
            entry = getattr(importlib.import_module(module), name)
            listed.add(f"{entry.__module__}.{entry.__qualname__}")
    assert set(public_names()) <= listed, sorted(set(public_names()) - listed)


class Requests(html.parser.HTMLParser):
    """What a browser fetches for a page: scripts, style sheets, pictures, frames, hints."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "link" and given.get("rel") not in ("next", "prev", "canonical"):
            self.found.append(given.get("href") or "")
        elif tag != "a":
            self.found.append(given.get("src") or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_site_builds_with_all_pages_and_nothing_else(site: Path) -> None:
    pages = {page.relative_to(site).with_suffix(".md") for page in site.rglob("*.html")}
    written = {page.relative_to(ROOT / "docs") for page in (ROOT / "docs").rglob("*.md")}
    assert pages == written | {Path("404.md")}
    assert not list(site.rglob("*.py"))


def test_pages_ask_nothing_of_other_machines(site: Path) -> None:
    for page in site.rglob("*.html"):
        parser = Requests()
        parser.feed(page.read_text(encoding="utf-8"))
        assert not [address for address in parser.found if re.match(r"(https?:)?//", address)], page
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import)\s*['\"]?(https?:)?//", sheet.read_text(encoding="utf-8")), sheet
