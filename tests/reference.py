"""Short literal versions of the algorithms, written from the paper and sharing no code with the package."""

from __future__ import annotations

import math

import numpy as np

LINKS = {
    "identity": lambda z: z,
    "logistic": lambda z: 1 / (1 + math.exp(-z)),
    "probit": lambda z: 0.5 * (1 + math.erf(z / math.sqrt(2))),
    "exp": math.exp,
    "softplus": lambda z: math.log(1 + math.exp(z)),
    "leaky_relu": lambda z: z if z > 0 else 0.01 * z,
}


def glm_operator(link):
    f = LINKS.get(link, link)
    return lambda x, a, y: a * (f(float(a @ x)) - y)


def td_operator(gamma):
    def operator(theta, now, then, reward, terminated=False):
        bootstrap = 0.0 if terminated else gamma * (then @ theta)
        return (now @ theta - reward - bootstrap) * now

    return operator


def static_mer(samples, operator, step, epochs, x0, project=lambda x: x):
    """Algorithm 1 without the deletion: the last iterate and the average of every epoch."""
    found = []
    for k in range(1, epochs + 1):
        x, iterates = np.array(x0, dtype=float), []
        for t in range(1, 2**k + 1):
            sample = samples[(t * len(samples)) // 2**k - 1]
            x = project(x - step * operator(x, *sample))
            iterates.append(x)
        found.append((x, np.mean(iterates, axis=0)))
    return found


def online_mer(stream, capacity, operator, step, epochs, x0, project=lambda x: x):
    """Algorithm 1 as printed, on a list that really deletes: yields (k, t, iterate) after every step."""
    stream = iter(stream)
    memory = [next(stream) for _ in range(capacity)]
    for k in range(1, epochs + 1):
        x = np.array(x0, dtype=float)
        for t in range(1, 2**k + 1):
            index = (t * capacity) // 2**k - 1
            x = project(x - step * operator(x, *memory[index]))
            del memory[index]
            memory.append(next(stream))
            yield k, t, x.copy()


def bit_reversed(bits):
    """0, …, 2^bits − 1 in bit-reversed order."""
    return [int(format(i, f"0{bits}b")[::-1], 2) if bits else 0 for i in range(2**bits)]
