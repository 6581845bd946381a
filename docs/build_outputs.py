"""Bring the outputs that the pages show up to date, where they differ from what their code prints now.

Read what changed (git diff) before keeping it: the words around a number may no longer be true.
Usage: python docs/build_outputs.py [docs/page.md ...]
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import textwrap
from pathlib import Path

os.environ["COLUMNS"] = "160"
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from pages import PAGES, has_code, run_page

LONGEST = 92


def shown(printed: str) -> str:
    """The lines as a page shows them: sentences that are too long are broken, tables are not."""
    lines = []
    for line in printed.rstrip().splitlines():
        sentence = len(line) > LONGEST and "  " not in line.strip() and not line.strip().startswith("─")
        lines += textwrap.wrap(line, LONGEST) if sentence else [line.rstrip()]
    return "\n".join(lines) + "\n"


def main(pages: list[Path]) -> None:
    for page in pages:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            wrong = [found for found in run_page(page) if found.difference]
        text = page.read_text(encoding="utf-8")
        for found in reversed(wrong):  # from the end, so that places before it stay where they are
            head, tail = text[: found.start], text[found.start :]
            text = head + tail.replace(found.expected or "", shown(found.printed), 1)
            print(found.where, found.difference, sep="\n")
        page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main([Path(name).resolve() for name in sys.argv[1:]] or [page for page in PAGES if has_code(page)])
