"""scikit-learn's stochastic gradient descent, with its defaults and with shuffling and averaging."""

from __future__ import annotations

from typing import Any

import numpy as np

from multireplay.compare.methods.base import TAIL, Answer, Case, Method
from multireplay.compare.methods.rows import lost
from multireplay.compare.worlds import World
from multireplay.problems import GLM


def is_known_to_sklearn(world: World) -> bool:
    """Least squares and logistic regression on 0/1 targets."""
    return isinstance(world.problem, GLM) and world.problem.link.name in ("identity", "logistic")


def _fit(case: Case, **options: Any) -> Answer:
    from sklearn.linear_model import SGDClassifier, SGDRegressor

    features, targets = case.record["features"], case.record["targets"]
    link = case.world.problem.link.name  # type: ignore[attr-defined]
    kind = SGDClassifier if link == "logistic" else SGDRegressor
    loss = "log_loss" if link == "logistic" else "squared_error"
    try:
        model = kind(loss=loss, random_state=case.seed, **options).fit(features, targets)
    except ValueError:  # it raises where its numbers overflow
        return Answer(lost(features.shape[1]), float("nan"))
    return Answer(np.ravel(model.coef_), model.n_iter_ * case.length)


def defaults(case: Case, step: float | None) -> Answer:
    """As it comes, but for the loss: an intercept, a penalty of 1e-4, its own steps, passes until it stops."""
    return _fit(case)


def shuffled_and_averaged(case: Case, step: float | None) -> Answer:
    """One shuffled pass at a constant step, no penalty or intercept, the average of the last 7/8 of the iterates."""
    first = int((1 - TAIL) * case.length) + 1
    size = (0.5 if step is None else step) * case.unit
    return _fit(
        case,
        penalty=None,
        fit_intercept=False,
        learning_rate="constant",
        eta0=size,
        average=first,
        max_iter=1,
        tol=None,
    )


METHODS = (
    Method(
        "scikit-learn SGD", defaults, published="its defaults", tuned=False, works_on=is_known_to_sklearn,
        note="with an intercept and a penalty, as it comes; passes until it stops by itself",
    ),
    Method(
        "scikit-learn SGD, shuffle + average", shuffled_and_averaged, published="", works_on=is_known_to_sklearn,
        note="constant step, one pass",
    ),
)  # fmt: skip
