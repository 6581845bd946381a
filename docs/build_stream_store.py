"""Write what was measured of the store of a stream into docs/stream_store.md.

The numbers are those in benchmarks/soak.csv, stream_store.csv and stream_flips.csv.

Usage: python docs/build_stream_store.py
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from multireplay.show.text import TextTable, render

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "stream_store.md"
BEGIN = "## Measured\n"
QUARTERS = 4


def table(name: str) -> list[dict[str, str]]:
    """The rows of a file of numbers."""
    with (ROOT / "benchmarks" / name).open(newline="") as file:
        return list(csv.DictReader(file))


def speed() -> str:
    """Appends, with and without a stream behind them."""
    rows = table("stream_store.csv")
    least = min(float(row["of plain append"]) for row in rows if row["way"] == "journal")
    return (
        "`benchmarks/stream_store.py`: blocks of 4096 rows of 20 features, beside plain appends of the same bytes to a "
        "file with the same waits for the disk (medians of 7 rounds in which all take turns). The journal, with its "
        f"checksums, has {100 * least:.0f} % of their speed or more; a stream that learns from every row is "
        f"slower than a disk.\n\n```text\n{render(TextTable(rows)).rstrip()}\n```\n"
    )


def flips() -> str:
    """What became of flipped bytes."""
    rows = table("stream_flips.csv")
    wrong = sum(int(row["wrong"]) + int(row["rows wrong"]) for row in rows)
    many = f"{int(rows[1]['flips']):,}"
    return (
        f"`benchmarks/stream_store.py --flips 10000`: every byte of a small store, and {many} random ones of a larger "
        f"one, flipped one at a time: **{wrong} wrong answers**. An error, or the state that a run without "
        'interruption had at that position ("right"); the same of the rows as a buffer.\n\n'
        f"```text\n{render(TextTable(rows)).rstrip()}\n```\n"
    )


def soak() -> str:
    """The long run."""
    rows = table("soak.csv")
    numbers = {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}
    parts = np.array_split(np.arange(len(rows)), QUARTERS)
    told = [
        {
            "quarter": number + 1,
            "µs a row": f"{np.median(numbers['cpu_us_a_row'][part]):.2f}",
            "memory, MB": f"{np.median(numbers['megabytes'][part]):.0f}",
            "at most": f"{numbers['megabytes'][part].max():.0f}",
            "store, MB": f"{np.median(numbers['store_megabytes'][part]):.0f}",
        }
        for number, part in enumerate(parts)
    ]
    total, killed = f"{numbers['position'][-1]:,.0f}", f"{numbers['killed'][-1]:,.0f}"
    return (
        f"`benchmarks/soak.py`: {total} rows of 8 features through a store that keeps a million of them, "
        f"killed (SIGKILL) at {killed} random moments and started again. The state in the end is "
        "that of a run never interrupted, to the last bit (otherwise there are no numbers). Medians of its four "
        "quarters, times of the processor (on a machine that was busy with other things, most of all in the last "
        f"quarter):\n\n```text\n{render(TextTable(told)).rstrip()}\n```\n\n"
        "![Time a row, memory and size of the store over 10⁸ rows: flat, but for what else ran on the machine]"
        "(figures/soak.png)\n"
    )


def main() -> None:
    """Replace what follows the heading."""
    before = PAGE.read_text(encoding="utf-8").partition(BEGIN)[0]
    PAGE.write_text("\n".join([before + BEGIN, speed(), flips(), soak()]), encoding="utf-8")


if __name__ == "__main__":
    main()
