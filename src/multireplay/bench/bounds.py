"""Theorem 1 in numbers: its three terms for every epoch against the error that is measured."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from multireplay import Multiscale, Track, solve, theory
from multireplay.bench.figures import MRP_LENGTH
from multireplay.bench.runner import UNTUNED, PaperExperiment
from multireplay.bench.store import Arrays
from multireplay.bench.table import Row, mean_and_error
from multireplay.bench.world import Size, seeds
from multireplay.simulate import MarkovRewardProcess, paper_mrp
from multireplay.steps import Theorem1

WORKS = 2.0**-6
TERMS = ("deterministic", "bias", "stochastic", "total")


def three_states() -> MarkovRewardProcess:
    """A chain of three states with two features that cannot represent its value: every term of the bound is there."""
    transitions = [[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.1, 0.3, 0.6]]
    features = [[1.0, 0.0], [0.6, 0.6], [0.0, 1.0]]
    return MarkovRewardProcess(transitions, features, [1.0, 0.0, -0.5], gamma=0.3)


class Bounds(PaperExperiment):
    """The experiment `theory`."""

    name = "theory"
    title = "Theorem 1 against measured errors"
    seconds = 0.3
    tuning = UNTUNED

    def settings(self) -> dict[str, Any]:
        return {"works": WORKS, "length": MRP_LENGTH}

    @cached_property
    def process(self) -> MarkovRewardProcess:
        return paper_mrp(0.9)

    def report(self, size: Size, seed: int, instance: int, chosen: Any) -> Arrays:
        """Squared errors of the last iterate of every epoch on the paper's process, at Theorem 1's step and at 1/64."""
        record = self.process.buffer(MRP_LENGTH[size], seed=seeds(seed, self.name, instance))
        found = {}
        for name, step in (("theorem", Theorem1(self.process.exact.constants)), ("works", WORKS)):
            track = Track(self.process.solution, at="end")
            result = solve(self.process.problem, record, replay=Multiscale(), step=step, average="none", track=track)
            found[name] = np.array([epoch.curve.last[0] for epoch in result.epochs if epoch.curve is not None])
        return found

    def rows(self, reports: list[Arrays], chosen: Any, size: Size) -> list[Row]:
        """Measured and bound by epoch, on the three-state chain (exact, B as large as asked for) and on the paper's."""
        small = three_states()
        c = small.exact.constants
        K = int(np.ceil(np.log2(c.buffer_lower_bound())))
        rows = []
        for k in range(1, K + 1):
            rows += _bound_rows("three states", c, k, 2**K)
            measured = exact_squared_error(small, c.step_size(k), gap=2 ** (K - k), k=k)
            rows.append(Row("three states", "measured", c.step_size(k), 2**k, measured))
        c = self.process.exact.constants
        for k in range(1, MRP_LENGTH[size].bit_length()):
            rows += _bound_rows("paper MRP", c, k, MRP_LENGTH[size])
            methods = ("measured", "theorem", c.step_size(k)), (f"measured, step {WORKS:g}", "works", WORKS)
            for method, name, step in methods:
                errors = np.array([report[name][k - 1] for report in reports])
                rows.append(Row("paper MRP", method, step, 2**k, *mean_and_error(errors), instances=len(reports)))
        return rows


def _bound_rows(panel: str, c: theory.Constants, k: int, B: int) -> list[Row]:
    bound, step = theory.theorem_1(c, k, B), c.step_size(k)
    return [Row(panel, term, step, 2**k, getattr(bound, term)) for term in TERMS]


def exact_squared_error(process: MarkovRewardProcess, step: float, gap: int, k: int) -> float:
    """E‖x − θ̄‖² after 2^k steps of TD at the given gap, from x = 0 and the stationary law, without simulation.

    Given the transition (s, s') a step is linear in e = x − θ̄, so that (1, e, e⊗e), kept apart by the state, goes
    through one fixed matrix a step; k squarings of it make 2^k steps. For small chains only: the matrix has S(1 + d +
    d²) rows.
    """
    P, Psi, gamma = process.transitions, process.features, process.gamma
    S, d = Psi.shape
    block = 1 + d + d * d
    onward = np.linalg.matrix_power(P, gap - 1)
    matrix = np.zeros((S, block, S, block))
    for s in range(S):
        for after in range(S):
            slope = np.eye(d) - step * np.outer(Psi[s], Psi[s] - gamma * Psi[after])
            shift = -step * Psi[s] * ((Psi[s] - gamma * Psi[after]) @ process.solution - process.rewards[s])
            moved = np.zeros((block, block))
            moved[0, 0] = 1.0
            moved[1 : 1 + d, 0], moved[1 : 1 + d, 1 : 1 + d] = shift, slope
            moved[1 + d :, 0] = np.kron(shift, shift)
            moved[1 + d :, 1 : 1 + d] = np.kron(slope, shift[:, None]) + np.kron(shift[:, None], slope)
            moved[1 + d :, 1 + d :] = np.kron(slope, slope)
            for following in range(S):
                matrix[following, :, s, :] += P[s, after] * onward[after, following] * moved
    whole = matrix.reshape(S * block, S * block)
    for _ in range(k):
        whole = whole @ whole
    e = -process.solution
    start = np.outer(process.stationary, np.concatenate([[1.0], e, np.kron(e, e)])).ravel()
    squares = (whole @ start).reshape(S, block).sum(axis=0)[1 + d :].reshape(d, d)
    return float(np.trace(squares))
