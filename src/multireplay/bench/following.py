"""Theorem 2 in numbers: how closely replay with a gap follows stochastic approximation on independent samples.

Both chains below are of the form "keep the state with probability ρ, otherwise draw a fresh one", so that after a gap
of n steps the state is kept with probability ρⁿ. The Markov run and the independent run are fed the same fresh draws:
they differ only where a state was kept, and the difference of their errors is seen far below the Monte Carlo noise of
either.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from multireplay import theory
from multireplay._check import Positions, Vector
from multireplay._jit import jit
from multireplay.bench.runner import UNTUNED, PaperExperiment
from multireplay.bench.store import Arrays
from multireplay.bench.table import Row, mean_and_error
from multireplay.bench.world import Size, seeds
from multireplay.simulate import paper_mrp

BETAS = (0.05, 0.1, 0.2, 0.4, 0.7, 1.05, 1.4)
STEPS_TAKEN = (16, 64, 256, 1024)
CHAINS: dict[Size, int] = {"full": 1000, "small": 50}


@dataclass(frozen=True, eq=False)
class Setting:
    """One problem to follow: its keep probability ρ, constants, and the simulation of both runs."""

    name: str
    corollary: str
    rho: float
    tau: float
    L1: float
    L2: float
    c0: float
    corollary_bound: Callable[[int], float]
    simulate: Callable[[int, float, float, int, Any], Vector]
    """``simulate(T, step, kept, chains, seed)``: ‖Δ‖ and ‖Δ̃‖ of every chain, kept = ρⁿ."""


class Following(PaperExperiment):
    """The experiment `tracking`."""

    name = "tracking"
    title = "Following the i.i.d. error (Theorem 2, Corollaries 2 and 4)"
    seconds = 1.5
    tuning = UNTUNED

    def settings(self) -> dict[str, Any]:
        return {"betas": BETAS, "steps": STEPS_TAKEN, "chains": CHAINS}

    @cached_property
    def parts(self) -> tuple[Setting, Setting]:
        return policy_evaluation_setting(), regression_setting()

    def report(self, size: Size, seed: int, instance: int, chosen: Any) -> Arrays:
        """For every setting, the mean difference of errors and the mean error of the independent run, by β and T."""
        found = {}
        for setting in self.parts:
            differences = np.empty((len(BETAS), len(STEPS_TAKEN)))
            errors = np.empty_like(differences)
            for i, beta in enumerate(BETAS):
                kept = setting.rho ** max(1, round(beta * setting.tau))
                for j, T in enumerate(STEPS_TAKEN):
                    source = seeds(seed, self.name, setting.name, instance, i, T)
                    runs = setting.simulate(T, theory.max_step(setting.L1, T), kept, CHAINS[size], source)
                    differences[i, j] = (runs[:, 0] - runs[:, 1]).mean()
                    errors[i, j] = runs[:, 1].mean()
            found[f"{setting.name}/difference"] = differences
            found[f"{setting.name}/independent"] = errors
        return found

    def rows(self, reports: list[Arrays], chosen: Any, size: Size) -> list[Row]:
        """Measured |E‖Δ‖ − E‖Δ̃‖|, Theorem 2's bound where β > 1, and the corollary's at its own β."""
        rows = []
        count = len(reports)
        for setting in self.parts:
            name, steps = setting.name, {T: theory.max_step(setting.L1, T) for T in STEPS_TAKEN}
            for i, beta in enumerate(BETAS):
                panel = f"{name}, beta={beta:g}"
                for j, (T, step) in enumerate(steps.items()):
                    mean, error = mean_and_error(np.array([r[f"{name}/difference"][i, j] for r in reports]))
                    free = mean_and_error(np.array([r[f"{name}/independent"][i, j] for r in reports]))
                    rows.append(Row(panel, "measured difference", step, T, abs(mean), error, instances=count))
                    rows.append(Row(panel, "i.i.d. error", step, T, *free, instances=count))
                    if beta > 1:
                        bound = theory.theorem_2(setting.c0, setting.L1, setting.L2, T, beta)
                        rows.append(Row(panel, "Theorem 2", step, T, bound, instances=count))
            panel = f"{name}, beta=log T^1.5"
            for T, step in steps.items():
                rows.append(Row(panel, setting.corollary, step, T, setting.corollary_bound(T), instances=count))
        return rows


def policy_evaluation_setting(m: float = 0.9) -> Setting:
    """The paper's Markov reward process (Corollary 4)."""
    process = paper_mrp(m)
    S, d, gamma = 30, 16, 0.8
    rho = 1 - S * (1 - m) / ((S - 1) * m)  # P = ρI + (1 − ρ)·(uniform)
    radius = theory.D_theta(d, 0.0, 1.0, gamma, 1.0)
    slot = np.minimum(np.arange(S), d - 1)

    def simulate(T: int, step: float, kept: float, chains: int, seed: Any) -> Vector:
        rng = np.random.default_rng(seed)
        uniforms, fresh = rng.random((chains, T, 2)), rng.integers(S, size=(chains, T, 2))
        return _td_pairs(uniforms, fresh, kept / rho, rho, step, gamma, slot, process.rewards, process.solution)

    return Setting(
        name="policy evaluation",
        corollary="Corollary 4",
        rho=rho,
        tau=process.exact.constants.effective_mixing_time,
        L1=(1 + gamma),
        L2=3**0.5 * ((2 + gamma) * radius + 1),
        c0=5**0.5,  # two samples (ψ, ψ', r) are at most √(2 + 2 + 1) apart
        corollary_bound=lambda T: theory.corollary_4(5**0.5, T, D_psi=1.0, D_theta=radius, R_bar=1.0, gamma=gamma),
        simulate=simulate,
    )


def regression_setting(states: int = 20, dim: int = 5, rho: float = 0.9) -> Setting:
    """Logistic regression on a chain over `states` covariates of length 1, on the unit ball (Corollary 2)."""
    rng = np.random.default_rng(0)
    covariates = rng.standard_normal((states, dim))
    covariates /= np.linalg.norm(covariates, axis=1)[:, None]
    solution = np.full(dim, 0.8 / dim**0.5)
    kappa = float(np.linalg.eigvalsh(covariates.T @ covariates / states)[0])
    slope = float(np.exp(-1) / (1 + np.exp(-1)) ** 2)  # smallest on |aᵀx| ≤ 1
    constants = theory.glm_constants(
        D_a=1.0, L_f=0.25, mu_f=slope, kappa=kappa, sigma_v=0.5, D=2.0, C_TV=1.0, rho_TV=rho
    )

    def simulate(T: int, step: float, kept: float, chains: int, seed: Any) -> Vector:
        rng = np.random.default_rng(seed)
        uniforms, fresh = rng.random((chains, T, 2)), rng.integers(states, size=(chains, T))
        return _logistic_pairs(uniforms, fresh, kept, step, covariates, solution)

    return Setting(
        name="logistic regression",
        corollary="Corollary 2",
        rho=rho,
        tau=constants.effective_mixing_time,
        L1=0.25,
        L2=2**0.5 * max(0.25 * 2 + 1 + 1, 1),
        c0=5**0.5,  # two samples (a, y) are at most √(4 + 1) apart
        corollary_bound=lambda T: theory.corollary_2(5**0.5, T, D_a=1.0, D_x=2.0, D_f=1.0, D_y=1.0, L_f=0.25),
        simulate=simulate,
    )


@jit
def _td_pairs(
    uniforms: Vector, fresh: Positions, kept: float, rho: float, step: float, gamma: float, slot: Positions,
    rewards: Vector, solution: Vector,
) -> Vector:  # fmt: skip
    """‖Δ‖ of TD on the chain and ‖Δ̃‖ of TD on independent transitions, chain by chain, from the same fresh draws."""
    chains, T, _ = uniforms.shape
    d = len(solution)
    found = np.empty((chains, 2))
    for c in range(chains):
        x, free = np.zeros(d), np.zeros(d)
        after = fresh[c, 0, 0]
        for t in range(T):
            alone = fresh[c, t, 0]
            now = after if t > 0 and uniforms[c, t, 0] < kept else alone
            stays = uniforms[c, t, 1] < rho
            after = now if stays else fresh[c, t, 1]
            alone_after = alone if stays else fresh[c, t, 1]
            x[slot[now]] -= step * (x[slot[now]] - rewards[now] - gamma * x[slot[after]])
            free[slot[alone]] -= step * (free[slot[alone]] - rewards[alone] - gamma * free[slot[alone_after]])
        found[c, 0] = np.sqrt(((x - solution) ** 2).sum())
        found[c, 1] = np.sqrt(((free - solution) ** 2).sum())
    return found


@jit
def _logistic_pairs(
    uniforms: Vector, fresh: Positions, kept: float, step: float, covariates: Vector, solution: Vector
) -> Vector:
    """‖Δ‖ and ‖Δ̃‖ of logistic regression on the unit ball, chain by chain, from the same fresh draws."""
    chains, T, _ = uniforms.shape
    d = len(solution)
    points = np.zeros((2, d))
    states = np.zeros(2, dtype=np.int64)
    found = np.empty((chains, 2))
    for c in range(chains):
        points[:] = 0.0
        for t in range(T):
            alone = fresh[c, t]
            states[0] = states[0] if t > 0 and uniforms[c, t, 0] < kept else alone
            states[1] = alone
            for run in range(2):
                a = covariates[states[run]]
                target = 1.0 if uniforms[c, t, 1] < 1 / (1 + np.exp(-(a * solution).sum())) else 0.0
                x = points[run]
                x -= step * (1 / (1 + np.exp(-(a * x).sum())) - target) * a
                length = np.sqrt((x * x).sum())
                if length > 1.0:
                    x /= length
        for run in range(2):
            found[c, run] = np.sqrt(((points[run] - solution) ** 2).sum())
    return found
