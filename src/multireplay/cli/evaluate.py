"""multireplay evaluate"""

from __future__ import annotations

from dataclasses import asdict
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multireplay.cli.app import INTERRUPTED, app, exit_code, note
from multireplay.cli.options import Json, Level, Report, print_json
from multireplay.cli.outputs import Force, check_outputs
from multireplay.errors import InputError
from multireplay.show.text import say

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from multireplay.rl import ValueEstimate


@app.command()
def evaluate(
    ctx: typer.Context,
    env: Annotated[str, typer.Option(help="Id of a Gymnasium environment.")],
    policy: Annotated[
        str, typer.Option(help="'random', or a function of yours as 'module:function' or 'file.py:function'.")
    ] = "random",
    features: Annotated[
        str,
        typer.Option(
            help="one-hot, rbf, tiles, fourier or polynomial, with arguments as in 'fourier(order=5)'; "
            "a function of yours as 'module:function'; or auto."
        ),
    ] = "auto",
    gamma: Annotated[float, typer.Option(help="Discount factor, in [0, 1]; 1 is for episodes that end.")] = 0.99,
    steps: Annotated[int, typer.Option(min=1, help="Steps the policy takes.")] = 100_000,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same numbers.")] = 0,
    check: Annotated[int, typer.Option(min=0, help="Rollouts of the Monte Carlo check, 0 for none.")] = 100,
    record: Annotated[Path | None, typer.Option(help="File (.npz) to keep the steps in; after Ctrl-C too.")] = None,
    level: Level = 0.95,
    plot: Annotated[Path | None, typer.Option(help="File for a picture of the values, such as value.png.")] = None,
    report: Report = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Estimate the value function of a policy in an environment, and check it by Monte Carlo.

    The policy acts for --steps steps, the value function is learnt from that one record, and fresh rollouts are
    compared with it. After Ctrl-C it is learnt from the steps so far. Needs Gymnasium, which the extra 'rl' has.

    Example: multireplay evaluate --env MountainCar-v0 --policy mine.py:act --features rbf --report value.html
    """
    if record is not None and record.suffix != ".npz":
        record = record.with_name(f"{record.name}.npz")
    read = [Path(given.rpartition(":")[0]) for given in (policy, features) if ":" in given]
    check_outputs(force, read, record=record, plot=plot, report=report)
    if plot is not None:
        _check_picture(plot)
    import multireplay.rl as rl
    from multireplay.rl.uncertain import start_value

    interrupted = False
    try:
        found = rl.evaluate(env, policy, features, gamma, steps, seed, check=check, progress=True)
    except rl.CollectionInterrupted as stop:
        if stop.trajectory is None:
            raise
        interrupted = True
        found = rl.estimate(stop.trajectory, features, gamma)
    except rl.CollectionError as error:
        if record is not None and error.trajectory is not None:
            note(f"The steps before the error are in {error.trajectory.save(record)}.")
        raise
    kept = None if record is None else found.trajectory.save(record)
    if plot is not None:
        from multireplay.show.plotting import save_figure

        save_figure(_drawn(found), plot)
    if report is not None:
        note(f"Report: {_write_report(found, report, level, ctx.obj)}")
    if as_json:
        diverged = found.result.status.code == "diverged"
        start = start_value(found, level)
        check_sentence = found.note if found.check is None else found.check.sentence
        print_json({
            "env": env, "policy": policy, "gamma": gamma, "steps": len(found.trajectory.rewards), "seed": seed,
            "interrupted": interrupted, "features": repr(found.features), "coef": found.x,
            "status": str(found.result.status), "ok": found.result.status.ok,
            "converged": found.result.converged, "distance": None if diverged else found.result.distance,
            "start_value": {**start._asdict(), "level": level, "doubt": start.doubt or None},
            "inference": _inference(found, level),
            "check": None if found.check is None else [asdict(group) for group in found.check.groups],
            "check_sentence": check_sentence, "record": kept, "plot": plot, "report": report,
        })  # fmt: skip
    else:
        say(found.told(level))
    if interrupted:
        note(f"Interrupted. This is from the {len(found.trajectory.rewards)} steps taken so far.", "red")
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(exit_code(found.result.status))


def _inference(found: ValueEstimate, level: float) -> dict[str, Any]:
    """The coefficients of the features with their intervals, as model files have them."""
    from multireplay.cli.inferred import inference_of, summaries_of

    known = [found.result.uncertainty]
    tables = inference_of(known, summaries_of(known, level))
    (table,) = tables.pop("tables")
    return {**tables, **{name: table[name] for name in ("coefficients", "why_not", "notes", "doubts")}}


def _check_picture(path: Path) -> None:
    from matplotlib.backend_bases import FigureCanvasBase

    kinds = FigureCanvasBase.get_supported_filetypes()
    if path.suffix[1:].lower() not in ("", *kinds):
        raise InputError(f"--plot {path}: a picture's name ends in one of {', '.join(sorted(kinds))}")


def _drawn(found: ValueEstimate) -> Figure:
    from matplotlib.figure import Figure

    from multireplay.rl.draw import telling_dims

    figure = Figure(figsize=(8, 5), layout="constrained")
    found.plot(figure.subplots(), dims=telling_dims(found))
    return figure


def _write_report(found: ValueEstimate, path: Path, level: float, command: str) -> Path:
    """The page on the run, and a tab with the picture of the values and the Monte Carlo check."""
    from multireplay.report import Block, Picture, Section, Shown, Table, Text, sections_of_result, write
    from multireplay.rl.uncertain import start_sentence

    _drawn(found).savefig(png := BytesIO(), dpi=150)
    picture = Picture(png.getvalue(), "The value function")
    blocks: list[Block] = [picture, Text(str(found).splitlines()[0], tone="lead"), Text(start_sentence(found, level))]
    if found.check is not None:
        blocks += [Text(found.check.sentence), Table(found.check.table().rows, caption="Monte Carlo check")]
    elif found.note:
        blocks.append(Text(found.note))
    known = found.result.uncertainty
    said = [f"{note[:1].upper()}{note[1:]}." for note in (known.doubt_note(),) if note]
    shown = Shown({"": known}, said=said, level=level)
    sections = [Section("Value", blocks), *sections_of_result(found.result, command=command, uncertainty=shown)]
    return write(path, f"Value of a policy on {found.trajectory.name}", sections)
