"""multireplay compare"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from multireplay.cli.app import INTERRUPTED, app
from multireplay.cli.options import Json, Report, SizeName
from multireplay.cli.speak import complain, note_report, print_json
from multireplay.show.text import terminal

Suite = StrEnum("Suite", ["paper", "classic", "hard", "glm", "all"])
"""Which problems are compared."""


@app.command()
def compare(
    ctx: typer.Context,
    suite: Annotated[Suite, typer.Option(help="Which problems.")] = Suite.all,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds that are reported.")] = 30,
    tuning_seeds: Annotated[int, typer.Option(min=1, help="Other seeds, on which step sizes are chosen.")] = 3,
    jobs: Annotated[int, typer.Option(min=1, help="Seeds worked out at the same time.")] = 2,
    out: Annotated[Path, typer.Option(help="Folder for the table, the picture and finished seeds.")] = Path(
        "out/compare"
    ),
    size: Annotated[SizeName, typer.Option(help="'small' cuts the records down to seconds.")] = SizeName.full,
    report: Report = None,
    as_json: Json = False,
) -> None:
    """Compare mr.solve with every rival, as a ratio to the exact fit's error on the same record.

    Writes compare.csv, compare.md and compare.png. Interrupted, the same command goes on where it was. Mountain Car
    and CartPole need gymnasium, the real record statsmodels; the extra 'compare' has both.

    Example: multireplay compare --suite paper --seeds 10
    """
    from multireplay.bench.comparison import compare, total_cost
    from multireplay.show.progress import part_bar

    try:
        with part_bar(total_cost(suite.value, seeds, tuning_seeds), "seeds") as advance:
            rows = compare(suite.value, seeds, tuning_seeds, jobs, out, size.value, advance)
    except KeyboardInterrupt:
        complain(f"Interrupted. Finished seeds are kept in {out}; the same command goes on from there.")
        raise typer.Exit(INTERRUPTED) from None
    if report is not None:
        from multireplay.report import report_of_comparison

        note_report(report_of_comparison(report, out, command=ctx.obj))
    if as_json:
        print_json({"rows": rows, "folder": out})
        return
    console = terminal()
    console.print((out / "compare.md").read_text(encoding="utf-8"), markup=False, highlight=False, soft_wrap=True)
    console.print(f"Table, picture and all numbers: {out}", soft_wrap=True)
