"""multireplay demo"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from multireplay.cli.app import app
from multireplay.cli.options import Json, Report
from multireplay.cli.speak import note_report, print_json
from multireplay.show.text import terminal


@app.command()
def demo(
    ctx: typer.Context,
    out: Annotated[Path, typer.Option(help="Folder the picture is written to.")] = Path("out"),
    m: Annotated[
        float, typer.Option(min=0.5, max=0.9999, help="Stickiness of the chain; larger mixes more slowly.")
    ] = 0.9,
    instances: Annotated[int, typer.Option(min=1, help="Number of independent trajectories.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the trajectories.")] = 0,
    report: Report = None,
    as_json: Json = False,
) -> None:
    """Evaluate a policy from one trajectory by MER and its rivals, as a table and a picture.

    Example: multireplay demo --m 0.95 --out out
    """
    from multireplay.bench.demo import demo_table, draw_demo, run_demo

    summaries, lstd = run_demo(m, instances, seed)
    picture = out / "demo.png"
    draw_demo(summaries, lstd, m, instances, picture)
    if report is not None:
        from multireplay.report import report_of_demo

        note_report(report_of_demo(report, summaries, lstd, m, instances, command=ctx.obj))
    if as_json:
        methods = {
            name: {"iterations": found.iterations, "error": found.mean, "standard_error": found.error}
            for name, found in summaries.items()
        }
        print_json({"m": m, "instances": instances, "seed": seed, "lstd": lstd, "methods": methods, "picture": picture})
        return
    console = terminal()
    console.print(demo_table(summaries, lstd))
    console.print(
        "MER has one point an epoch, each from a fresh start; its last epochs replay the record nearly in order, so "
        "its best epoch (known here only because the solution is) is not its last. Dyadic uses every "
        "sample once in MER's own order. LSTD solves a d × d system: where d is small and the data fit, use it."
    )
    console.print(f"Picture: {picture}", soft_wrap=True)
