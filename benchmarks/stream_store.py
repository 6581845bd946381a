"""The store of a stream: how fast rows are kept, and what becomes of flipped bytes.

Speed: blocks of rows of 20 features through the journal alone and through the whole stream, over plain appends of the
same bytes to a file with the same waits for the disk. Flips: every byte of a small store, and many random ones of a
large one, each flipped in turn: an error, or a state that a run without interruption had at that position; and for
the rows in the store an error, or those that were written.

    python benchmarks/stream_store.py --out benchmarks/stream_store.csv
    python benchmarks/stream_store.py --flips 10000 --out benchmarks/stream_flips.csv
"""

from __future__ import annotations

import argparse
import csv
import os
import tempfile
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np

import multireplay as mr
from multireplay.errors import InputError
from multireplay.show.text import TextTable
from multireplay.streaming.store import kept
from multireplay.streaming.store.replay import Recovered
from multireplay.streaming.store.store import Settings, StreamStore, begin

WIDTH, BLOCK, ROUNDS = 20, 4096, 7
NOW = "learner.now"
"""Of a state: the number of rows, whole or as a decimal."""


def data(rows: int, width: int = WIDTH) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    features = rng.standard_normal((rows, width))
    return features, features.sum(axis=1) + rng.standard_normal(rows)


def speed(rows: int, sync: str) -> list[dict[str, object]]:
    """Rows a second of the same rows in four ways: the median of several rounds, in each of which all take turns."""
    features, targets = data(rows)
    blocks = [slice(at, at + BLOCK) for at in range(0, rows, BLOCK)]
    ways = {"plain append": _plain, "journal": _journal, "stream in memory": _stream, "stream with a store": _stream}
    found: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(ROUNDS):
        for way, run in ways.items():
            with tempfile.TemporaryDirectory() as folder:
                found[way].append(run(f"{folder}/run", sync, [(features[part], targets[part]) for part in blocks], way))
    took = {way: float(np.median(times)) for way, times in found.items()}
    raw = took["plain append"]
    return [
        {"sync": sync, "way": way, "rows a second": f"{rows / seconds:,.0f}", "of plain append": f"{raw / seconds:.2f}"}
        for way, seconds in took.items()
    ]


def _plain(path: str, sync: str, blocks: list, way: str) -> float:
    place = os.open(path, os.O_CREAT | os.O_WRONLY)
    start = waited = time.perf_counter()
    for features, targets in blocks:
        os.write(place, features.tobytes() + targets.tobytes())
        if sync == "always" or (sync == "interval" and time.perf_counter() - waited > 1.0):
            os.fsync(place)
            waited = time.perf_counter()
    if sync != "none":
        os.fsync(place)
    took = time.perf_counter() - start
    os.close(place)
    return took


def _journal(path: str, sync: str, blocks: list, way: str) -> float:
    store = StreamStore(Path(path), begin(Path(path)), Settings(sync), Recovered(None))
    start = time.perf_counter()
    for features, targets in blocks:
        store.write({"features": features, "targets": targets}, None)
    if sync != "none":
        store.journal.to_disk()
    return time.perf_counter() - start


def _stream(path: str, sync: str, blocks: list, way: str) -> float:
    stream = mr.Stream(mr.GLM(), **({"store": path, "sync": sync} if "store" in way else {}))
    stream.observe_many(features=blocks[0][0], targets=blocks[0][1])
    start = time.perf_counter()
    for features, targets in blocks:
        stream.observe_many(features=features, targets=targets)
    return time.perf_counter() - start


def flips(count: int) -> list[dict[str, object]]:
    """What becomes of flipped bytes, in a small store all of them, in a large one so many at random."""
    told = []
    kept.TRIES = 1
    warnings.simplefilter("ignore")
    for name, rows, width in (("small", 60, 1), ("large", 24_000, 8)):
        features, targets = data(rows, width)
        with tempfile.TemporaryDirectory() as folder:
            stream = mr.Stream(mr.GLM(), store=f"{folder}/run")
            states = {0: mr.Stream(mr.GLM()).state()}
            for at in range(0, rows, rows // 12):
                part = slice(at, at + rows // 12)
                stream.observe_many(features=features[part], targets=targets[part])
                states[stream.position] = {key: np.array(value) for key, value in stream.state().items()}
                if at // (rows // 12) in (3, 7):
                    stream.save()
            known = Known(states, stream.buffer()["features"])
            told.append({"store": name, **_flipped(Path(folder) / "run", known, None if name == "small" else count)})
    return told


class Known(NamedTuple):
    """What is right: the state at every position between two records, and the rows in the journal."""

    states: dict
    rows: np.ndarray


def _flipped(folder: Path, known: Known, count: int | None) -> dict[str, int]:
    files = [path for path in sorted(folder.iterdir()) if path.name != "lock"]
    places = [(path, at) for path in files for at in range(path.stat().st_size)]
    rng = np.random.default_rng(1)
    chosen = range(len(places)) if count is None else rng.choice(len(places), count)
    found = {"bytes": len(places), "flips": len(chosen), "errors": 0, "right": 0, "wrong": 0}
    found |= {"rows refused": 0, "rows right": 0, "rows wrong": 0}
    for number in chosen:
        path, at = places[number]
        with path.open("r+b", buffering=0) as file:
            byte = os.pread(file.fileno(), 1, at)
            os.pwrite(file.fileno(), bytes([byte[0] ^ 1 << int(rng.integers(8))]), at)
            for what, look in (("", _state), ("rows ", _rows)):
                try:
                    found[what + ("right" if look(folder, known) else "wrong")] += 1
                except InputError:
                    found["rows refused" if what else "errors"] += 1
            os.pwrite(file.fileno(), byte, at)
    return found


def _state(folder: Path, known: Known) -> bool:
    """Whether the state is that of a run without interruption at that position."""
    stream = mr.Stream.open(folder, read_only=True)
    state, right = stream.state(), known.states.get(stream.position, {})
    return all(np.array(state[key]).tobytes() == np.array(right.get(key)).tobytes() for key in state.keys() - {NOW})


def _rows(folder: Path, known: Known) -> bool:
    """Whether the rows are those that were written, but for the last."""
    found = mr.Buffer.open(folder)["features"]
    return found.tobytes() == known.rows[: len(found)].tobytes()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--flips", type=int, default=0)
    parser.add_argument(
        "--out", type=Path, help="a CSV file for the numbers; docs/build_stream_store.py reads those here"
    )
    given = parser.parse_args()
    if given.flips:
        found = flips(given.flips)
    else:
        found = [row for sync in ("none", "interval", "always") for row in speed(given.rows, sync)]
    print(TextTable(found))
    if given.out is not None:
        with given.out.open("w", newline="") as file:
            table = csv.DictWriter(file, found[0])
            table.writeheader()
            table.writerows(found)


if __name__ == "__main__":
    main()
