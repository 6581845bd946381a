"""The paper's figures, with its settings."""

from __future__ import annotations

from functools import partial

from multireplay.bench.curves import CurveFigure
from multireplay.bench.method import Method
from multireplay.bench.methods.library import of_figures, skip
from multireplay.bench.world import Case, Size, World
from multireplay.bench.worlds.chains import chain_world
from multireplay.bench.worlds.series import logistic_world
from multireplay.simulate import AutoregressiveLogistic, paper_mrp

MRP_LENGTH: dict[Size, int] = {"full": 150_000, "small": 12_000}
LOGISTIC_LENGTH: dict[Size, int] = {"full": 10_000, "small": 2_000}
LOGISTIC_DIM = {10_000: 1000, 2_000: 100}
"""d by the length of the record."""

LOGISTIC_STEP = 2.0**-11
"""Where the i.i.d. method does best on tuning seeds at full size; the same for both sizes."""


def _case(world: World, seed: tuple[int, ...], first: int, instance: int) -> Case:
    """A record and independent samples of the world, from seeds numbered from `first`."""
    assert world.fresh is not None
    return Case(world, world.record((*seed, first)), instance, fresh=world.fresh((*seed, first + 1)))


def policy_evaluation(m: float, length: int, seed: tuple[int, ...], instance: int) -> Case:
    """The paper's Markov reward process, one trajectory of it."""
    return _case(chain_world(paper_mrp(m), length), seed, 0, instance)


def logistic(share: float, length: int, seed: tuple[int, ...], instance: int) -> Case:
    """The paper's logistic regression: a new matrix A, solution and record for every instance."""
    dim = LOGISTIC_DIM[length]
    simulated = AutoregressiveLogistic(dim, round(share * dim), seed=(*seed, 0))
    return _case(logistic_world(simulated, length), seed, 1, instance)


def _mrp_figure(name: str, title: str, m: float, *skips: Method) -> CurveFigure:
    return CurveFigure(
        name=name,
        title=title,
        case=partial(policy_evaluation, m),
        lengths=MRP_LENGTH,
        methods=of_figures(*skips),
        shared_step=0.5,
        grid=tuple(2.0**-k for k in range(9)),
        exact_grids={"LSTD": (0.0,)},
        averaged=True,
        tuning={"full": 10, "small": 2},
        seconds=0.5,
        details={"m": m},
    )


def _logistic_figure(name: str, share: float) -> CurveFigure:
    return CurveFigure(
        name=name,
        title=f"Logistic regression, autoregressive covariates, d_L/d = {share:g}",
        case=partial(logistic, share),
        lengths=LOGISTIC_LENGTH,
        methods=of_figures(skip(10)),
        shared_step=LOGISTIC_STEP,
        grid=tuple(2.0**-k for k in range(6, 15)),
        exact_grids={"maximum likelihood": (0.0,), "best ridge": (0.03, 0.1, 0.2, 0.4)},
        averaged=False,
        tuning={"full": 5, "small": 2},
        seconds=8.0,
        details={"share": share, "dim": LOGISTIC_DIM},
    )


_SKIPS = skip(19, "skip right (19)"), skip(300, "skip too much (300)"), skip(3, "skip too little (3)")
FIGURES = {
    figure.name: figure
    for figure in (
        _mrp_figure("fig1", "Skipping right, too much and too little (m = 0.95)", 0.95, *_SKIPS),
        _mrp_figure("fig2a", "Policy evaluation, m = 0.9", 0.9, skip(5)),
        _mrp_figure("fig2b", "Policy evaluation, m = 0.95", 0.95, skip(5)),
        _logistic_figure("fig3a", 0.4),
        _logistic_figure("fig3b", 0.5),
    )
}
