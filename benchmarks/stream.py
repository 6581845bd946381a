"""A stream that never ends, learnt by `multireplay.Stream` and by others: prequential error and time a row.

Every row is predicted before it is learnt. Regression: the root mean square of prediction less noise-free mean, so
that 0 is the truth and nothing is hidden under the noise; beside it the plain squared error over the noise's. Policy
evaluation: the root mean square of the value of the row's state less its true value. Steps, rates of forgetting and
priors of rivals are the best of a grid on other seeds, world by world; ours has no knob. What takes long is tuned on
one of those streams, and scikit-learn's step by the loop that takes the same steps. Worlds of more coordinates than
`Stream` keeps matrices for are shorter. Times are of this process, the shortest of all streams of a world.

    OMP_NUM_THREADS=1 python benchmarks/stream.py --worlds "slow drift" --out benchmarks/stream.csv
    python docs/build_stream.py

River, scikit-learn and vowpalwabbit have to be installed, or `--slow 0` leaves them out.
"""

from __future__ import annotations

import argparse
import csv
import math
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numba
import numpy as np

import multireplay as mr
from multireplay.show.text import TextTable

WIDTH, WIDE, WIDE_ROWS = 20, 600, 5000
GAMMA = 0.9
FADES = (0.9999, 0.9997, 0.999, 0.997, 0.99)
PRIORS = (1e-3, 0.1, 1.0, 10.0, 100.0)
FIRST = 400
"""The seeds that are reported begin here; others were used for everything that was chosen."""
STEPS = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)


@dataclass
class Rows:
    """What a world gives: columns, and the truth of every row that predictions are compared with."""

    features: np.ndarray
    targets: np.ndarray
    truth: np.ndarray
    next_features: np.ndarray | None = None
    noise: float = 1.0


def regression(seed: int, rows: int, rho: float, drift: str = "none", width: int = WIDTH) -> Rows:
    """y = aᵀx_t + noise, with AR(rho) features a; x is constant, switches half-way, or is a slow random walk."""
    rng = np.random.default_rng(seed)
    fresh = rng.standard_normal((rows, width)) * math.sqrt(1 - rho**2)
    fresh[0] /= math.sqrt(1 - rho**2)
    features = _autoregressive(fresh, rho)
    x = np.tile(rng.standard_normal(width) / math.sqrt(width), (rows, 1))
    if drift == "switch":
        x[rows // 2 :] = rng.standard_normal(width) / math.sqrt(width)
    if drift == "slow":
        x += np.cumsum(rng.standard_normal((rows, width)), axis=0) / math.sqrt(width) * 3 / math.sqrt(rows)
    truth = (features * x).sum(axis=1)
    return Rows(features, truth + rng.standard_normal(rows), truth)


def chain(seed: int, rows: int, stay: float, switch: bool = False) -> Rows:
    """A random chain of 100 states that stays where it is with that chance, 20 features; the policy may change."""
    rng = np.random.default_rng(seed)
    count = 100
    psi = np.column_stack([rng.standard_normal((count, WIDTH - 1)), np.ones(count)]) / math.sqrt(WIDTH)
    parts = []
    for length in (rows // 2, rows - rows // 2) if switch else (rows,):
        moves = rng.dirichlet(np.full(count, 0.1), size=count)
        kernel = stay * np.eye(count) + (1 - stay) * moves
        reward = rng.standard_normal(count)
        values = psi @ _projected(psi, kernel, reward)
        states = _walk(np.cumsum(kernel, axis=1), rng.random(length + 1))
        noise = rng.standard_normal(length)
        parts.append((psi[states[:-1]], reward[states[:-1]] + noise, values[states[:-1]], psi[states[1:]]))
    return Rows(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def _projected(psi: np.ndarray, kernel: np.ndarray, reward: np.ndarray) -> np.ndarray:
    """The solution of the projected Bellman equation, weighted by how often states are visited."""
    values, vectors = np.linalg.eig(kernel.T)
    visits = np.abs(np.real(vectors[:, np.argmax(np.real(values))]))
    weighted = psi * (visits / visits.sum())[:, None]
    return np.linalg.solve(weighted.T @ (psi - GAMMA * kernel @ psi), weighted.T @ reward)


@numba.njit
def _autoregressive(fresh, rho):
    for t in range(1, len(fresh)):
        fresh[t] += rho * fresh[t - 1]
    return fresh


@numba.njit
def _walk(cumulated, chances):
    states = np.zeros(len(chances), dtype=np.int64)
    for t in range(1, len(chances)):
        states[t] = min(np.searchsorted(cumulated[states[t - 1]], chances[t]), cumulated.shape[0] - 1)
    return states


WORLDS: dict[str, Callable[[int, int], Rows]] = {
    "regression, rho 0": lambda seed, rows: regression(seed, rows, 0.0),
    "regression, rho .9": lambda seed, rows: regression(seed, rows, 0.9),
    "regression, rho .99": lambda seed, rows: regression(seed, rows, 0.99),
    "regression, rho .999": lambda seed, rows: regression(seed, rows, 0.999),
    "regression, switch": lambda seed, rows: regression(seed, rows, 0.9, "switch"),
    "regression, slow drift": lambda seed, rows: regression(seed, rows, 0.9, "slow"),
    "regression, 600 coordinates, rho 0": lambda seed, rows: regression(seed, rows, 0.0, width=WIDE),
    "regression, 600 coordinates, rho .9": lambda seed, rows: regression(seed, rows, 0.9, width=WIDE),
    "regression, 600 coordinates, rho .99": lambda seed, rows: regression(seed, rows, 0.99, width=WIDE),
    "values, stay .5": lambda seed, rows: chain(seed, rows, 0.5),
    "values, stay .95": lambda seed, rows: chain(seed, rows, 0.95),
    "values, policy switches": lambda seed, rows: chain(seed, rows, 0.5, switch=True),
}


@numba.njit
def _recursive(features, following, targets, fade, prior):
    """Recursive least squares, or recursive LSTD where there are next features, with forgetting."""
    n, d = features.shape
    inverse, x, out = np.eye(d) / prior, np.zeros(d), np.zeros(n)
    for t in range(n):
        a = features[t]
        b = a - following[t]
        out[t] = a @ x
        left, right = inverse @ a, b @ inverse
        gain = left / (fade + right @ a)
        x = x + gain * (targets[t] - b @ x)
        inverse = (inverse - np.outer(gain, right)) / fade
    return out


@numba.njit
def _steps(features, following, targets, step, averaged):
    """TD(0), or SGD where there are no next features, with a constant step and, if asked for, the average."""
    n, d = features.shape
    x, mean, out = np.zeros(d), np.zeros(d), np.zeros(n)
    for t in range(n):
        a = features[t]
        out[t] = a @ (mean if averaged else x)
        x = x - step * ((a - following[t]) @ x - targets[t]) * a
        mean = mean + (x - mean) / (t + 1)
    return out


def of_arrays(loop, *options):
    def run(world: Rows) -> np.ndarray:
        following = np.zeros_like(world.features) if world.next_features is None else GAMMA * world.next_features
        return loop(world.features, following, world.targets, *options)

    return run


def ours(world: Rows) -> np.ndarray:
    """Row by row, as somebody would who predicts each before it is learnt."""
    problem = mr.GLM() if world.next_features is None else mr.PolicyEvaluation(GAMMA)
    stream, out = mr.Stream(problem), np.zeros(len(world.targets))
    for t in range(len(out)):
        row = world.features[t]
        if t:
            out[t] = stream.predict(row)
        if world.next_features is None:
            stream.observe(features=row, targets=world.targets[t])
        else:
            stream.observe(features=row, next_features=world.next_features[t], rewards=world.targets[t])
    return out


def river(step: float):
    def run(world: Rows) -> np.ndarray:
        from river import linear_model, optim

        model = linear_model.LinearRegression(optimizer=optim.SGD(step), intercept_lr=0.0)
        out = np.zeros(len(world.targets))
        for t, (row, target) in enumerate(zip(world.features.tolist(), world.targets.tolist(), strict=True)):
            named = dict(enumerate(row))
            out[t] = model.predict_one(named)
            model.learn_one(named, target)
        return out

    return run


def scikit(step: float):
    def run(world: Rows) -> np.ndarray:
        from sklearn import config_context
        from sklearn.linear_model import SGDRegressor

        model = SGDRegressor(alpha=0, learning_rate="constant", eta0=step, fit_intercept=False)
        out = np.zeros(len(world.targets))
        with config_context(assume_finite=True, skip_parameter_validation=True):  # half the time
            for t in range(len(out)):
                row = world.features[t : t + 1]
                out[t] = model.predict(row)[0] if t else 0.0
                model.partial_fit(row, world.targets[t : t + 1])
        return out

    return run


def vowpal(step: float):
    def run(world: Rows) -> np.ndarray:
        from vowpalwabbit import Workspace

        model = Workspace(f"--quiet --noconstant -l {step} --power_t 0")
        out = np.zeros(len(world.targets))
        for t, (row, target) in enumerate(zip(world.features.tolist(), world.targets.tolist(), strict=True)):
            text = " ".join(f"f{i}:{value:.9g}" for i, value in enumerate(row))
            example = model.parse(f"{target:.9g} | {text}")
            out[t] = model.predict(example)
            model.learn(example)
            model.finish_example(example)
        model.finish()
        return out

    return run


GRIDS: dict[str, dict[str, Callable[[Rows], np.ndarray]]] = {
    "recursive least squares / LSTD": {"": of_arrays(_recursive, 1.0, 1e-3)},
    "… with the best prior": {f"{prior:g}": of_arrays(_recursive, 1.0, prior) for prior in PRIORS},
    "… with forgetting, best rate and prior": {
        f"{fade:g}, {prior:g}": of_arrays(_recursive, fade, prior) for fade in FADES for prior in (1e-3, 10.0)
    },
    "SGD / TD(0), best step": {f"{step:g}": of_arrays(_steps, step, False) for step in STEPS},
    "… averaged, best step": {f"{step:g}": of_arrays(_steps, step, True) for step in STEPS},
}
WIDE_PRIORS, WIDE_STEPS = (30.0, 100.0, 300.0, 1000.0, 3000.0), (3e-3, 1e-3, 3e-4, 1e-4, 3e-5)
GRIDS_WIDE: dict[str, dict[str, Callable[[Rows], np.ndarray]]] = {
    "recursive least squares / LSTD, best prior": {
        f"{prior:g}": of_arrays(_recursive, 1.0, prior) for prior in WIDE_PRIORS
    },
    "… with forgetting, best rate and prior": {
        f"{fade:g}, {prior:g}": of_arrays(_recursive, fade, prior)
        for fade in (0.9999, 0.999)
        for prior in (100.0, 1000.0)
    },
    "SGD / TD(0), best step": {f"{step:g}": of_arrays(_steps, step, False) for step in WIDE_STEPS},
    "… averaged, best step": {f"{step:g}": of_arrays(_steps, step, True) for step in WIDE_STEPS},
    "scikit-learn partial_fit, best step": {f"{step:g}": scikit(step) for step in WIDE_STEPS},
}
SLOW: dict[str, dict[str, Callable[[Rows], np.ndarray]]] = {
    "River, SGD, best step": {f"{step:g}": river(step) for step in STEPS[2:]},
    "scikit-learn partial_fit, best step": {f"{step:g}": scikit(step) for step in STEPS},
    "Vowpal Wabbit, best step": {f"{step:g}": vowpal(step) for step in STEPS},
}


def error(world: Rows, predictions: np.ndarray) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        found = math.sqrt(float(np.mean(np.square(predictions - world.truth))))
    return found if math.isfinite(found) else math.inf


def prequential(world: Rows, predictions: np.ndarray) -> float:
    """Mean squared error of predicting the target over the noise's."""
    if world.next_features is not None:
        return math.nan
    return float(np.mean(np.square(predictions - world.targets)) / np.mean(np.square(world.truth - world.targets)))


def best_of(grid: dict, worlds: list[Rows]) -> str:
    """The setting of the smallest error."""
    if len(grid) == 1:
        return next(iter(grid))
    return min(grid, key=lambda name: np.mean([error(world, grid[name](world)) for world in worlds]))


def setting_of(method: str, grid: dict, worlds: list[Rows]) -> str:
    """The setting of a method that is best on these worlds."""
    if method == "scikit-learn partial_fit, best step":
        return best_of({step: of_arrays(_steps, float(step), False) for step in grid}, worlds)
    return best_of(grid, worlds[:1] if method in SLOW else worlds)


def measured(name: str, rows: int, seeds: int, methods: dict) -> list[dict]:
    """One line a method: its error, over that of the best rival, and the time a row."""
    make, lines = WORLDS[name], []
    tuning = [make(1000 + seed, rows) for seed in range(2)]
    worlds = [make(FIRST + seed, rows) for seed in range(seeds)]
    for method, grid in {"multireplay.Stream": {"": ours}, **methods}.items():
        setting, found, seconds = setting_of(method, grid, tuning), [], []
        grid[setting](make(1000, 300))  # compiles
        for world in worlds:
            began = time.process_time()
            predictions = grid[setting](world)
            seconds.append((time.process_time() - began) / rows * 1e6)
            found.append((error(world, predictions), prequential(world, predictions)))
        errors, losses = np.array(found).T
        lines.append({
            "world": name, "rows": rows, "method": method, "setting": setting, "error": float(errors.mean()),
            "standard error": float(errors.std(ddof=1) / math.sqrt(seeds)), "prequential": float(losses.mean()),
            "microseconds a row": float(np.min(seconds)), "errors": errors,
        })  # fmt: skip
    best = min(lines[1:], key=lambda line: line["error"])
    for line in lines:
        line["over the best"] = line["error"] / best["error"]
        ratios = line["errors"] / best["error"] - best["errors"] * line["error"] / best["error"] ** 2
        line["its standard error"] = float(ratios.std(ddof=1) / math.sqrt(seeds))
    return [{key: value for key, value in line.items() if key != "errors"} for line in lines]


def speed(rows: int = 400_000, repeats: int = 5) -> Iterator[dict[str, str]]:
    """Times of this process a row, in memory, the best of a few: in blocks, one by one, and predicted before."""
    plain, counts = regression(0, rows, 0.0), np.random.default_rng(1).poisson
    world = {
        "regression": (mr.GLM(), plain),
        "logistic": (mr.GLM("logistic"), replace(plain, targets=(plain.targets > 0).astype(np.float64))),
        "Poisson": (mr.GLM("exp"), replace(plain, targets=counts(np.exp(plain.truth / 2)).astype(np.float64))),
        "values": (mr.PolicyEvaluation(GAMMA), chain(0, rows, 0.5)),
    }
    for name, (problem, some) in world.items():
        columns = {"features": some.features, ("rewards" if name == "values" else "targets"): some.targets}
        if some.next_features is not None:
            columns["next_features"] = some.next_features
        few = [{key: column[t] for key, column in columns.items()} for t in range(1000, 6000)]
        times = np.full((repeats, 3), np.inf)
        for turn in times:
            stream, marks = mr.Stream(problem), [time.process_time()]
            stream.observe_many(columns)
            marks.append(time.process_time())
            stream = mr.Stream(problem)
            stream.observe_many({key: column[:1000] for key, column in columns.items()})
            marks.append(time.process_time())
            for row in few:
                stream.observe(**row)
            marks.append(time.process_time())
            for row in few:
                stream.predict(row["features"])
                stream.observe(**row)
            marks.append(time.process_time())
            turn[:] = (marks[1] - marks[0]) / rows, (marks[3] - marks[2]) / len(few), (marks[4] - marks[3]) / len(few)
        block, one, both = times.min(axis=0)
        yield {
            "world": name, "rows a second in blocks": f"{1 / block:,.0f}", "observe, µs": f"{1e6 * one:.1f}",
            "predict and observe, µs": f"{1e6 * both:.1f}",
        }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--slow", type=int, default=1, help="0 leaves out River, scikit-learn and Vowpal Wabbit")
    parser.add_argument("--worlds", default="", help="those whose name has this in it")
    parser.add_argument("--speed", action="store_true", help="times a row in memory, and no more")
    parser.add_argument("--out", default="", help="a file in which the lines of these are replaced")
    given = parser.parse_args()
    if given.speed:
        return print(TextTable(list(speed())))
    lines = []
    for name in (name for name in WORLDS if given.worlds in name):
        wide = "coordinates" in name
        grids = GRIDS | SLOW if given.slow and "regression" in name else GRIDS
        lines += measured(name, WIDE_ROWS if wide else given.rows, given.seeds, GRIDS_WIDE if wide else grids)
    shown = [
        {key: f"{value:.4g}" if isinstance(value, float) else str(value) for key, value in line.items()}
        for line in lines
    ]
    print(TextTable(shown))
    if given.out:
        path, done = Path(given.out), {(line["world"], line["rows"]) for line in shown}
        kept = list(csv.DictReader(path.open(newline=""))) if path.exists() else []
        shown += [line for line in kept if (line["world"], line["rows"]) not in done and line.keys() == shown[0].keys()]
        shown.sort(key=lambda line: (list(WORLDS).index(line["world"]), -int(line["rows"])))
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(shown[0]))
            writer.writeheader()
            writer.writerows(shown)
    return None


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
