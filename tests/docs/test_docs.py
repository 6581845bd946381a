"""Every code block of the documentation is run, page by page, and the site is built with warnings as errors."""

from __future__ import annotations

import html.parser
import importlib
import re
import subprocess
import sys
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from pages import PAGES, ROOT, Block, Command, blocks_of, commands_of, has_code, run_page, run_python, run_shell

ROOMS = ("", "problems", "replay", "sets", "simulate", "theory", "report", "diagnose", "estimators", "rl")


@pytest.mark.parametrize("page", [page for page in PAGES if has_code(page)], ids=lambda page: page.stem)
def test_code_of_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a page shows no code that warns, unless it catches the warning itself
        for found in run_page(page):
            assert not found.difference, f"{found.where}\n{found.difference}"
    plt.close("all")


def test_blocks_are_found_with_their_output_and_their_mark() -> None:
    text = "```python\nprint(1)\n```\n\n```text\n1\n```\nwords\n\n<!-- not run: takes minutes -->\n```bash\nls\n```\n"
    first, second = blocks_of(text)
    assert (first.text, first.expected, first.line, first.run) == ("print(1)\n", "1\n", 2, True)
    assert (second.language, second.run) == ("bash", False)


def test_commands_are_found_with_their_output() -> None:
    first, second = commands_of(Block("console", "$ multireplay a \\\n  --b\none\ntwo\n$ pip c\n"))
    assert (first.line.split(), first.expected) == (["multireplay", "a", "--b"], "one\ntwo\n")
    assert second == Command("pip c", None)
    assert commands_of(Block("bash", "# why\nmake a\n\nmake b\n")) == [Command("make a", None), Command("make b", None)]


def test_wrong_output_is_told(tmp_path: Path) -> None:
    assert not run_python(Block("python", "print('a b c')", expected="a ... c\n"), {}, tmp_path).difference
    assert "Expected" in run_python(Block("python", "print('a b c')", expected="a c\n"), {}, tmp_path).difference


@pytest.mark.parametrize("command", ["multireplay no-such-command", "ls"])
def test_a_command_that_fails_or_cannot_be_run_is_told(command: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=re.escape(command)):
        list(run_shell(Block("bash", command + "\n"), tmp_path))


def public_names(room: str) -> set[str]:
    """What ``__all__`` of a room names, by the place it comes from; rooms within and constants are not counted."""
    module = importlib.import_module(f"multireplay.{room}".rstrip("."))
    found = [getattr(module, name) for name in module.__all__]
    return {place_of(entry) for entry in found if hasattr(entry, "__qualname__")}


def place_of(entry: object) -> str:
    return f"{entry.__module__}.{entry.__qualname__}"  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def listed() -> set[str]:
    """What the pages of the reference show."""
    paths = [
        path
        for page in (ROOT / "docs" / "api").glob("*.md")
        for path in re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
        if not path.startswith("multireplay.torchrl.")  # an extra that need not be here
    ]
    return {
        place_of(getattr(importlib.import_module(path.rpartition(".")[0]), path.rpartition(".")[2])) for path in paths
    }


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_has_its_entry_in_the_reference(room: str, listed: set[str]) -> None:
    assert not public_names(room) - listed


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
