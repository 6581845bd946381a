"""Running the bench: seeds in parallel, finished ones kept, one table and one picture at the end."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import multireplay
from multireplay.compare import draw, table
from multireplay.compare.evaluate import choose, report, tune
from multireplay.compare.methods import GRID, METHODS
from multireplay.compare.worlds import ENTRIES, Entry, MissingExtra, entries_of, make_world
from multireplay.errors import InputError
from multireplay.reproduce.runner import Task, run_tasks
from multireplay.reproduce.store import Store
from multireplay.reproduce.worlds import Size

TUNING_COST = 4.5
"""A tuning seed runs the whole grid of steps and takes about this many times as long as a report seed."""

_PARTS = ("compare", "engine", "problems", "replay", "sets", "simulate")
_NO_MATTER = {
    "demo.py",
    "plotting.py",
    "text.py",
    "progress.py",
    "online.py",
    "forgetting.py",
    "draw.py",
    "table.py",
}


def compare(
    suite: str | Sequence[str] = "all",
    seeds: int = 30,
    tuning_seeds: int = 5,
    jobs: int = 2,
    out: Path = Path("out/compare"),
    size: Size = "full",
    advance: Callable[[str, float], None] = lambda name, seconds: None,
) -> list[table.Row]:
    """Run problems × methods and write compare.csv, compare.md and compare.png into `out`.

    Parameters
    ----------
    suite : str or sequence of str
        "paper", "classic", "hard", "glm", "all", or the names of single worlds.
    seeds, tuning_seeds : int
        Records that are reported, and other records on which steps are tuned.
    jobs : int
        Seeds worked out at the same time, one thread each.
    out : Path
        Folder for the table, the picture, finished seeds and reference solutions.
    size : "full" or "small"
        Records of 2^16 or 2^12 rows.
    advance : callable
        Is told the name and rough cost of every seed that is finished, also of those found on disk.

    Returns
    -------
    list of dict
        The rows of compare.csv.
    """
    if seeds < 1 or tuning_seeds < 1 or jobs < 1:
        raise InputError("seeds, tuning_seeds and jobs must be at least 1")
    if size not in ("full", "small"):
        raise InputError(f"size must be 'full' or 'small', not {size!r}")
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    cache = (out / "references").absolute()  # workers may be elsewhere
    settings = _settings()
    rows: list[table.Row] = []
    notes: dict[str, str] = {}
    left_out: dict[str, str] = {}
    for entry in chosen_worlds(suite):
        try:
            world = make_world(entry.name, size, cache)
        except MissingExtra as missing:
            left_out[entry.name] = str(missing)
            advance(entry.name, entry.seconds * (TUNING_COST * tuning_seeds + seeds))
            continue
        store = Store(out, _slug(entry.name), size, 0, json.dumps([entry.name, settings]))
        common = (entry.name, size, cache)
        tuning = [Task(store, "tune", i, tune, (*common, i), TUNING_COST * entry.seconds) for i in range(tuning_seeds)]
        run_tasks(tuning, jobs, entry.name, advance)
        chosen = choose(store.load_all("tune", tuning_seeds), world)
        phase = f"report-{hashlib.sha256(json.dumps(chosen, sort_keys=True).encode()).hexdigest()[:6]}"
        reports = [Task(store, phase, i, report, (*common, i, chosen), entry.seconds) for i in range(seeds)]
        run_tasks(reports, jobs, entry.name, advance)
        notes[entry.name] = f"yardstick {world.yardstick}, x* {world.reference}, oracle gap {world.gap}"
        rows += table.rows_of(entry, world, store.load_all(phase, seeds), chosen)
        table.write(out, rows, notes, left_out)
    table.write(out, rows, notes, left_out)
    if rows:
        draw.draw(rows, out / "compare.png")
    return rows


def total_cost(suite: str | Sequence[str] = "all", seeds: int = 30, tuning_seeds: int = 5) -> float:
    """Rough cost of everything, in the units that `advance` is told: seconds of one core at full size."""
    return sum(entry.seconds * (TUNING_COST * tuning_seeds + seeds) for entry in chosen_worlds(suite))


def chosen_worlds(suite: str | Sequence[str]) -> list[Entry]:
    """The worlds of a suite, or those named."""
    if isinstance(suite, str):
        return [ENTRIES[suite]] if suite in ENTRIES else entries_of(suite)
    unknown = [name for name in suite if name not in ENTRIES]
    if unknown:
        raise InputError(f"no world {unknown[0]!r}; there are {', '.join(ENTRIES)}")
    return [ENTRIES[name] for name in suite]


def _settings() -> list[Any]:
    """What finished seeds depend on, the library's code included: after a change they are worked out again."""
    root = Path(multireplay.__file__).parent
    files = [path for part in _PARTS for path in sorted((root / part).rglob("*.py"))]
    files += sorted(root.glob("*.py"))
    code = hashlib.sha256(b"".join(path.read_bytes() for path in files if path.name not in _NO_MATTER))
    return [list(METHODS), GRID, code.hexdigest()]


def _slug(name: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in name)
