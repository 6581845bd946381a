"""The command line."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from multireplay.text import TextTable, terminal

app = typer.Typer(
    help="Learn from one long, dependent record almost as well as from independent samples.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    add_completion=False,
)


@app.callback()
def main() -> None:
    """Learn from one long, dependent record almost as well as from independent samples."""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder the picture is written to.")] = Path("out"),
    m: Annotated[
        float, typer.Option(min=0.5, max=0.9999, help="Stickiness of the chain; larger mixes more slowly.")
    ] = 0.9,
    instances: Annotated[int, typer.Option(min=1, help="Number of independent trajectories.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the trajectories.")] = 0,
) -> None:
    """Evaluate a policy from one trajectory by MER and its rivals, as a table and a picture.

    Example: multireplay demo --m 0.95 --out out
    """
    import matplotlib

    matplotlib.use("Agg")
    from multireplay.demo import demo_table, draw_demo, run_demo

    console = terminal()
    summaries, lstd = run_demo(m, instances, seed)
    picture = out / "demo.png"
    draw_demo(summaries, lstd, m, instances, picture)
    console.print(demo_table(summaries, lstd))
    console.print(
        "MER has one point an epoch, each from a fresh start; its last epochs replay the record nearly in order, so "
        "its best epoch (known here only because the solution is) is not its last. Dyadic, the default, uses every "
        "sample once in MER's own order. LSTD solves a d × d system: where d is small and the data fit, use it."
    )
    console.print(f"Picture: {picture}", soft_wrap=True)


class Suite(StrEnum):
    """Which problems are compared."""

    paper = "paper"
    classic = "classic"
    hard = "hard"
    glm = "glm"
    all = "all"


class Name(StrEnum):
    """What can be reproduced."""

    fig1 = "fig1"
    fig2a = "fig2a"
    fig2b = "fig2b"
    fig3a = "fig3a"
    fig3b = "fig3b"
    tracking = "tracking"
    theory = "theory"
    all = "all"


class SizeName(StrEnum):
    """How large the experiments are."""

    full = "full"
    small = "small"


@app.command()
def reproduce(
    what: Annotated[
        Name, typer.Argument(help="A figure of the paper, 'tracking' (Theorem 2), 'theory' (Theorem 1), or all.")
    ] = Name.all,
    instances: Annotated[int, typer.Option(min=1, help="Instances of every experiment; the paper has 50.")] = 50,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same numbers.")] = 0,
    jobs: Annotated[int, typer.Option(min=1, help="Instances worked out at the same time.")] = 2,
    out: Annotated[Path, typer.Option(help="Folder for tables, pictures and finished instances.")] = Path("out/paper"),
    size: Annotated[SizeName, typer.Option(help="'small' cuts the problems down to seconds.")] = SizeName.full,
) -> None:
    """Run the paper's numerical section again, with what it leaves out, and say which of its claims hold.

    Writes NAME.csv, NAME.png and NAME.svg for every figure, and claims.md and claims.json. Interrupted, the same
    command goes on where it was.

    Example: multireplay reproduce fig2a --instances 10 --out out/paper
    """
    from multireplay.progress import bar
    from multireplay.reproduce import EXPERIMENTS, reproduce, total_cost, write_claims

    chosen = list(EXPERIMENTS.values()) if what is Name.all else [EXPERIMENTS[what.value]]
    console = terminal()
    try:
        with bar(counts=False) as progress:
            task = progress.add_task("starting", total=total_cost(chosen, instances, size.value))

            def advance(name: str, seconds: float) -> None:
                progress.update(task, advance=seconds, description=name)

            reproduce(chosen, instances, seed, jobs, out, size.value, advance)
    except KeyboardInterrupt:
        console.print(f"Interrupted. Finished instances are kept in {out}; the same command goes on from there.")
        raise typer.Exit(130) from None
    verdicts = write_claims(out)
    rows = [{"figure": v.figure, "verdict": v.verdict, "claim": v.claim} for v in verdicts]
    console.print(TextTable(rows, wrap="claim"))
    console.print(f"Tables, pictures and the numbers behind each verdict: {out} (claims.md)", soft_wrap=True)


@app.command()
def compare(
    suite: Annotated[Suite, typer.Option(help="Which problems.")] = Suite.all,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds that are reported.")] = 30,
    tuning_seeds: Annotated[int, typer.Option(min=1, help="Other seeds, on which step sizes are chosen.")] = 3,
    jobs: Annotated[int, typer.Option(min=1, help="Seeds worked out at the same time.")] = 2,
    out: Annotated[Path, typer.Option(help="Folder for the table, the picture and finished seeds.")] = Path(
        "out/compare"
    ),
    size: Annotated[SizeName, typer.Option(help="'small' cuts the records down to seconds.")] = SizeName.full,
) -> None:
    """Compare mr.solve with every rival, as a ratio to the exact fit's error on the same record.

    Writes compare.csv, compare.md and compare.png. Interrupted, the same command goes on where it was. Mountain Car
    and CartPole need gymnasium, the real record statsmodels: pip install 'multireplay[compare]'.

    Example: multireplay compare --suite paper --seeds 10
    """
    from multireplay.compare import compare, total_cost
    from multireplay.progress import bar

    console = terminal()
    try:
        with bar(counts=False) as progress:
            task = progress.add_task("starting", total=total_cost(suite.value, seeds, tuning_seeds))

            def advance(name: str, seconds: float) -> None:
                progress.update(task, advance=seconds, description=name)

            compare(suite.value, seeds, tuning_seeds, jobs, out, size.value, advance)
    except KeyboardInterrupt:
        console.print(f"Interrupted. Finished seeds are kept in {out}; the same command goes on from there.")
        raise typer.Exit(130) from None
    console.print((out / "compare.md").read_text(encoding="utf-8"), markup=False, highlight=False, soft_wrap=True)
    console.print(f"Table, picture and all numbers: {out}", soft_wrap=True)
