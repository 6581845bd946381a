"""Methods for many machines on a record that is cut into contiguous shards: who minds that neighbours are alike?

One-shot averaging (Zhang, Duchi and Wainwright 2013), the surrogate likelihood CSL (Jordan, Lee and Yang 2019) and
GIANT (Wang, Roosta-Khorasani, Xu and Mahoney 2018), each with two rounds, and ours: rows spread over the record and two
corrections. Features are AR(1). Errors are distances to the fit of all rows, in its standard errors under dependence,
of the worst coordinate; means over seeds with their standard errors. Seeds that the CSV file has are not run again.
Usage: python benchmarks/sticky.py --seeds 30 --out benchmarks/sticky.csv
"""

from __future__ import annotations

import argparse
import csv
import warnings
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
from scipy.signal import lfilter
from scipy.special import expit

import multireplay as mr
from multireplay.show.text import TextTable

ROWS, DIM, SHARDS, ROUNDS = 200_000, 10, 32, 2
RHOS = (0.0, 0.99, 0.999)
MODELS = {"identity": "linear", "logistic": "logistic"}
LOST = 1e3
"""Standard errors from which on a method is lost."""

Array = np.ndarray


class Shard:
    """Some rows, with the gradient and the Hessian of their mean loss."""

    def __init__(self, features: Array, targets: Array, link: str) -> None:
        self.features, self.targets, self.linear = features, targets, link == "identity"

    def gradient(self, x: Array) -> Array:
        scores = self.features @ x
        return (((scores if self.linear else expit(scores)) - self.targets) @ self.features) / len(self.targets)

    def hessian(self, x: Array) -> Array:
        if self.linear:
            return self.features.T @ self.features / len(self.targets)
        chance = expit(self.features @ x)
        return (self.features * (chance * (1 - chance))[:, None]).T @ self.features / len(self.targets)

    def loss(self, x: Array) -> float:
        scores = self.features @ x
        if self.linear:
            return float(np.mean((scores - self.targets) ** 2) / 2)
        return float(np.mean(np.logaddexp(0, scores) - self.targets * scores))

    def minimized(self, x: Array, shift: Array | float = 0.0) -> Array:
        """The least of the loss less a linear function, by Newton's method with steps that are halved."""
        for _ in range(50):
            slope = self.gradient(x) - shift
            move = np.linalg.lstsq(self.hessian(x) + 1e-12 * np.eye(len(x)), slope, rcond=None)[0]
            value, share = self.loss(x) - np.sum(shift * x), 1.0
            while share > 1e-6:
                after = x - share * move
                if self.loss(after) - np.sum(shift * after) <= value - 1e-4 * share * slope @ move:
                    break
                share /= 2
            if share <= 1e-6 or np.abs(share * move).max() <= 1e-10 * (1 + np.abs(x).max()):
                return x
            x = after
        return x


def averaged(shards: list[Shard]) -> Array:
    """One-shot averaging: the mean of the fits of all shards."""
    return np.mean([shard.minimized(np.zeros(DIM)) for shard in shards], axis=0)


def surrogate(shards: list[Shard]) -> Array:
    """CSL: the first shard's loss, its gradient put right by that of all rows, minimized again and again."""
    x = shards[0].minimized(np.zeros(DIM))
    for _ in range(ROUNDS):
        x = shards[0].minimized(x, shards[0].gradient(x) - gradient_of(shards, x))
    return x


def giant(shards: list[Shard]) -> Array:
    """GIANT: the mean of all shards' Newton directions for the gradient of all rows, with a line search."""
    x = averaged(shards)
    for _ in range(ROUNDS):
        gradient = gradient_of(shards, x)
        solved = (np.linalg.lstsq(shard.hessian(x), gradient, rcond=None)[0] for shard in shards)
        move = np.mean(list(solved), axis=0)
        value = np.mean([shard.loss(x) for shard in shards])
        for share in 0.25 ** np.arange(8):
            if np.mean([shard.loss(x - share * move) for shard in shards]) <= value - 0.1 * share * gradient @ move:
                x = x - share * move
                break
    return x


def gradient_of(shards: list[Shard], x: Array) -> Array:
    """That of all rows: shards are of one size."""
    return np.mean([shard.gradient(x) for shard in shards], axis=0)


OTHERS: dict[str, Callable[[list[Shard]], Array]] = {
    "one-shot averaging": averaged,
    "CSL, 2 rounds": surrogate,
    "GIANT, 2 rounds": giant,
}


def record(seed: int, rho: float, link: str) -> tuple[Array, Array]:
    """Features of an AR(1) process and targets of the model."""
    rng = np.random.default_rng(seed)
    noise = np.sqrt(1 - rho**2) * rng.standard_normal((ROWS, DIM))
    features = lfilter([1.0], [1.0, -rho], noise, axis=0, zi=rho * rng.standard_normal((1, DIM)))[0]
    scores = features @ np.linspace(-1, 1, DIM)
    if link == "identity":
        return features, scores + rng.standard_normal(ROWS)
    return features, (rng.random(ROWS) < expit(scores)).astype(float)


def errors(seed: int, rho: float, link: str) -> dict[str, float]:
    """How far every method ends from the fit of all rows."""
    features, targets = record(seed, rho, link)
    buffer, problem = mr.Buffer(features=features, targets=targets), mr.GLM(link)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        fit = mr.solve(problem, buffer, update=mr.Exact())
        cut = zip(np.split(features, SHARDS), np.split(targets, SHARDS), strict=True)
        shards = [Shard(*part, link) for part in cut]
        found = {name: method(shards) for name, method in OTHERS.items()}
        found["ours, 2 corrections"] = mr.solve(problem, buffer, update=mr.Newton(corrections=ROUNDS)).x
        scale = fit.uncertainty.standard_error
    return {name: float(np.abs((x - fit.x) / scale).max()) for name, x in found.items()}


def shown(values: Array) -> str:
    """The mean and its standard error, of those that are not lost, and how many are."""
    kept = values[values < LOST]
    lost = len(values) - len(kept)
    text = f"{kept.mean():.2g}" if len(kept) else ""
    if len(kept) > 1:
        text += f" ± {kept.std(ddof=1) / np.sqrt(len(kept)):.1g}"
    return ", ".join(filter(None, (text, f"{lost} of {len(values)} lost" if lost else "")))


def measured(seeds: int, out: Path | None) -> list[dict[str, str]]:
    """A row for every model, ρ, seed and method: those that the file has, and those that it lacks, which it gets."""
    rows = list(csv.DictReader(out.open(newline=""))) if out is not None and out.exists() else []
    known = {(row["model"], row["rho"], row["seed"]) for row in rows}
    for seed, (link, model), rho in product(range(seeds), MODELS.items(), RHOS):
        key = {"model": model, "rho": f"{rho:g}", "seed": str(seed)}
        if tuple(key.values()) in known:
            continue
        rows += [{**key, "method": name, "error": f"{off:.4g}"} for name, off in errors(seed, rho, link).items()]
        if out is not None:
            with out.open("w", newline="") as file:
                writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)
    return rows


def table_of(runs: list[dict[str, str]]) -> list[dict[str, str]]:
    """The mean over seeds of every model and method, a column for every ρ."""
    found: dict[tuple[str, str], dict[str, list[float]]] = {}
    for run in runs:
        found.setdefault((run["model"], run["method"]), {}).setdefault(run["rho"], []).append(float(run["error"]))
    return [
        {"model": model, "method": method}
        | {f"rho = {rho}": shown(np.nan_to_num(values, nan=np.inf)) for rho, values in by_rho.items()}
        for (model, method), by_rho in sorted(found.items(), key=lambda item: item[0][0])
    ]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=30)
    options.add_argument("--out", type=Path, help="CSV file for what was measured")
    given = options.parse_args()
    rows = table_of(measured(given.seeds, given.out))
    print(f"{ROWS} rows, {DIM} features, {SHARDS} contiguous shards, {given.seeds} seeds")
    print(TextTable(rows, "Standard errors from the exact fit"))


if __name__ == "__main__":
    main()
