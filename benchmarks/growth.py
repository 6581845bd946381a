"""How the time of one pass grows with the rows and with the features: a picture over three decades of each.

Prints the slopes on logarithmic axes, which are 1 where the cost is linear, and writes the picture.
Usage: python benchmarks/growth.py [--out docs/figures/growth.png]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import multireplay as mr

ROWS = tuple(int(n) for n in np.logspace(3.5, 6.5, 7))
DIMS = tuple(int(n) for n in np.logspace(1.7, 4.7, 7))
FIXED_DIM, FIXED_ROWS = 50, 4000
ORDERS = {"side by side": mr.Interleaved(64), "dyadic": mr.Dyadic(), "in order": mr.Serial()}


def seconds(rows: int, dim: int, order: mr.replay.Replay) -> float:
    """Shortest time of one averaged pass, without the preparation that every order shares."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((rows, dim))
    buffer = mr.Buffer(features=A, targets=A[:, 0] > 0)
    found = [mr.solve(mr.GLM("logistic"), buffer, replay=order, step=0.5 / dim, threads=1).seconds for _ in range(5)]
    return min(found)


def slope(sizes: tuple[int, ...], times: list[float]) -> float:
    """Of the line through the upper two decades, where the constant part no longer shows."""
    large = [(size, taken) for size, taken in zip(sizes, times, strict=True) if size >= sizes[-1] / 101]
    return float(np.polyfit(*np.log(np.array(large)).T, 1)[0])


def main(out: Path) -> None:
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), constrained_layout=True)
    panels = (
        (axes[0], ROWS, f"rows (d = {FIXED_DIM})", lambda size: (size, FIXED_DIM)),
        (axes[1], DIMS, f"features d ({FIXED_ROWS} rows)", lambda size: (FIXED_ROWS, size)),
    )
    for ax, sizes, label, shape in panels:
        for name, order in ORDERS.items():
            times = [seconds(*shape(size), order) for size in sizes]
            found = slope(sizes, times)
            print(f"{label}: {name}, slope {found:.2f}")
            ax.loglog(sizes, times, marker="o", label=f"{name} (slope {found:.2f})")
        ax.set(xlabel=label, ylabel="seconds for one pass")
        ax.legend()
    figure.savefig(out, dpi=150)
    print(f"written: {out}")


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path, default=Path("docs/figures/growth.png"))
    main(options.parse_args().out)
