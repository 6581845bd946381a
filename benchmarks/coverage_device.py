"""Records of the table of coverage that are drawn on a GPU, for the cells that take hours on two cores.

The rules are those of benchmarks/coverage_worlds.py, with random numbers of their own; `mr.solve` is given the columns
where they are. Only regressions, and only what rivals are made of (three functions of a record) comes back.
Usage: python benchmarks/coverage.py --device cuda --cells "*n = 200000, d = 100"; python benchmarks/coverage_device.py
draws and fits a small record of each kind, on a GPU if there is one.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np
import torch
from coverage_worlds import CURVED, LINKS, LOOKED_AT, Array, Cell, Sample

import multireplay as mr

ROUNDING = 1e-18
"""Terms of an autoregression below it are left out."""
MEANS = {"linear": lambda score: score, "logistic": torch.sigmoid, "Poisson": torch.exp}
SLOPES = {"logistic": lambda score: torch.sigmoid(score) * torch.sigmoid(-score), "Poisson": torch.exp}


class SampleThere(Sample):
    """A record whose columns are on a device."""

    def images(self, x: Array, which: Array) -> tuple[Array, Array]:
        at = self._there(x)
        for _ in range(2 if self.family in CURVED else 1):
            slopes = SLOPES[self.family](self.features @ at)[:, None] if self.family in CURVED else 1.0
            jacobian = (self.features * slopes).T @ self.features
            at = at - torch.linalg.solve(jacobian, self.features.T @ self._errors(at))
        back = torch.linalg.solve(jacobian.T / len(self.features), self._there(which.T))
        images = (self.features @ back) * self._errors(at)[:, None]
        return which @ at.cpu().numpy(), images.cpu().numpy()

    def at_truth(self) -> tuple[Array, Array, Array]:
        errors, squares = self._errors(self._there(self.truth)), self.features[:, :LOOKED_AT] ** 2
        found = (errors @ self.features[:, :LOOKED_AT] / len(errors), errors**2 @ squares / len(errors))
        return found[0].cpu().numpy(), found[1].cpu().numpy(), squares.mean(dim=0).cpu().numpy()

    def _errors(self, x: torch.Tensor) -> torch.Tensor:
        return MEANS[self.family](self.features @ x) - self.columns["targets"]

    def _there(self, numbers: Array) -> torch.Tensor:
        return torch.as_tensor(np.ascontiguousarray(numbers), device=self.features.device)


def drawer(device: str) -> Callable[[Cell, int, int], Sample]:
    """What draws one record of a cell there, for a replication and a seed."""

    def drawn(cell: Cell, replication: int, seed: int) -> Sample:
        if cell.family not in LINKS:
            raise ValueError(f"{cell}: only regressions are drawn on a device")
        number = zlib.crc32(f"{seed} {cell} {replication}".encode())
        return _regression(cell, torch.Generator(device).manual_seed(number))

    return drawn


def _regression(cell: Cell, generator: torch.Generator) -> Sample:
    rows, dim, family = cell.rows, cell.dim, cell.family
    features = _autoregression(generator, rows, dim, cell.rho)
    features[:, 0] = 1.0
    theta = np.full(dim, 1.0 / np.sqrt(dim)) / (2 if family == "Poisson" else 1)
    theta[0] = 0.125 if family == "Poisson" else 0.25
    score = features @ torch.as_tensor(theta, device=features.device)
    slow = _autoregression(generator, rows, 1, cell.rho)[:, 0]
    if family == "logistic":
        targets = (torch.special.ndtr(slow) > torch.sigmoid(-score)).to(torch.float64)
    elif family == "Poisson":
        targets = torch.poisson(torch.exp(score + 0.5 * slow - 0.125), generator=generator)
    else:
        targets = score + slow
    columns = {"features": features, "targets": targets}
    return SampleThere(mr.GLM(LINKS[family]), columns, theta, np.eye(dim), features, family)


def _autoregression(generator: torch.Generator, rows: int, dim: int, rho: float) -> torch.Tensor:
    """Stationary AR(1) processes of variance 1: Σ_s ρ^s e_{t−s}, by doubling the number of terms."""
    found = torch.randn(rows, dim, generator=generator, device=generator.device, dtype=torch.float64)
    found[1:] *= (1 - rho**2) ** 0.5
    lag = 1
    while lag < rows and rho**lag > ROUNDING:
        found[lag:] += rho**lag * found[:-lag].clone()
        lag *= 2
    return found


def main() -> None:
    drawn = drawer("cuda" if torch.cuda.is_available() else "cpu")
    for family in LINKS:
        cell = Cell(family, 0.9, 20_000, 5)
        sample = drawn(cell, 0, 1)
        x = mr.solve(sample.problem, mr.Buffer(**sample.columns)).x
        print(f"{cell}: fit {np.round(x, 2)}, truth {np.round(sample.truth, 2)}")


if __name__ == "__main__":
    main()
