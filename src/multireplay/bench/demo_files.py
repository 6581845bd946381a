"""The files of the demonstration: a log, a picture, a page and its numbers; what others wrote stays as it is."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from multireplay._write import completed, save_text
from multireplay.bench.demo import (
    ABOUT_THE_LOG,
    ABOUT_THE_POLICY,
    METHODS,
    OURS,
    SHOWN,
    TEXTBOOK,
    TRUTH,
    Demo,
    Log,
    share,
)
from multireplay.errors import InputError
from multireplay.report import Block, Code, Picture, Section, Table, Text, write
from multireplay.report.sections import repeat
from multireplay.show.plotting import BLACK, BLUE, GREEN, ORANGE, VERMILLION
from multireplay.show.text import seconds

LOG, PICTURE, PAGE, NUMBERS = "power.csv", "demo.png", "demo.html", "demo.json"
DRAWN = 100
"""Intervals in the picture, of those there are."""
COLOURS = {"mr.solve": BLUE, "MER": BLACK, "serial TD": VERMILLION, "shuffle": GREEN, "LSTD": ORANGE}


class DemoFolder:
    """A folder whose files are written only where none are, or those of an earlier demonstration, unchanged.

    ``demo.json`` keeps the digests of what was written, and one of itself.
    """

    def __init__(self, path: Path) -> None:
        if path.exists() and not path.is_dir():
            raise InputError(f"--out {path} is a file; results are written to a folder")
        self.path, self.written = path, _written(path / NUMBERS)
        for name in (NUMBERS, LOG, PICTURE, PAGE):
            file = path / name
            ours = file.is_file() and self.written.get(name) == _digest(file.read_bytes())
            if file.exists() and not ours:
                raise InputError(
                    f"{file} is there already, and is not as 'multireplay demo' wrote it: nothing was changed. Move "
                    "it away, or name another folder with --out"
                )
        path.mkdir(parents=True, exist_ok=True)

    def keep(self, name: str, numbers: dict[str, Any] | None = None) -> Path:
        """Note that a file was written, with the numbers that are known by then; its path."""
        self.written[name] = _digest((self.path / name).read_bytes())
        self.written.pop(NUMBERS, None)
        save_text(self.path / NUMBERS, _spelled({"files": self.written, **(numbers or {})}))
        self.written[NUMBERS] = _digest((self.path / NUMBERS).read_bytes())
        return self.path / name


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _spelled(content: dict[str, Any]) -> str:
    """JSON that ends with a digest of the rest."""
    text = json.dumps(content, indent=1, ensure_ascii=False)
    return json.dumps({**content, "digest": _digest(text.encode())}, indent=1, ensure_ascii=False) + "\n"


def _written(file: Path) -> dict[str, str]:
    """Digests of the files of an earlier demonstration, its own among them; none if that is not what the file holds."""
    try:
        text = file.read_text(encoding="utf-8")
        content = json.loads(text)
        content.pop("digest")
        return {**content["files"], NUMBERS: _digest(text.encode())} if _spelled(content) == text else {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def write_log(folder: DemoFolder, log: Log) -> Path:
    """The log as a CSV."""
    *names, _ = TRUTH
    columns = {"hour": log.hours, **dict(zip(names, log.weather.T, strict=True)), "power": log.power}
    with completed(folder.path / LOG) as file:
        pyarrow.csv.write_csv(pa.table(columns), file)
    return folder.keep(LOG)


def draw_demo(folder: DemoFolder, found: Demo) -> Path:
    """Intervals of one coefficient by both methods, and the errors of all ways to evaluate the policy."""
    figure = Figure(figsize=(11, 4.4), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=[1, 1, 1.15])
    place = list(TRUTH).index(SHOWN)
    ends = np.concatenate([found.intervals[name][:DRAWN, place] for name in (TEXTBOOK, OURS)])
    for ax, name, about in ((left, TEXTBOOK, "least squares, textbook errors"), (middle, OURS, "multireplay fit")):
        _draw_intervals(ax, found, name, place)
        held = share(found.holds(name)[:, place])
        ax.set_title(f"{about}:\n{held} hold the truth", fontsize=11)
        ax.set(xlim=(ends.min() - 0.01, ends.max() + 0.01), yticks=[], xlabel=f"effect of {SHOWN}, kW a degree")
    left.legend(frameon=False, fontsize=9, loc="upper left", handlelength=1.2)
    left.set_ylabel(f"95 % intervals of {min(DRAWN, len(found.intervals[OURS]))} logs made alike")
    _draw_errors(right, found)
    with completed(folder.path / PICTURE) as file:
        figure.savefig(file, dpi=110, format="png")
    return folder.keep(PICTURE)


def _draw_intervals(ax: Axes, found: Demo, name: str, place: int) -> None:
    low, high = found.intervals[name][:DRAWN, place].T
    holds = found.holds(name)[:DRAWN, place]
    for chosen, colour, label in ((holds, BLUE, "holds it"), (~holds, VERMILLION, "misses it")):
        ax.hlines(np.flatnonzero(chosen), low[chosen], high[chosen], color=colour, linewidth=1.3, label=label)
    ax.axvline(TRUTH[SHOWN], color=BLACK, linewidth=1.2, label="the truth")
    ax.locator_params(axis="x", nbins=5)
    ax.set_ylim(-1, 1.2 * len(holds))  # with a place for the legend
    ax.spines[["top", "right", "left"]].set_visible(False)


def _draw_errors(ax: Axes, found: Demo) -> None:
    names = sorted(METHODS, key=lambda name: -found.errors[name].mean())
    means = np.array([found.errors[name].mean() for name in names])
    for row, (name, mean) in enumerate(zip(names, means, strict=True)):
        errors = found.errors[name]
        ax.plot([errors.min(), errors.max()], [row, row], color=COLOURS[name], linewidth=1.5, alpha=0.5)
        ax.plot(mean, row, "o", color=COLOURS[name], markersize=7)
        took = seconds(float(np.median(found.seconds[name])))
        ax.annotate(took, (mean, row), (0, 7), textcoords="offset points", ha="center", fontsize=9)
    ax.axvline(found.errors["LSTD"].mean(), color="0.6", linewidth=1, linestyle="--", zorder=0)
    ax.set_yticks(range(len(names)), names)
    ax.set(xscale="log", ylim=(-0.5, len(names) - 0.3), xlabel="squared error, mean and range; above it: time")
    ax.set_title(f"value of a policy from one trajectory\n({len(found.held)} trajectories)", fontsize=11)
    ax.spines[["top", "right"]].set_visible(False)


def write_page(folder: DemoFolder, found: Demo, fit: str, command: str | None = None) -> Path:
    """One HTML page with the picture, both tables, the command that fits the log, and how to repeat it all."""
    coverage, policy = found.coverage_table(), found.policy_table()
    picture = Picture(folder.path / PICTURE, "Left: intervals of one coefficient. Right: errors of five methods.")
    log: list[Block] = [
        Text(f"{ABOUT_THE_LOG} {verdict(found)}", tone="lead"),
        picture,
        Table(coverage.rows, caption=f"{coverage.title}; ± is the binomial standard error"),
        Text("“Length” is that of our intervals over that of the textbook's."),
        Code(fit, caption="Fit the log yourself"),
    ]
    about: list[Block] = [Text(ABOUT_THE_POLICY, tone="lead"), Table(policy.rows, caption=policy.title or "")]
    sections = [Section("A sensor log", log), Section("Policy evaluation", about), repeat.repeated(command)]
    write(folder.path / PAGE, "One long dependent record", sections, f"{len(found.intervals[OURS])} logs")
    return folder.keep(PAGE, {"coverage": coverage.rows, "policy evaluation": policy.rows})


def verdict(found: Demo) -> str:
    """Coverage over all coefficients in a sentence."""
    ours, textbook = (found.holds(name) for name in (OURS, TEXTBOOK))
    worst, best = (f"{100 * ends:.0f}" for ends in (ours.mean(axis=0).min(), ours.mean(axis=0).max()))
    low, high = (f"{100 * ends:.0f}" for ends in (textbook.mean(axis=0).min(), textbook.mean(axis=0).max()))
    return (
        f"Of the 95 % intervals of ordinary least squares, which takes rows for independent, {low} to {high} % hold "
        f"the truth, by coefficient; of ours {worst} to {best} %."
    )
