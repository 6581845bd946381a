"""Streams with a known truth, and the exact fit of everything seen."""

from __future__ import annotations

import itertools

import numpy as np
from scipy.signal import lfilter

import multireplay as mr

LINKS = {"identity": lambda z: z, "logistic": lambda z: 1 / (1 + np.exp(-z)), "exp": np.exp}


def sticky(rng, shape, rho):
    """Stationary AR(rho) series, a column each, of variance 1."""
    fresh = rng.standard_normal(shape) * np.sqrt(1 - rho**2)
    fresh[0] /= np.sqrt(1 - rho**2)
    return lfilter([1.0], [1.0, -rho], fresh, axis=0)


def regression(seed, rows, link="identity", rho=0.0, width=4, x=None):
    """Columns of a GLM with an intercept, and the truth."""
    rng = np.random.default_rng(seed)
    A = np.column_stack([sticky(rng, (rows, width - 1), rho), np.ones(rows)])
    x = rng.standard_normal(width) / np.sqrt(width) if x is None else x
    mean = LINKS[link](A @ x)
    y = {
        "identity": lambda: mean + rng.standard_normal(rows),
        "logistic": lambda: (rng.random(rows) < mean) * 1.0,
        "exp": lambda: rng.poisson(mean) * 1.0,
    }[link]()
    return {"features": A, "targets": y}, x


def transitions(seed, rows, states=10, width=4):
    """A chain's transitions with random features."""
    rng = np.random.default_rng(seed)
    kernel = 0.5 * np.eye(states) + 0.5 * rng.dirichlet(np.ones(states), size=states)
    path = [0]
    for chance in rng.random(rows):
        path.append(min(int(np.searchsorted(np.cumsum(kernel[path[-1]]), chance)), states - 1))
    psi, reward = rng.standard_normal((states, width)), rng.standard_normal(states)
    at = np.array(path)
    return {"features": psi[at[:-1]], "next_features": psi[at[1:]], "rewards": reward[at[:-1]]}


def exact(problem, columns, rows=None):
    """The exact fit of the first rows."""
    return problem.fit_exactly(mr.Buffer(**{name: column[:rows] for name, column in columns.items()}))


def part(columns, start, stop):
    return {name: column[start:stop] for name, column in columns.items()}


def fed(stream, columns, cuts=()):
    """The stream, after rows in blocks that end at `cuts`."""
    total = len(next(iter(columns.values())))
    edges = [0, *sorted(cuts), total]
    for start, stop in itertools.pairwise(edges):
        if stop > start:
            stream.observe_many(part(columns, start, stop))
    return stream


def same(one, other):
    """Whether two states have the same bits."""
    assert one.keys() == other.keys()
    for name, value in one.items():
        if isinstance(value, np.ndarray):
            assert value.dtype == other[name].dtype, name
            assert np.array_equal(value, other[name], equal_nan=True), name
        else:
            assert value == other[name], name
    return True
