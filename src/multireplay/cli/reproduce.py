"""multireplay reproduce"""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from multireplay.cli.app import INTERRUPTED, app
from multireplay.cli.options import Json, Report, SizeName
from multireplay.cli.speak import complain, note_report, print_json
from multireplay.show.text import TextTable, terminal

Name = StrEnum("Name", ["fig1", "fig2a", "fig2b", "fig3a", "fig3b", "tracking", "theory", "all"])
"""What can be reproduced."""


@app.command()
def reproduce(
    ctx: typer.Context,
    what: Annotated[
        Name, typer.Argument(help="A figure of the paper, 'tracking' (Theorem 2), 'theory' (Theorem 1), or all.")
    ] = Name.all,
    instances: Annotated[int, typer.Option(min=1, help="Instances of every experiment; the paper has 50.")] = 50,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same numbers.")] = 0,
    jobs: Annotated[int, typer.Option(min=1, help="Instances worked out at the same time.")] = 2,
    out: Annotated[Path, typer.Option(help="Folder for tables, pictures and finished instances.")] = Path("out/paper"),
    size: Annotated[SizeName, typer.Option(help="'small' cuts the problems down to seconds.")] = SizeName.full,
    report: Report = None,
    as_json: Json = False,
) -> None:
    """Run the paper's numerical section again, with what it leaves out, and say which of its claims hold.

    Writes NAME.csv, NAME.png and NAME.svg for every figure, and claims.md and claims.json. Interrupted, the same
    command goes on where it was.

    Example: multireplay reproduce fig2a --instances 10 --out out/paper
    """
    from multireplay.bench.reproduction import EXPERIMENTS, reproduce, total_cost, write_claims
    from multireplay.show.progress import part_bar

    chosen = list(EXPERIMENTS.values()) if what is Name.all else [EXPERIMENTS[what.value]]
    try:
        with part_bar(total_cost(chosen, instances, size.value), "instances") as advance:
            reproduce(chosen, instances, seed, jobs, out, size.value, advance)
    except KeyboardInterrupt:
        complain(f"Interrupted. Finished instances are kept in {out}; the same command goes on from there.")
        raise typer.Exit(INTERRUPTED) from None
    verdicts = write_claims(out)
    if report is not None:
        from multireplay.report import report_of_reproduction

        note_report(report_of_reproduction(report, out, command=ctx.obj))
    if as_json:
        print_json({"claims": [asdict(verdict) for verdict in verdicts], "folder": out})
        return
    console = terminal()
    rows = [{"figure": v.figure, "verdict": v.verdict, "claim": v.claim} for v in verdicts]
    console.print(TextTable(rows, wrap="claim"))
    console.print(f"Tables, pictures and the numbers behind each verdict: {out} (claims.md)", soft_wrap=True)
