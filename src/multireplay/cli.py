"""The command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from multireplay.text import terminal

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
        "MER's last epochs replay the record nearly in order, so its best epoch is not its last; dyadic replay uses "
        "every sample once in MER's own order. LSTD solves a d × d system: where d is small and the data fit, use it."
    )
    console.print(f"Picture: {picture}", soft_wrap=True)
