"""The exact bits that named replay orders with given steps find, frozen, to compare a refactoring with the code before.

A case is one run with an order and a step of its own. Kept are hashes of its answer and of the last and the average
iterates of its epochs, and the steps they took. Problems meet orders in memory and on disk; backends, shapes, sets,
numbers, threads, averages and steps are dealt out such that any two that go together meet somewhere.
Bits depend on the processor and on the versions of Numba and NumPy, which are kept too.
Usage: python benchmarks/goldens.py freeze|compare benchmarks/goldens.json [--only SUBSTRING]
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import math
import os
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import combinations, pairwise, product
from pathlib import Path
from typing import Any

import llvmlite.binding
import numba
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.signal import lfilter
from scipy.sparse import csr_array
from threadpoolctl import threadpool_limits

PACKAGE = Path(importlib.util.find_spec("multireplay").origin).parent
DIGEST = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(PACKAGE.rglob("*.py")))).hexdigest()[:16]
os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(__file__).parents[1] / ".numba_cache" / f"goldens-{DIGEST}"))
numba.config.reload_config()  # loops cached from other sources would hide a change: Numba looks at one file only

import multireplay as mr  # noqa: E402

MEMORY, NPY, PARQUET = "memory", "npy", "parquet"
STATES, AGAIN = 50, "GOLDENS_AGAIN"


def mirrored(x: Any, sample: Any) -> Any:
    """An operator of the user's, on a row or a batch of them."""
    return x - sample + 0.5 * x[..., ::-1]


@numba.njit
def mirrored_in_place(x, sample, out):
    for j in range(x.shape[0]):
        out[j] = x[j] - sample[j] + 0.5 * x[x.shape[0] - 1 - j]


mirrored_jitted = numba.njit(mirrored)
bent = numba.njit(lambda z: math.atan(z) + 0.1 * z)


class Level(mr.sets.Set):
    """Vectors of equal entries: a set of the user's own."""

    def project(self, x: Any) -> None:
        x[:] = x.mean()


def theorem_1() -> Any:
    return mr.steps.Theorem1(mr.theory.Constants(mu=1, L=1, L1=1, sigma=1, zeta=1, C_M=1, C_P=1, rho=0.5, D=1))


def slopes(dim: int) -> Any:
    return np.linspace(1, -0.8, dim)


def table(dim: int, share: float) -> Any:
    """Features of every state, that share of them not zero."""
    rng = np.random.default_rng(dim)
    return np.where(rng.random((STATES, dim)) < share, rng.standard_normal((STATES, dim)), 0)


PROBLEMS = {
    "glm-identity": "GLM()", "glm-logistic": "GLM('logistic')", "glm-logistic-weights": "GLM('logistic')",
    "glm-logistic-ridge": "GLM('logistic', ridge=0.3, unpenalized=1)",
    "glm-logistic-sparse": "GLM('logistic')", "glm-jitted-link": "GLM(bent)", "glm-python-link": "GLM(bent.py_func)",
    "pe": "PolicyEvaluation(0.9)", "pe-apart": "PolicyEvaluation(0.9)", "pe-terminated": "PolicyEvaluation(0.9)",
    "pe-sparse": "PolicyEvaluation(0.9)", "pe-table": "PolicyEvaluation(0.9, table=table(dim, 1))",
    "pe-sparse-table": "PolicyEvaluation(0.9, table=csr_array(table(dim, 0.2)))",
    "vi-python": "VariationalInequality(mirrored, dim)", "vi-jitted": "VariationalInequality(mirrored_in_place, dim)",
    "vi-batched": "VariationalInequality(mirrored, dim, batched=True)",
}  # fmt: skip
FEW_TIMES = {
    "vi-jitted-returned": "VariationalInequality(mirrored_jitted, dim)", "glm-softplus": "GLM('softplus')",
    "glm-exp": "GLM('exp')", "glm-ridge": "GLM(ridge=0.3)", "pe-ridge": "PolicyEvaluation(0.9, ridge=0.3)",
}  # fmt: skip
ALL = "Multiscale(phases='all')"
FEW = ("Multiscale()", ALL, "Interleaved(gap=100)", "Serial()", "Dyadic()")
ORDERS = (
    *FEW, "Interleaved()", "Multiscale(phases=3)", "Multiscale(phases=3, sweep=True)", "Multiscale(epochs=6)",
    "Skip(7)", "Interleaved(gap=1)", "Reverse(16, gap=4)", "Uniform(seed=3)", "Shuffle(seed=3)",
)  # fmt: skip
ON_DISK = (
    "glm-identity", "glm-logistic-weights", "glm-jitted-link", "glm-python-link", "pe", "pe-terminated",
    "pe-table", "pe-sparse-table", "vi-jitted", "vi-batched",
)  # fmt: skip
NARROW = ("glm-identity", "glm-logistic", "pe")
"""Problems that are run in float32 too; each one more takes long to compile."""
FACTORS: dict[str, tuple[Any, ...]] = {
    "backend": ("auto", "compiled", "python", "batched"),
    "shape": ((16, 5003), (8, 4096), (3, 1000), (33, 1000), (20, 1024), (1, 1000), (16, 4096)),
    "constraint": (
        "WholeSpace()", "Ball(0.8)", "Box(-0.3, 0.5)", "NonNegative()", "Simplex(2.0)", "L1Ball(1.5)",
        "Halfspace(slopes(dim), 0.3)", "Product((Ball(0.5), dim - dim // 2), (NonNegative(), dim // 2))",
    ),
    "numbers": ("float64", "iterates float32", "data float32", "all float32"),
    "threads": (1, 2),
    "average": (0.5, "none", "full", "weighted"),
    "step": ("0.02", "(0.03, 0.01)", "Decaying(mu=0.5, t0=200)", "theorem_1()"),
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One run, in words that it is made by; `given` is a further argument of solve, x0 or track."""

    problem: str
    order: str
    where: str = MEMORY
    backend: str = "auto"
    shape: tuple[int, int] = (3, 1000)
    constraint: str = "WholeSpace()"
    numbers: str = "float64"
    threads: int = 2
    average: Any = 0.5
    step: str = "0.02"
    update: str = "Plain()"
    given: str = ""

    def __str__(self) -> str:
        parts = [f"{self.problem} d={self.shape[0]} n={self.shape[1]}", self.order, self.constraint.split("(")[0]]
        parts += [self.backend, self.where, f"threads {self.threads}", f"step {self.step}", f"average {self.average}"]
        unusual = [text for text in (self.numbers, self.update, self.given) if text not in ("float64", "Plain()", "")]
        return " | ".join(parts + unusual)

    def is_quick(self) -> bool:
        """Whether it does not take long, and is not known to be refused."""
        python, lanes = "python" in self.problem, self.problem == "vi-batched"
        alone = python or self.problem.startswith("vi-jitted") or "sparse" in self.problem or "table" in self.problem
        slow = self.backend in ("python", "batched")
        return not (
            (self.backend == "compiled" and (python or lanes))
            or (self.backend == "batched" and (alone or (self.where != MEMORY and not lanes)))
            or (self.shape[1] > 1024 and (python or lanes or slow))
            or (self.shape[0] == 1 and self.constraint.startswith("Product"))
            or (self.numbers != "float64" and self.problem not in NARROW)
            or (self.numbers in ("iterates float32", "all float32") and slow)
        )


def dealt(runs: Iterable[tuple[str, str, str]]) -> Iterator[Case]:
    """A case for each problem, order and place, with those levels of the factors that have met them least so far."""
    met: Counter[Any] = Counter()

    def times(case: Case, names: list[str], factor: str) -> tuple[int, int]:
        found = [met[name, getattr(case, name), factor, getattr(case, factor)] for name in names]
        return -found.count(0), sum(found)

    for run in runs:
        case, names = Case(*run), ["problem", "order", "where"]
        for factor, levels in FACTORS.items():
            options = [one for level in levels if (one := replace(case, **{factor: level})).is_quick()]
            case = min(options, key=partial(times, names=names, factor=factor))
            names.append(factor)
        met.update((a, getattr(case, a), b, getattr(case, b)) for a, b in combinations(names, 2))
        yield case


def each(**levels: Iterable[Any]) -> Iterator[Case]:
    return (Case(**dict(zip(levels, chosen, strict=True))) for chosen in product(*levels.values()))


def singled_out() -> Iterator[Case]:
    """What needs a shape, a step, an update or an argument of its own. Some of these are refused."""
    glm, pe, vi, multiscale = ["glm-logistic"], ["pe"], ["vi-jitted"], ["Multiscale()"]
    yield from each(problem=("glm-identity", *pe, *vi), order=[ALL], where=(MEMORY, NPY), shape=[(16, 300_000)])
    yield from each(problem=("vi-python", *vi, "vi-batched"), order=[ALL], where=(MEMORY, NPY), shape=[(1500, 1000)])
    sparse = "glm-logistic-sparse", "pe-sparse", "pe-sparse-table"
    yield from each(problem=sparse, order=[ALL], where=(MEMORY, NPY), shape=[(200, 20_000)])
    yield from each(problem=(*glm, *pe), order=ORDERS[::2], where=[PARQUET], shape=[(16, 80_001)])
    stored = "glm-identity", "pe-apart", "pe-terminated", "pe-table", *vi
    yield from each(problem=stored, order=(ALL, "Skip(7)"), where=[PARQUET], shape=[(16, 80_001)])
    yield from each(problem=("glm-logistic-ridge", "pe-apart", "vi-python"), order=FEW, where=[NPY])
    yield from each(problem=["glm-identity"], order=ORDERS[-2:], where=[NPY])
    narrow, rare = ("iterates float32", "all float32"), ("Multiscale()", "Interleaved()", "Dyadic()", *ORDERS[-2:])
    yield from each(problem=pe, order=rare, shape=((1, 1000), (20, 1024)), numbers=narrow)
    for problem in ("glm-identity", "pe", "pe-sparse", "pe-table", "vi-batched"):
        yield from each(problem=[problem], order=FEW[:3], step=["5.0"])
        yield from each(problem=[problem], order=FEW[1:3], constraint=["NonNegative()"], given=["x0"])
    for backend, where in (["python"], [MEMORY]), (["batched"], [MEMORY]), (["auto"], [NPY]):
        yield from each(problem=pe, order=FEW[:2], backend=backend, where=where, step=["5.0"])
        yield from each(problem=glm, order=FEW[:2], backend=backend, where=where, given=("x0", "track"))
    reduced = (f"VarianceReduced(rounds=1, precondition={rank})" for rank in (None, 2))
    for update in (["RichardsonRomberg()"], *([one] for one in reduced)):
        yield from each(problem=(*glm, *pe), order=("Dyadic()", ALL), shape=[(8, 4096)], update=update)
        yield from each(problem=["glm-logistic-weights", *vi], order=multiscale, where=(MEMORY, NPY), update=update)
        yield from each(problem=["pe-sparse"], order=["Shuffle(seed=3)"], shape=[(33, 1000)], update=update)
        yield from each(problem=pe, order=["Interleaved(gap=100)"], backend=("python", "batched"), update=update)
        yield from each(problem=glm, order=["Dyadic()"], constraint=["Ball(0.8)"], update=update)
    streamed, ball = (*glm, "pe-table", *vi), ["Ball(0.8)"]
    yield from each(problem=streamed, order=["Online(256)"], backend=("auto", "python"), constraint=ball)
    yield from each(problem=streamed, order=["Online(100, repeat_last=True)"], average=["weighted"])
    yield from each(problem=(*glm, *vi), order=[ALL], constraint=ball, numbers=["all float32"])
    yield from each(problem=(*glm, *vi), order=[ALL], constraint=["Level()"], backend=("auto", "compiled"))
    yield from each(problem=("vi-python", "pe-sparse"), order=multiscale, backend=("compiled", "batched"))
    yield from each(problem=(*glm, "pe-sparse"), order=multiscale, where=[NPY], backend=["batched"])
    yield from each(problem=("pe-sparse", "vi-python", *vi), order=multiscale, numbers=["iterates float32"])
    yield from each(problem=pe, order=multiscale, backend=("python", "batched"), numbers=["iterates float32"])


def cases() -> dict[str, Case]:
    """All of them by name, in alphabetical order."""
    in_memory = *product(PROBLEMS, ORDERS, [MEMORY]), *product(FEW_TIMES, FEW, [MEMORY])
    found = [*dealt([*in_memory, *product(ON_DISK, ORDERS[:12], [NPY])]), *singled_out()]
    return dict(sorted((str(case), case) for case in found))


@lru_cache(6)
def columns_of(problem: str, dim: int, rows: int, data: str) -> tuple[dict[str, Any], Any]:
    """The columns of a record, and its features with one row more: autoregressive, each at its own pace."""
    rng = np.random.default_rng([dim, rows])
    noise = rng.standard_normal((dim, rows + 100))
    F = np.array([lfilter([np.sqrt(1 - a * a)], [1, -a], noise[j]) for j, a in enumerate(np.linspace(0.95, 0.5, dim))])
    F = np.ascontiguousarray(F.T[99:], dtype=data)
    if "sparse" in problem:
        F = csr_array(np.where(rng.random(F.shape) < 0.3, F, 0))
    A, scores, errors = F[:-1], F[:-1] @ slopes(dim), rng.standard_normal(rows)
    if problem.startswith("vi"):
        return {"samples": A + slopes(dim).astype(data)}, F
    if "table" in problem:
        s = np.cumsum(rng.integers(-1, 2, rows + 1)) % STATES
        return {"states": s[:-1], "next_states": s[1:], "rewards": np.sin(s[:-1]) + errors}, F
    if problem.startswith("pe"):
        following = F[1:].copy() if "apart" in problem else F[1:]
        ended = {"terminated": rng.random(rows) < 0.05} if "terminated" in problem else {}
        return {"features": A, "next_features": following, "rewards": np.tanh(scores) + errors, **ended}, F
    targets = scores + errors
    if "logistic" in problem:
        targets = (rng.random(rows) < 1 / (1 + np.exp(-scores))).astype(float)
    if "exp" in problem:
        targets = rng.poisson(np.exp(np.tanh(scores))).astype(float)
    weights = {"weights": rng.integers(0, 4, rows).astype(float)} if "weights" in problem else {}
    return {"features": A, "targets": targets, **weights}, F


@lru_cache(6)
def buffer_of(problem: str, shape: tuple[int, int], data: str, where: str, folder: Path) -> Any:
    """The record, in memory or with too little memory to be loaded."""
    columns, F = columns_of(problem, *shape, data)
    if where == MEMORY:
        return mr.Buffer(**columns)
    path, chosen = folder / f"{problem} {shape} {data}.{where}", {name: name for name in columns}
    if problem in ("pe", "pe-terminated"):  # the next features are the features one row on, as in memory
        longer = {name: np.append(column, column[:1]) for name, column in columns.items() if column.ndim == 1}
        columns, chosen = {"psi": F, **longer}, {**chosen, "features": "psi", "next_features": ("psi", 1)}
    if where == NPY:
        mr.Buffer(**columns).save(path)  # refused where they are sparse
        size = sum(column.nbytes for column in columns.values())
        return mr.Buffer.open(path, chosen, memory=int(1.2 * size) + 2000)
    lists = pa.FixedSizeListArray.from_arrays
    arrays = {name: pa.array(c) if c.ndim == 1 else lists(c.ravel(), c.shape[1]) for name, c in columns.items()}
    pq.write_table(pa.table(arrays), path, row_group_size=2000)
    return mr.Buffer.open(path, chosen, memory="19 MB")


def run(case: Case, folder: Path) -> tuple[Any, Any]:
    """The answer and the epochs."""
    dim, narrow = case.shape[0], case.numbers.replace("all", "data iterates")
    data, precision = (f"float{32 if what in narrow else 64}" for what in ("data", "iterates"))
    buffer = buffer_of(case.problem, case.shape, data, case.where, folder)
    known = {
        **{name: getattr(mr, name) for name in mr.__all__},
        **vars(mr.sets),
        **vars(mr.steps),
        **globals(),
        "dim": dim,
    }
    problem = eval((PROBLEMS | FEW_TIMES)[case.problem], known)
    options = {"step": eval(case.step, known), "constraint": eval(case.constraint, known)}
    options |= {"average": case.average, "backend": case.backend}
    if case.order.startswith("Online"):
        online = eval(case.order, {"Online": partial(mr.Online, problem, **options)})
        for first, last in pairwise([*range(300), *range(300, 1001, 100)]):  # one by one, then in blocks
            if not online.done:
                online.observe(**{name: column[first:last] for name, column in buffer.columns.items()})
        return online.x, online.epochs
    if case.given:
        options[case.given] = np.linspace(0.05, 0.2, dim)
    options |= {"update": eval(case.update, known), "threads": case.threads, "precision": precision}
    result = mr.solve(problem, buffer, replay=eval(case.order, known), **options)
    return result.x, result.epochs


def outcome(case: Case, folder: Path) -> dict[str, Any]:
    """What is kept of a case. The length of x shows how far apart answers of different bits are."""
    try:
        x, epochs = run(case, folder)
    except Exception as error:
        refused, said = isinstance(error, mr.InputError), str(error).replace(str(folder), "...")
        return {"refused": said} if refused else {"error": f"{type(error).__name__}: {said}"}
    arrays = {"x": [x], "last": [epoch.last for epoch in epochs], "average": [epoch.average for epoch in epochs]}
    hashes = {name: hashlib.sha256(np.concatenate(a).tobytes()).hexdigest()[:16] for name, a in arrays.items()}
    counts = {"taken": [int(one.taken) for one in epochs], "diverged": [int(one.diverged) for one in epochs]}
    return {**hashes, **counts, "length": math.hypot(*np.asarray(x).tolist())}


def outcomes(only: str) -> dict[str, dict[str, Any]]:
    """What is kept of all cases with that in their names, where the compiled loops come from the cache.

    A loop can find other last bits in the process that compiles it than in those that read it from the cache.
    """
    began, chosen = time.perf_counter(), {name: case for name, case in cases().items() if only in name}
    cached = len(list(Path(numba.config.CACHE_DIR).rglob("*.nbc")))
    with tempfile.TemporaryDirectory() as folder, threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {name: outcome(case, Path(folder)) for name, case in chosen.items()}
    print(f"{len(found)} cases in {time.perf_counter() - began:.0f} s", flush=True)
    if cached != len(list(Path(numba.config.CACHE_DIR).rglob("*.nbc"))) and AGAIN not in os.environ:
        print("Some loops were compiled on the way: once more, with all of them from the cache", flush=True)
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, AGAIN: "1"})
    return found


def machine() -> dict[str, str]:
    """What bits depend on besides the code."""
    info = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next((line.split(":")[1].strip() for line in info if line.startswith("model name")), "unknown")
    cpu = f"{model} ({llvmlite.binding.get_host_cpu_name()})"
    return {"cpu": cpu, "numba": numba.__version__, "numpy": np.__version__}


def freeze(path: Path, only: str) -> None:
    """Write the file, a case a line; with `only`, the others in it stay as they are."""
    kept = json.loads(path.read_text())["cases"] if only and path.exists() else {}
    found = sorted({**kept, **outcomes(only)}.items())
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(kept)}" for name, kept in found)
    path.write_text(f'{{\n"machine": {json.dumps(machine())},\n"cases": {{\n{lines}\n}}\n}}\n')


def verdict(old: dict[str, Any] | None, new: dict[str, Any] | None) -> tuple[str, str]:
    """What has become of a case, and why. A refusal in other words is the same."""
    if old is None or new is None:
        return ("not frozen" if old is None else "no longer a case"), ""
    for key, now in ("error", "fails"), ("refused", "refused"):
        if (key in new) != (key in old):
            return (f"{now} now", new[key]) if key in new else (f"no longer {now}", old[key])
    different = [key for key in new if key not in ("length", "refused") and new[key] != old[key]]
    lengths = f"; ‖x‖ {old['length']!r}, now {new['length']!r}" if "length" in new else ""
    return ("differs", ", ".join(different) + lengths) if different else ("same", "")


def compare(path: Path, only: str) -> bool:
    """Print what differs; whether nothing does."""
    frozen = json.loads(path.read_text())
    for name, now in machine().items():
        if (then := frozen["machine"][name]) != now:
            print(f"Warning: frozen with {name} {then}, this is {now}, and bits may differ for that alone")
    old, new = {name: kept for name, kept in frozen["cases"].items() if only in name}, outcomes(only)
    verdicts = {name: verdict(old.get(name), new.get(name)) for name in sorted({*old, *new})}
    for name, (what, why) in sorted(verdicts.items(), key=lambda item: item[1][0]):
        if what != "same":
            print(f"{what:18} {name}\n{'':18} {why}")
    counts = Counter(what for what, _ in verdicts.values())
    print(", ".join(f"{what}: {count}" for what, count in counts.most_common()))
    return set(counts) <= {"same"}


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("what", choices=("freeze", "compare"))
    options.add_argument("path", type=Path)
    options.add_argument("--only", default="", metavar="SUBSTRING", help="only the cases with this in their names")
    given = options.parse_args()
    print(f"multireplay from {PACKAGE}", flush=True)
    if given.what == "compare":
        sys.exit(0 if compare(given.path, given.only) else 1)
    freeze(given.path, given.only)
