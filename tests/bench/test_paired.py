"""Differences instance by instance, against their standard error."""

from __future__ import annotations

import numpy as np
import pytest

from multireplay.bench.paired import FAR_OFF, NO, UNTOLD, YES, MeanError, Paired, told, told_apart


def test_told_by_two_standard_errors():
    values = np.array([1.0, 2.0, 3.0])  # mean 2, standard error 0.577
    assert told(values) == YES
    assert told(-values) == NO
    assert told(values - 1) == UNTOLD
    assert told(np.array([[1.0, -3.0, 9.0], [1.1, -3.1, -9.0]])).tolist() == [YES, NO, UNTOLD]
    assert told(np.array([5.0])) == UNTOLD  # one instance says nothing of the next


def test_a_pair_tells_more_than_two_samples():
    rng = np.random.default_rng(0)
    common = rng.standard_normal(20)
    more, less = common + 0.1 + 0.01 * rng.standard_normal(20), common
    assert told(more - less) == YES
    assert told_apart(more, less) == UNTOLD
    assert told_apart(more + 5, less) == YES
    assert told_apart(less, more + 5) == NO


def test_the_right_share_of_false_alarms():
    """Of differences that are none, about 5 % are called one."""
    rng = np.random.default_rng(1)
    found = told(rng.standard_normal((50, 4000)))
    assert (found != UNTOLD).mean() == pytest.approx(0.05, abs=0.015)


def paired(**methods):
    """Curves of three instances, a little apart; each method by its points (iterations, error)."""
    arrays = {}
    for name, points in methods.items():
        at, errors = np.array(points).T
        scale = np.array([0.99, 1.0, 1.01])[:, None]
        arrays[f"shared/{name}"] = np.stack([np.tile(at, (3, 1)), scale * errors, 10 * scale * errors], axis=1)
    return arrays


def test_questions_to_curves():
    arrays = paired(a=[(1, 1.0), (4, 0.25), (16, 0.5)], b=[(1, 1.0), (8, 1 / 8)])
    curves = Paired(arrays, 1)
    assert curves.count == 3
    assert curves.end("shared", "a") == pytest.approx(0.5)
    assert Paired(arrays, 2).end("shared", "a") == pytest.approx(5.0)
    mine, theirs = curves.both("shared", "a", "b")  # b is 1/T
    assert mine[1] == pytest.approx([1.0, 0.25])
    assert theirs[1] == pytest.approx([1.0, 0.25])
    assert curves.highest_ratio("shared", "b", "a") == pytest.approx(1.0)
    assert curves.ends_below("shared", "b", "a") == YES
    assert curves.ends_below("shared", "a", "b") == NO
    assert curves.ends_below("shared", "a", "b", factor=5) == YES
    assert curves.stays_within("shared", "a", "b", 1.5) == YES
    assert curves.stays_within("shared", "a", "b", 1.0) == UNTOLD  # the same curve
    assert curves.stays_within("shared", "a", "b", 0.5) == NO


def test_a_share_of_the_points():
    points = [(2**k, 1.0) for k in range(8)]
    curves = Paired(paired(a=[(t, 0.5 if t < 64 else 2.0) for t, _ in points], b=points), 1)
    assert curves.mostly_below("shared", "a", "b", 0.75) == (YES, 0.75)
    assert curves.mostly_below("shared", "a", "b", 0.8)[0] == NO
    assert curves.mostly_below("shared", "b", "b", 0.5)[0] == UNTOLD


def test_a_diverged_run_is_far_off():
    arrays = paired(a=[(1, 1.0), (4, np.inf)], b=[(1, 1.0), (4, 0.5)])
    arrays["shared/a"][1, 1, 1] = np.nan
    curves = Paired(arrays, 1)
    assert curves.end("shared", "a") == FAR_OFF
    assert curves.ends_below("shared", "b", "a") == YES


def test_a_mean_writes_its_standard_error():
    assert f"{MeanError.of(np.array([1.0, 2.0, 3.0])):m}" == "2.00e+00 ± 6e-01"
    assert f"{MeanError.of(np.array([2.0])):m}" == "2.00e+00"
    assert f"{MeanError.of(np.array([2.0, 2.0])):.1f}" == "2.0"
