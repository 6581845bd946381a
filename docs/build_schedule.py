"""Draw which samples the epochs of MER and the dyadic order visit, from the plans themselves.

Usage: python docs/build_schedule.py
"""

from __future__ import annotations

from pathlib import Path

import multireplay as mr

LENGTH, CELL, LEFT, TOP = 16, 36, 150, 34
INK, USED, IDLE = "#7986cb", "#3f51b5", "#9e9e9e"
PICTURE = Path(__file__).parent / "figures" / "multiscale.svg"


def text(x: float, y: float, words: str, anchor: str = "middle", colour: str = INK, size: int = 14) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="{colour}" font-size="{size}">{words}</text>'


def row(y: int, label: str, order: list[int]) -> list[str]:
    """One line of samples; those that are visited are filled and say when."""
    parts = [text(LEFT - 28, y + 5, label, "end")]
    for position in range(1, LENGTH + 1):
        x = LEFT + (position - 1) * CELL
        if position in order:
            parts.append(f'<circle cx="{x}" cy="{y}" r="14" fill="{USED}"/>')
            parts.append(text(x, y + 5, str(order.index(position) + 1), colour="#ffffff"))
        else:
            parts.append(f'<circle cx="{x}" cy="{y}" r="4" fill="{IDLE}"/>')
    return parts


def main() -> None:
    plans = mr.Multiscale().plan(LENGTH)
    rows = [(f"epoch {epoch.k}, gap {epoch.gap:g}", epoch.positions.tolist()) for epoch in plans]
    rows.append(("dyadic", mr.Dyadic().plan(LENGTH)[0].positions.tolist()))
    parts = [text(LEFT + (LENGTH - 1) * CELL / 2, 14, "the record, oldest sample to newest →")]
    for number, (label, order) in enumerate(rows):
        parts += row(TOP + 22 + number * 40 + 14 * (label == "dyadic"), label, order)
    width, height = LEFT + LENGTH * CELL, TOP + 22 + len(rows) * 40
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">'
    PICTURE.write_text("\n".join([head, *parts, "</svg>"]) + "\n", encoding="utf-8")
    print(f"written: {PICTURE}")


if __name__ == "__main__":
    main()
