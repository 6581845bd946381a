"""Theorems 1 and 2 in numbers: the terms of the first against errors measured, and how closely replay follows i.i.d.

For Theorem 2 both chains are of the form "keep the state with probability ρ, otherwise draw a fresh one", so that after
a gap of n steps the state is kept with probability ρⁿ. The Markov run and the independent run are fed the same fresh
draws: they differ only where a state was kept, and the difference of their errors is seen far below the Monte Carlo
noise of either.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from scipy.special import expit

import multireplay as mr
from multireplay import theory
from multireplay._check import Positions, Vector
from multireplay.bench.figures import MRP_LENGTH
from multireplay.bench.runner import UNTUNED, PaperExperiment
from multireplay.bench.store import Arrays
from multireplay.bench.table import Row, mean_and_error
from multireplay.bench.world import Size, seeds
from multireplay.simulate import MarkovRewardProcess, paper_mrp
from multireplay.steps import Theorem1

WORKS = 2.0**-6
AT_WORKS = f"measured, step {WORKS:g}"
TERMS = ("deterministic", "bias", "stochastic", "total")

BETAS = (0.05, 0.1, 0.2, 0.4, 0.7, 1.05, 1.4)
STEPS_TAKEN = (16, 64, 256, 1024)
CHAINS: dict[Size, int] = {"full": 1000, "small": 50}
C0 = 5**0.5
"""Two samples (ψ, ψ', r) are at most √(2 + 2 + 1) apart, two samples (a, y) at most √(4 + 1)."""


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
    instances = 50

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
            track = mr.Track(self.process.solution, at="end")
            options: dict[str, Any] = {"replay": mr.Multiscale(), "average": "none", "track": track}
            result = mr.solve(self.process.problem, record, step=step, **options)
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
            methods = ("measured", "theorem", c.step_size(k)), (AT_WORKS, "works", WORKS)
            for method, name, step in methods:
                errors = np.array([report[name][k - 1] for report in reports])
                rows.append(Row("paper MRP", method, step, 2**k, *mean_and_error(errors), instances=len(reports)))
        return rows


def _bound_rows(panel: str, c: theory.Constants, k: int, B: int) -> list[Row]:
    bound, step = theory.theorem_1(c, k, B, printed=True), c.step_size(k)
    return [Row(panel, term, step, 2**k, getattr(bound, term)) for term in TERMS]


def exact_squared_error(process: MarkovRewardProcess, step: float, gap: int, k: int) -> float:
    """E‖x − θ̄‖² after 2^k steps of TD at the given gap, from x = 0 and the stationary law, without simulation.

    Given the transition (s, s') a step is linear in v = (1, x − θ̄), so that v⊗v, kept apart by the state, goes through
    one fixed matrix a step; k squarings of it make 2^k steps. For small chains only: the matrix has S(1 + d)² rows.
    """
    P, Psi = process.transitions, process.features
    S, d = Psi.shape
    moves = np.zeros((S, S, (1 + d) ** 2, (1 + d) ** 2))
    for s, after in product(range(S), range(S)):
        change = Psi[s] - process.gamma * Psi[after]
        affine = np.eye(1 + d)
        affine[1:, 1:] -= step * np.outer(Psi[s], change)
        affine[1:, 0] = -step * Psi[s] * (change @ process.solution - process.rewards[s])
        moves[s, after] = np.kron(affine, affine)
    onward = np.linalg.matrix_power(P, gap - 1)
    matrix = np.einsum("sa,af,saij->fisj", P, onward, moves).reshape(S * (1 + d) ** 2, -1)
    v = np.append(1.0, -process.solution)
    start = np.outer(process.stationary, np.kron(v, v)).ravel()
    ends = (np.linalg.matrix_power(matrix, 2**k) @ start).reshape(S, 1 + d, 1 + d).sum(axis=0)
    return float(np.trace(ends[1:, 1:]))


@dataclass(frozen=True, eq=False)
class Setting:
    """One problem to follow: its keep probability ρ, its constants, and the bound of the corollary on it by T.

    ``simulate(T, step, kept, chains, seed)`` gives ‖Δ‖ and ‖Δ̃‖ of every chain, kept = ρⁿ.
    """

    name: str
    corollary: str
    bound: Callable[[int], float]
    rho: float
    tau: float
    L1: float
    L2: float
    simulate: Callable[[int, float, float, int, Any], Vector]


def policy_evaluation_setting(m: float = 0.9) -> Setting:
    """The paper's Markov reward process (Corollary 4)."""
    process = paper_mrp(m)
    S, d, gamma = 30, 16, 0.8
    rho = 1 - S * (1 - m) / ((S - 1) * m)  # P = ρI + (1 − ρ)·(uniform)
    tau = process.exact.constants.effective_mixing_time
    radius = theory.D_theta(d, 0.0, 1.0, gamma, 1.0, printed=True)
    slot = np.minimum(np.arange(S), d - 1)

    def bound(T: int) -> float:
        return theory.corollary_4(C0, T, D_psi=1.0, D_theta=radius, R_bar=1.0, gamma=gamma, printed=True)

    def simulate(T: int, step: float, kept: float, chains: int, seed: Any) -> Vector:
        rng = np.random.default_rng(seed)
        uniforms, fresh = rng.random((chains, T, 2)), rng.integers(S, size=(chains, T, 2))
        x = np.zeros((chains, 2, d))
        which = np.arange(chains)[:, None], np.arange(2)
        states = fresh[:, 0, [0, 0]]
        for t in range(T):
            states[:, 1] = fresh[:, t, 0]
            states[:, 0] = np.where((uniforms[:, t, 0] < kept / rho) & (t > 0), states[:, 0], states[:, 1])
            after = np.where(uniforms[:, t, 1:] < rho, states, fresh[:, t, 1:])
            now, then = (*which, slot[states]), (*which, slot[after])
            x[now] -= step * (x[now] - process.rewards[states] - gamma * x[then])
            states = after
        return np.asarray(np.linalg.norm(x - process.solution, axis=2))

    L2 = 3**0.5 * ((2 + gamma) * radius + 1)
    return Setting("policy evaluation", "Corollary 4", bound, rho, tau, 1 + gamma, L2, simulate)


def regression_setting(states: int = 20, dim: int = 5, rho: float = 0.9) -> Setting:
    """Logistic regression on a chain over `states` covariates of length 1, on the unit ball (Corollary 2)."""
    covariates = np.random.default_rng(0).standard_normal((states, dim))
    covariates /= np.linalg.norm(covariates, axis=1)[:, None]
    solution = np.full(dim, 0.8 / dim**0.5)
    kappa = float(np.linalg.eigvalsh(covariates.T @ covariates / states)[0])
    slope = float(np.exp(-1) / (1 + np.exp(-1)) ** 2)  # smallest on |aᵀx| ≤ 1
    constants = theory.glm_constants(
        D_a=1.0, L_f=0.25, mu_f=slope, kappa=kappa, sigma_v=0.5, D=2.0, C_TV=1.0, rho_TV=rho
    )

    def bound(T: int) -> float:
        return theory.corollary_2(C0, T, D_a=1.0, D_x=2.0, D_f=1.0, D_y=1.0, L_f=0.25, printed=True)

    def simulate(T: int, step: float, kept: float, chains: int, seed: Any) -> Vector:
        rng = np.random.default_rng(seed)
        uniforms, fresh = rng.random((chains, T, 2)), rng.integers(states, size=(chains, T))
        return logistic_pairs(uniforms, fresh, kept, step, covariates, solution)

    tau, L2 = constants.effective_mixing_time, 2**0.5 * max(0.25 * 2 + 1 + 1, 1)
    return Setting("logistic regression", "Corollary 2", bound, rho, tau, 0.25, L2, simulate)


def logistic_pairs(
    uniforms: Vector, fresh: Positions, kept: float, step: float, covariates: Vector, solution: Vector
) -> Vector:
    """‖Δ‖ and ‖Δ̃‖ of logistic regression on the unit ball, chain by chain, from the same fresh draws."""
    chains, T = fresh.shape
    x = np.zeros((chains, 2, len(solution)))
    states = np.zeros((chains, 2), dtype=np.int64)
    for t in range(T):
        states[:, 1] = fresh[:, t]
        states[:, 0] = np.where((uniforms[:, t, 0] < kept) & (t > 0), states[:, 0], states[:, 1])
        a = covariates[states]
        targets = uniforms[:, t, 1:] < expit((a * solution).sum(axis=2))
        x -= (step * (expit((a * x).sum(axis=2)) - targets))[..., None] * a
        x /= np.maximum(1.0, np.sqrt((x * x).sum(axis=2)))[..., None]
    return np.asarray(np.linalg.norm(x - solution, axis=2))


class Following(PaperExperiment):
    """The experiment `tracking`."""

    name = "tracking"
    title = "Following the i.i.d. error (Theorem 2, Corollaries 2 and 4)"
    seconds = 1.5
    tuning = UNTUNED
    instances = 20

    def settings(self) -> dict[str, Any]:
        return {"betas": BETAS, "steps": STEPS_TAKEN, "chains": CHAINS}

    @cached_property
    def parts(self) -> tuple[Setting, Setting]:
        return policy_evaluation_setting(), regression_setting()

    def report(self, size: Size, seed: int, instance: int, chosen: Any) -> Arrays:
        """For every setting, the mean difference of errors and the mean error of the independent run, by β and T."""
        found = {}
        for setting in self.parts:
            means = np.empty((2, len(BETAS), len(STEPS_TAKEN)))
            for (i, beta), (j, T) in product(enumerate(BETAS), enumerate(STEPS_TAKEN)):
                kept = setting.rho ** max(1, round(beta * setting.tau))
                source = seeds(seed, self.name, setting.name, instance, i, T)
                run, free = setting.simulate(T, theory.max_step(setting.L1, T), kept, CHAINS[size], source).T
                means[:, i, j] = (run - free).mean(), free.mean()
            found[setting.name] = means
        return found

    def rows(self, reports: list[Arrays], chosen: Any, size: Size) -> list[Row]:
        """Measured |E‖Δ‖ − E‖Δ̃‖|, Theorem 2's bound where β > 1, and the corollary's at its own β."""
        rows = []
        count = len(reports)
        for setting in self.parts:
            steps = {T: theory.max_step(setting.L1, T) for T in STEPS_TAKEN}
            means = np.array([report[setting.name] for report in reports])
            for (i, beta), (j, (T, step)) in product(enumerate(BETAS), enumerate(steps.items())):
                panel = f"{setting.name}, beta={beta:g}"
                (mean, error), free = (mean_and_error(means[:, which, i, j]) for which in (0, 1))
                rows.append(Row(panel, "measured difference", step, T, abs(mean), error, instances=count))
                rows.append(Row(panel, "i.i.d. error", step, T, *free, instances=count))
                if beta > 1:
                    bound = theory.theorem_2(C0, setting.L1, setting.L2, T, beta)
                    rows.append(Row(panel, "Theorem 2", step, T, bound, instances=count))
            panel = f"{setting.name}, beta=log T^1.5"
            rows += [Row(panel, setting.corollary, steps[T], T, setting.bound(T), instances=count) for T in steps]
        return rows
