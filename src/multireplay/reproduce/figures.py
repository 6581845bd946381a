"""The paper's figures, with its settings."""

from __future__ import annotations

from functools import partial

from multireplay.reproduce import worlds
from multireplay.reproduce.curves import CurveFigure
from multireplay.reproduce.methods import Method, all_methods, skip
from multireplay.reproduce.worlds import Size, World

MRP_LENGTH: dict[Size, int] = {"full": 150_000, "small": 12_000}
MRP_GRID = tuple(2.0**-k for k in range(9))
LOGISTIC_LENGTH: dict[Size, int] = {"full": 10_000, "small": 2_000}
LOGISTIC_DIM: dict[Size, int] = {"full": 1000, "small": 100}
RIDGES = (0.03, 0.1, 0.2, 0.4)
TUNING: dict[Size, int] = {"full": 10, "small": 2}

LOGISTIC_STEP = 2.0**-11
"""Where the i.i.d. method does best on tuning seeds at full size; the same for both sizes."""


def _mrp_world(m: float, size: Size, seed: tuple[int, ...]) -> World:
    return worlds.policy_evaluation(m, MRP_LENGTH[size], seed)


def _logistic_world(share: float, size: Size, seed: tuple[int, ...]) -> World:
    dim = LOGISTIC_DIM[size]
    return worlds.logistic(dim, round(share * dim), LOGISTIC_LENGTH[size], seed)


def _mrp_figure(name: str, title: str, m: float, *skips: Method) -> CurveFigure:
    return CurveFigure(
        name=name,
        title=title,
        world=partial(_mrp_world, m),
        lengths=MRP_LENGTH,
        methods=all_methods(*skips),
        shared_step=0.5,
        grid=MRP_GRID,
        exact_grids={"LSTD": (0.0,)},
        averaged=True,
        tuning=TUNING,
        seconds=0.5,
        details=f"m={m}",
    )


def _logistic_figure(name: str, share: float) -> CurveFigure:
    return CurveFigure(
        name=name,
        title=f"Logistic regression, autoregressive covariates, d_L/d = {share:g}",
        world=partial(_logistic_world, share),
        lengths=LOGISTIC_LENGTH,
        methods=all_methods(skip(10)),
        shared_step=LOGISTIC_STEP,
        grid=tuple(2.0**-k for k in range(6, 15)),
        exact_grids={"maximum likelihood": (0.0,), "best ridge": RIDGES},
        averaged=False,
        tuning={"full": 5, "small": 2},
        seconds=8.0,
        details=f"share={share} dim={LOGISTIC_DIM}",
    )


FIGURES = {
    figure.name: figure
    for figure in (
        _mrp_figure(
            "fig1",
            "Skipping right, too much and too little (m = 0.95)",
            0.95,
            skip(19, "skip right (19)"),
            skip(300, "skip too much (300)"),
            skip(3, "skip too little (3)"),
        ),
        _mrp_figure("fig2a", "Policy evaluation, m = 0.9", 0.9, skip(5)),
        _mrp_figure("fig2b", "Policy evaluation, m = 0.95", 0.95, skip(5)),
        _logistic_figure("fig3a", 0.4),
        _logistic_figure("fig3b", 0.5),
    )
}
