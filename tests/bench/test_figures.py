"""MER's error beside that of independent samples, at small size."""

from __future__ import annotations

import numpy as np
import pytest

from multireplay.bench.figures import error_curve, policy_evaluation
from multireplay.bench.methods.library import INDEPENDENT, MER

LENGTH, CAP, INSTANCES = 2**15, 0.5, 12


@pytest.mark.parametrize("m", [0.9, 0.95])
def test_mer_follows_the_independent_curve_and_with_one_constant_step_it_does_not(m):
    """After every epoch, in the Euclidean norm, the mean over instances is at most 1.5 times the i.i.d. error."""
    doubling = 2 ** np.arange(1, 16)
    found: dict[str, list[np.ndarray]] = {"own rule": [], "constant": [], "i.i.d.": []}
    for instance in range(INSTANCES):
        case = policy_evaluation(m, LENGTH, (2718, instance), instance)
        for name, method, step in (
            ("own rule", MER, "auto"),
            ("constant", MER, CAP),
            ("i.i.d.", INDEPENDENT, CAP),
        ):
            found[name].append(error_curve(case, method, step, lambda length: doubling, averaged=True)[1])
    errors = {name: np.mean(curves, axis=0) for name, curves in found.items()}
    assert (errors["own rule"] / errors["i.i.d."]).max() < 1.5
    assert errors["constant"][-1] > 10 * errors["i.i.d."][-1]
    assert errors["own rule"][-1] < 1.1 * errors["own rule"].min()  # the last epoch is the best
