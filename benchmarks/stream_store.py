"""The store of a stream: how fast rows are kept, and what becomes of flipped bytes.

Speed: blocks of rows of 20 features through the journal alone and through the whole stream, over plain appends of the
same bytes to a file with the same waits for the disk. Flips: every byte of a small store, and many random ones of a
large one, each flipped in turn: an error, or a state that a run without interruption had at that position.

    python benchmarks/stream_store.py --rows 400000
    python benchmarks/stream_store.py --flips 10000
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

import multireplay as mr
from multireplay.errors import InputError
from multireplay.show.text import TextTable
from multireplay.streaming.store import kept
from multireplay.streaming.store.replay import Recovered
from multireplay.streaming.store.store import Settings, StreamStore, begin

WIDTH, BLOCK = 20, 4096
NOW = "learner.now"
"""Of a state: the number of rows, whole or as a decimal."""


def data(rows: int, width: int = WIDTH) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    features = rng.standard_normal((rows, width))
    return features, features.sum(axis=1) + rng.standard_normal(rows)


def speed(rows: int, sync: str) -> list[dict[str, object]]:
    """Rows a second of the same rows in four ways."""
    features, targets = data(rows)
    blocks = [slice(at, at + BLOCK) for at in range(0, rows, BLOCK)]
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        place = os.open(f"{folder}/raw", os.O_CREAT | os.O_WRONLY)
        start = waited = time.perf_counter()
        for part in blocks:
            os.write(place, features[part].tobytes() + targets[part].tobytes())
            if sync == "always" or (sync == "interval" and time.perf_counter() - waited > 1.0):
                os.fsync(place)
                waited = time.perf_counter()
        if sync != "none":
            os.fsync(place)
        found["plain append"] = time.perf_counter() - start
        os.close(place)
        store = StreamStore(Path(folder) / "run", begin(Path(folder) / "run"), Settings(sync), Recovered(None))
        start = time.perf_counter()
        for part in blocks:
            store.write({"features": features[part], "targets": targets[part]}, None)
        if sync != "none":
            store.journal.to_disk()
        found["journal"] = time.perf_counter() - start
    for name in ("stream in memory", "stream with a store"):
        with tempfile.TemporaryDirectory() as folder:
            how = {"store": f"{folder}/run", "sync": sync} if "store" in name else {}
            stream = mr.Stream(mr.GLM(), **how)
            stream.observe_many(features=features[:BLOCK], targets=targets[:BLOCK])
            start = time.perf_counter()
            for part in blocks:
                stream.observe_many(features=features[part], targets=targets[part])
            found[name] = time.perf_counter() - start
    raw = found["plain append"]
    return [
        {"sync": sync, "way": way, "rows a second": f"{rows / took:,.0f}", "of plain append": f"{raw / took:.2f}"}
        for way, took in found.items()
    ]


def flips(count: int) -> list[dict[str, object]]:
    """What becomes of flipped bytes, in a small store all of them, in a large one so many at random."""
    told = []
    kept.TRIES = 1
    warnings.simplefilter("ignore")
    for name, rows, width in (("small", 60, 1), ("large", 3000, 8)):
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
            told.append({"store": name, **_flipped(Path(folder) / "run", states, None if name == "small" else count)})
    return told


def _flipped(folder: Path, states: dict, count: int | None) -> dict[str, int]:
    files = [path for path in sorted(folder.iterdir()) if path.name != "lock"]
    places = [(path, at) for path in files for at in range(path.stat().st_size)]
    rng = np.random.default_rng(1)
    chosen = range(len(places)) if count is None else rng.choice(len(places), count)
    found = {"bytes": len(places), "flips": 0, "errors": 0, "recovered": 0, "wrong": 0}
    for number in chosen:
        path, at = places[number]
        whole = path.read_bytes()
        changed = bytearray(whole)
        changed[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(changed)
        found["flips"] += 1
        try:
            stream = mr.Stream.open(folder, read_only=True)
            state, right = stream.state(), states.get(stream.position, {})
            alike = all(
                np.array(state[key]).tobytes() == np.array(right.get(key)).tobytes() for key in state.keys() - {NOW}
            )
            found["recovered" if alike else "wrong"] += 1
        except InputError:
            found["errors"] += 1
        path.write_bytes(whole)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--flips", type=int, default=0)
    given = parser.parse_args()
    if given.flips:
        print(TextTable(flips(given.flips)))
    else:
        print(TextTable([row for sync in ("none", "interval") for row in speed(given.rows, sync)]))


if __name__ == "__main__":
    main()
