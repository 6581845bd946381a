"""How a verdict is put together, and that it takes the standard error into account."""

from __future__ import annotations

import numpy as np
import pytest

from multireplay.bench.claims import combine, fast_claims, mixing_claims
from multireplay.bench.figures import FIGURES
from multireplay.bench.paired import NO, UNTOLD, YES

CANNOT = "cannot be told from 9 instances"
SHARED, OWN = "with one step for all", "with own steps"


@pytest.mark.parametrize(
    ("shared", "best", "verdict"),
    [
        (YES, YES, "holds"),
        (NO, NO, "does not hold"),
        (UNTOLD, UNTOLD, CANNOT),
        (YES, NO, f"holds only {SHARED}"),
        (NO, YES, f"holds only {OWN}"),
        (YES, UNTOLD, f"holds {SHARED}, {CANNOT} {OWN}"),
        (UNTOLD, NO, f"{CANNOT} {SHARED}, does not hold {OWN}"),
    ],
)
def test_combined(shared, best, verdict):
    assert combine({"shared": shared, "best": best}, 9) == verdict


def made_up(ends, noise=0.01, euclidean=None, seed=0):
    """Curves of Figure 2 from an error of 1 down to the ends by method, 0.1 where nothing else is said."""
    rng = np.random.default_rng(seed)
    arrays = {"exact/LSTD": np.full((9, 2), 0.1)}
    for method in FIGURES["fig2a"].methods:
        for panel in ("shared", "best"):
            curves = np.empty((9, 3, 3))
            curves[:, 0] = 2, 8, 32
            for norm, lasts in ((1, ends if euclidean is None else euclidean), (2, ends)):
                last = lasts.get(method.name, 0.1)
                wobble = rng.permuted(np.tile(np.linspace(-1, 1, 9), (3, 1)), axis=1).T  # that leaves the means alone
                curves[:, norm] = np.array([1.0, last**0.5, last]) * (1 + noise * wobble)
            arrays[f"{panel}/{method.name}"] = curves
    return arrays


def verdict(verdicts, words):
    (found,) = (entry for entry in verdicts if words in entry.claim)
    return found


@pytest.mark.parametrize(
    ("ends", "noise", "expected"),
    [
        ({"MER": 0.05}, 0.01, "holds"),
        ({"MER": 0.2}, 0.01, "does not hold"),
        ({"MER": 0.1}, 0.01, CANNOT),
        ({"MER": 0.095}, 0.5, CANNOT),  # below on the average, but by less than is told apart
    ],
)
def test_a_verdict_follows_the_numbers_and_their_noise(ends, noise, expected):
    found = verdict(fast_claims(made_up(ends, noise)), "plateauing")
    assert found.verdict == expected
    assert f"{found.numbers['shared_mer']:.2e} ±" in found.finding
    assert f" In the Euclidean norm: {expected}. MER's last epoch ends at" in found.finding


def test_the_verdict_is_in_the_caption_s_norm():
    found = verdict(fast_claims(made_up({"MER": 0.05}, euclidean={"MER": 0.2})), "plateauing")
    assert found.verdict == "holds"
    mine, beside = found.finding.split(" In the Euclidean norm: does not hold. ")
    assert found.numbers["euclidean_shared_mer"] == pytest.approx(0.2, rel=0.02)
    for text, key in ((mine, "shared_mer"), (beside, "euclidean_shared_mer")):
        assert text.startswith(f"MER's last epoch ends at {found.numbers[key]:.2e} ±")


@pytest.mark.parametrize(
    ("fast", "slow", "expected"),
    [
        ({"skip 50": 0.5}, {"skip 50": 0.5}, "holds"),
        ({"skip 50": 0.5}, {}, "does not hold"),
        ({}, {"skip 5": 0.5, "skip 19": 0.5, "skip 50": 0.5}, "does not hold"),  # of m, but not of the skip
    ],
)
def test_sensitive_to_the_skip_is_tested_by_changing_it(fast, slow, expected):
    assert verdict(mixing_claims(made_up(fast), made_up(slow, seed=1)), "highly sensitive").verdict == expected


def test_similar_and_a_drop_are_of_both_values_of_m():
    found = mixing_claims(made_up({}), made_up({"MER": 0.15, "skip 5": 0.3}, seed=1))
    assert verdict(found, "performs similarly").verdict == "holds"
    assert verdict(found, "marked drop").verdict == "holds"
    found = mixing_claims(made_up({}), made_up({"MER": 0.3}, seed=1))
    assert verdict(found, "performs similarly").verdict == "does not hold"
    assert verdict(found, "marked drop").verdict == "does not hold"
    assert verdict(found, "regardless of the mixing time").verdict == "does not hold"
