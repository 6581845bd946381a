"""Small streams as lists of events, each a row, a block of rows or a gap, of which stores are made in tests."""

from __future__ import annotations

import numpy as np

import multireplay as mr


def regression(rows: int, seed: int = 0, link: str = "identity"):
    """A problem and its events: single rows and blocks of all sizes."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((rows, 3))
    targets = features @ [1.0, -2.0, 0.5] + rng.standard_normal(rows)
    if link == "logistic":
        targets = (targets > 0) * 1.0
    events, at = [], 0
    while at < rows:
        count = int(rng.choice([1, 1, 1, 7, 40]))
        part = slice(at, min(at + count, rows))
        if count == 1:
            events.append({"features": features[at], "targets": targets[at]})
        else:
            events.append({"features": features[part], "targets": targets[part]})
        at = part.stop
    return mr.GLM(link), events


def steps(rows: int, seed: int = 0):
    """Policy evaluation from single steps of two groups, with gaps."""
    rng = np.random.default_rng(seed)
    events: list = []
    for _ in range(rows):
        state = {"features": rng.standard_normal(2), "rewards": float(rng.standard_normal())}
        events.append({**state, "group": int(rng.integers(2))})
        if rng.random() < 0.05:
            events.append(int(rng.integers(2)) if rng.random() < 0.5 else None)
    return mr.PolicyEvaluation(0.5), events


def give(stream, event) -> None:
    """Let a stream have an event."""
    if isinstance(event, dict):
        if np.ndim(event["features"]) == 2:
            stream.observe_many(event)
        else:
            stream.observe(**event)
    else:
        stream.break_here(event)


def feed(stream, events, stop: int | None = None) -> None:
    """Give a stream the events of which it has not all rows, as somebody does who begins again from `position`."""
    at = 0
    for event in events[:stop]:
        count = 0
        if isinstance(event, dict):
            count = len(event["features"]) if np.ndim(event["features"]) == 2 else 1
        if at >= stream.position if not count else at + count > stream.position:
            give(stream, event if at >= stream.position else {**event, "position": at})
        at += count
