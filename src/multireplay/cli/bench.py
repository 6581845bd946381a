"""multireplay compare, multireplay reproduce and multireplay demo: the bench."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from multireplay.cli.app import INTERRUPTED, app, note
from multireplay.cli.options import Json, Report, print_json
from multireplay.cli.outputs import Force, check_folder
from multireplay.show.text import TextTable, say, terminal

Suite = StrEnum("Suite", ["paper", "classic", "hard", "glm", "all"])
Name = StrEnum("Name", ["fig1", "fig2a", "fig2b", "fig3a", "fig3b", "tracking", "theory", "all"])


class SizeName(StrEnum):
    full = "full"
    small = "small"


Size = Annotated[SizeName, typer.Option(help="'small' cuts the problems down to seconds.")]


@contextmanager
def progress(cost: float, unit: str, out: Path) -> Iterator[Callable[[str, float], None]]:
    """A bar over seeds or instances; yields the function that advances it. Ctrl-C ends with what is kept."""
    from multireplay.show.progress import part_bar

    try:
        with part_bar(cost, unit) as advance:
            yield advance
    except KeyboardInterrupt:
        note(f"Interrupted. Finished {unit} are kept in {out}; the same command goes on from there.", "red")
        raise typer.Exit(INTERRUPTED) from None


@app.command()
def compare(
    ctx: typer.Context,
    suite: Annotated[Suite, typer.Option(help="Which problems.")] = Suite.all,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds that are reported.")] = 30,
    tuning_seeds: Annotated[int, typer.Option(min=1, help="Other seeds, on which step sizes are chosen.")] = 3,
    jobs: Annotated[int, typer.Option(min=1, help="Seeds worked out at the same time.")] = 2,
    out: Annotated[Path, typer.Option(help="Folder for table, picture and finished seeds.")] = Path("out/compare"),
    size: Size = SizeName.full,
    report: Report = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Compare mr.solve with every rival, as a ratio to the exact fit's error on the same record.

    Writes compare.csv, compare.md and compare.png. Interrupted, the same command goes on where it was. Mountain Car
    and CartPole need gymnasium, the real record statsmodels; the extra 'compare' has both.

    Example: multireplay compare --suite paper --seeds 10
    """
    check_folder(force, out, ("compare.csv", "compare.md", "compare.png"), report)
    from multireplay.bench.comparison import compare, total_cost

    with progress(total_cost(suite.value, seeds, tuning_seeds), "seeds", out) as advance:
        rows = compare(suite.value, seeds, tuning_seeds, jobs, out, size.value, advance)
    if report is not None:
        from multireplay.report import report_of_comparison

        note(f"Report: {report_of_comparison(report, out, command=ctx.obj)}")
    if as_json:
        print_json({"rows": rows, "folder": out})
        return
    say((out / "compare.md").read_text(encoding="utf-8"))
    say(f"Table, picture and all numbers: {out}")


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
    size: Size = SizeName.full,
    report: Report = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Run the paper's numerical section again, with what it leaves out, and say which of its claims hold.

    Writes NAME.csv, NAME.png and NAME.svg for every figure, and claims.md and claims.json. Interrupted, the same
    command goes on where it was.

    Example: multireplay reproduce fig2a --instances 10 --out out/paper
    """
    from multireplay.bench.reproduction import EXPERIMENTS, reproduce, total_cost, write_claims

    names = list(EXPERIMENTS) if what is Name.all else [what.value]
    written = [f"{name}.{kind}" for name in names for kind in ("csv", "json", "png", "svg")]
    check_folder(force, out, (*written, "claims.md", "claims.json"), report)
    chosen = list(EXPERIMENTS.values()) if what is Name.all else [EXPERIMENTS[what.value]]
    with progress(total_cost(chosen, instances, size.value), "instances", out) as advance:
        reproduce(chosen, instances, seed, jobs, out, size.value, advance)
    verdicts = write_claims(out)
    if report is not None:
        from multireplay.report import report_of_reproduction

        note(f"Report: {report_of_reproduction(report, out, command=ctx.obj)}")
    if as_json:
        print_json({"claims": [asdict(verdict) for verdict in verdicts], "folder": out})
        return
    rows = [{"figure": v.figure, "verdict": v.verdict, "claim": v.claim} for v in verdicts]
    terminal().print(TextTable(rows, wrap="claim"))
    say(f"Tables, pictures and the numbers behind each verdict: {out} (claims.md)")


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
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Evaluate a policy from one trajectory by MER and its rivals, as a table and a picture.

    Example: multireplay demo --m 0.95 --out out
    """
    picture = out / "demo.png"
    check_folder(force, out, (picture.name,), report)
    from multireplay.bench.demo import NOTES, demo_table, draw_demo, run_demo

    summaries, lstd = run_demo(m, instances, seed)
    draw_demo(summaries, lstd, m, instances, picture)
    if report is not None:
        from multireplay.report import report_of_demo

        note(f"Report: {report_of_demo(report, summaries, lstd, m, instances, command=ctx.obj)}")
    if as_json:
        names = ("iterations", "error", "standard_error")
        methods = {method: dict(zip(names, found, strict=True)) for method, found in summaries.items()}
        print_json({"m": m, "instances": instances, "seed": seed, "lstd": lstd, "methods": methods, "picture": picture})
        return
    terminal().print(demo_table(summaries, lstd))
    terminal().print(" ".join(NOTES))
    say(f"Picture: {picture}")
