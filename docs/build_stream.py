"""Write the tables of docs/stream.md from benchmarks/stream.csv, stream_alarms.csv and stream_innocent.csv.

Usage: python docs/build_stream.py
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from multireplay.bench.table import markdown

HERE = Path(__file__).parent
PAGE, FOLDER = HERE / "stream.md", HERE.parent / "benchmarks"
OURS = "multireplay.Stream"
NAMES = {
    "… with the best prior": "recursive least squares / LSTD, best prior",
    "… with forgetting, best rate and prior": "recursive with forgetting, best rate and prior",
    "… averaged, best step": "SGD / TD(0), averaged, best step",
}


def read(name: str) -> list[dict[str, str]]:
    with (FOLDER / name).open(newline="") as file:
        return list(csv.DictReader(file))


def rivals() -> Iterator[str]:
    """A line a world: our error, that of the best rival, and how many times as large ours is."""
    lines, shown = read("stream.csv"), []
    for ours in (line for line in lines if line["method"] == OURS):
        others = [
            line
            for line in lines
            if (line["world"], line["rows"]) == (ours["world"], ours["rows"]) and line["method"] != OURS
        ]
        best = min(others, key=lambda line: float(line["error"]))
        setting = f" ({best['setting']})" if best["setting"] else ""
        shown.append({
            "world": ours["world"], "rows": ours["rows"],
            "`mr.Stream`": f"{float(ours['error']):.3g} ± {float(ours['standard error']):.1g}",
            "best rival": NAMES.get(best["method"], best["method"]) + setting,
            "its error": f"{float(best['error']):.3g} ± {float(best['standard error']):.1g}",
            "ours over it": f"{float(ours['over the best']):.2f} ± {float(ours['its standard error']):.2f}",
        })  # fmt: skip
    yield from markdown(shown, ("world", "best rival"))


def times() -> Iterator[str]:
    """A line a method: microseconds a row in its quickest world of regression."""
    lines = [
        line for line in read("stream.csv") if line["world"].startswith("regression, ") and line["rows"] == "40000"
    ]
    methods = dict.fromkeys(line["method"] for line in lines)
    shown = [
        {
            "method": "`mr.Stream`" if method == OURS else NAMES.get(method, method),
            "µs a row": f"{min(float(line['microseconds a row']) for line in lines if line['method'] == method):.3g}",
        }
        for method in methods
    ]
    yield from markdown(shown, ("method",))


def alarms() -> Iterator[str]:
    yield from markdown(read("stream_alarms.csv"), ())


def innocent() -> Iterator[str]:
    yield from markdown(read("stream_innocent.csv"), ("nothing changes",))


TABLES = {"stream": rivals, "stream_times": times, "stream_alarms": alarms, "stream_innocent": innocent}


def main() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for name, table in TABLES.items():
        file = name.replace("_times", "")
        what = "times" if name != file else "table"
        begin, end = (f"<!-- {what} from benchmarks/{file}.csv: {word} -->" for word in ("begin", "end"))
        head, _, rest = text.partition(begin)
        _, _, tail = rest.partition(end)
        text = "\n".join([f"{head}{begin}", "", *table(), "", f"{end}{tail}"])
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
