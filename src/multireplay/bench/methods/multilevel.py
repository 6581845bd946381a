"""MAG: the multilevel Monte Carlo gradient with AdaGrad-norm steps.

Dorfman and Levy (2022), "Adapting to mixing time in stochastic optimization with Markovian data", ICML. Draw a level
J ~ Geom(1/2), read the next 2^J samples and let ĝ_j be the mean operator of the first 2^j of them; the estimate is
g = ĝ_0 + 2^J(ĝ_J − ĝ_{J−1}) if 2^J is at most the horizon, else ĝ_0 of one sample. Step η_t = α/√(Σ_{i≤t}‖g_i‖²) with
α = D/√2, projection onto the feasible ball of diameter D, and the average of all iterates as the answer. The ball here
has radius 2‖x*‖; tuned, α is D times a number of the grid.
"""

from __future__ import annotations

import numpy as np

from multireplay._check import Positions, Vector
from multireplay._jit import jit
from multireplay.bench.method import Answer, Method, is_rank_one
from multireplay.bench.methods.rank_one import HUGE, Rows, lost, mean_operator, rows_of
from multireplay.bench.world import Case


@jit
def descend(rows: Rows, levels: Positions, alpha: float, radius: float, mean: Vector) -> int:
    """One sweep; `mean` becomes the average iterate. The number of samples read, or −1 if it diverged."""
    dim, length = len(mean), len(rows.targets)
    x, g, half, single, total = np.zeros(dim), np.zeros(dim), np.zeros(dim), np.zeros(dim), np.zeros(dim)
    squares, place = 0.0, 0
    for t, level in enumerate(levels):
        size = 2**level
        if size > length:
            size = 1
        if place + size > length:
            break
        mean_operator(rows, place, place + 1, x, single)
        g[:] = single
        if size > 1:
            mean_operator(rows, place, place + size, x, total)
            mean_operator(rows, place, place + size // 2, x, half)
            g += size * (total - half)
        place += size
        norm = np.sum(g * g)
        if not norm < HUGE:
            return -1
        squares += norm
        if squares > 0.0:
            x -= alpha / np.sqrt(squares) * g
        length_of_x = np.sqrt(np.sum(x * x))
        if length_of_x > radius:
            x *= radius / length_of_x
        mean += (x - mean) / (t + 1)
    return place


def multilevel_adagrad(case: Case, step: float | None) -> Answer:
    """See the module."""
    rows = rows_of(case)
    radius = 2 * float(np.linalg.norm(case.world.solution))
    levels = np.random.default_rng(case.seed).geometric(0.5, size=case.length)
    mean = np.zeros(rows.features.shape[1])
    alpha = 2 * radius * (1 / np.sqrt(2) if step is None else step)
    touched = descend(rows, levels, alpha, radius, mean)
    return Answer(mean if touched >= 0 else lost(len(mean)), max(touched, 0))


METHODS = (
    Method("MAG", multilevel_adagrad, works_on=is_rank_one, note="on a ball of radius 2‖x*‖; tuned: α = number × D"),
)
