"""multireplay compare, multireplay reproduce and multireplay demo: the bench."""

from __future__ import annotations

import shlex
import time
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
from multireplay.show.text import TextTable, say, seconds, terminal

Suite = StrEnum("Suite", ["paper", "classic", "hard", "glm", "all"])
Name = StrEnum(
    "Name",
    ["fig1", "fig2a", "fig2b", "fig3a", "fig3b", "fig3a-bernoulli", "fig3b-bernoulli", "tracking", "theory", "all"],
)


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
    instances: Annotated[
        int | None,
        typer.Option(min=1, help="Instances of every experiment; the paper has 50.", show_default="12 to 50"),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same numbers.")] = 0,
    jobs: Annotated[int, typer.Option(min=1, help="Instances worked out at the same time.")] = 2,
    out: Annotated[Path, typer.Option(help="Folder for tables, pictures and finished instances.")] = Path("out/paper"),
    size: Size = SizeName.full,
    report: Report = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Run the paper's numerical section again, with what it leaves out, and say which of its claims hold.

    Writes NAME.csv, NAME.npz, NAME.png and NAME.svg for every figure, and claims.md and claims.json. Interrupted, the
    same command goes on where it was.

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
    rows = [{"figure": v.figure, "claim and verdict": f"{v.claim}\n→ {v.verdict}"} for v in verdicts]
    terminal().print(TextTable(rows, wrap="claim and verdict"))
    say(f"Tables, pictures and the numbers behind each verdict: {out} (claims.md)")


@app.command()
def demo(
    ctx: typer.Context,
    out: Annotated[Path, typer.Option(help="Folder for the log, the picture and the page.")] = Path("out"),
    repetitions: Annotated[int, typer.Option(min=2, help="How often the sensor log is made and fitted.")] = 200,
    trajectories: Annotated[int, typer.Option(min=1, help="On how many trajectories the policy is evaluated.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Seed of both.")] = 0,
    as_json: Json = False,
) -> None:
    """Show the library in a minute: intervals that hold on a sensor log, and the value of a policy by five methods.

    Writes power.csv, demo.png, demo.html and demo.json, and overwrites only what it wrote itself.

    Example: multireplay demo --out out
    """
    from multireplay.bench import demo as shown
    from multireplay.bench.demo_files import DemoFolder, draw_demo, verdict, write_log, write_page
    from multireplay.show.progress import step_bar

    began, folder = time.perf_counter(), DemoFolder(out)
    log = write_log(folder, shown.sensor_log((seed, 0)))
    arguments = ["fit", str(log), "--target", "power", "--time", "hour"]
    fit, console = shlex.join(["multireplay", *arguments]), terminal()
    if not as_json:
        console.rule("[bold]A sensor log", align="left")
        console.print(f"{shown.ABOUT_THE_LOG}\n\n[bold]$ {fit}", highlight=False)
        typer.main.get_command(app).main(arguments, "multireplay", standalone_mode=False)
    with step_bar(repetitions + trajectories * len(shown.METHODS), "fitting", "fits") as advance:
        found = shown.run_demo(repetitions, trajectories, seed, advance)
    picture, page = draw_demo(folder, found), write_page(folder, found, fit, ctx.obj)
    if as_json:
        tables = {"coverage": found.coverage_table().rows, "policy_evaluation": found.policy_table().rows}
        took = {"seconds": round(time.perf_counter() - began, 1)}
        print_json({**tables, "fit": fit, "log": log, "picture": picture, "report": page, **took})
        return
    console.print("", found.coverage_table(), verdict(found), "", highlight=False)
    console.rule("[bold]The value of a policy", align="left")
    console.print(shown.ABOUT_THE_POLICY, "", found.policy_table(), highlight=False, sep="\n")
    for name, file in (("Log", log), ("Picture", picture), ("Report", page)):
        console.print(f"{name + ':':9}{file}", soft_wrap=True, highlight=False)
    console.print(f"All of it took {seconds(time.perf_counter() - began)}.", highlight=False)
