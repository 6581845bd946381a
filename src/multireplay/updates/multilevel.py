"""MAG: the multilevel Monte Carlo gradient with AdaGrad-norm steps.

Dorfman and Levy (2022), "Adapting to mixing time in stochastic optimization with Markovian data", ICML. Draw a level
J ~ Geom(1/2), read the next 2^J samples and let ĝ_j be the mean operator of the first 2^j of them; the estimate is
g = ĝ_0 + 2^J(ĝ_J − ĝ_{J−1}) if 2^J is at most the horizon, else ĝ_0 of one sample. Step η_t = α/√(Σ_{i≤t}‖g_i‖²),
projection onto the feasible ball of diameter D, and the average of all iterates as the answer. Our reading, for want of
their code: α = D/√2, the best of AdaGrad-norm's regret bound, and the length of the record for the horizon.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from multireplay._check import Positions, Vector
from multireplay._jit import jit
from multireplay.updates.rank_one import HUGE, RankOne, Sweep, mean_operator


@jit
def descend(rows: RankOne, levels: Positions, alpha: float, radius: float, mean: Vector) -> int:
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


@dataclass(frozen=True)
class Multilevel(Sweep):
    """Multilevel estimates of the mean operator on consecutive samples, with AdaGrad-norm steps (MAG).

    The iterates are kept in the ball of that radius around 0; `alpha`, the numerator of the steps, is
    2·radius/√2 by default.
    """

    radius: float
    seed: int = 0
    alpha: float | None = None

    def sweep(self, rows: RankOne, step: float, x: Vector) -> tuple[Vector, int]:
        """One sweep from 0, whatever the start and the step."""
        levels, mean = np.random.default_rng(self.seed).geometric(0.5, size=len(rows.targets)), np.zeros_like(x)
        alpha = 2 * self.radius / np.sqrt(2) if self.alpha is None else self.alpha
        return mean, descend(rows, levels, alpha, self.radius, mean)
