"""The entry function and what it says."""

from __future__ import annotations

import json
import math
from dataclasses import FrozenInstanceError
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import lfilter

from multireplay.buffer import Buffer
from multireplay.diagnose import diagnose, integrated_autocorrelation_time
from multireplay.errors import InputError

ROWS = 6000
RNG = np.random.default_rng(11)
NOISE = RNG.standard_normal((ROWS, 4))
SLOW = lfilter([1.0], [1.0, -0.9], NOISE[:, 0])
FEATURES = np.column_stack([np.ones(ROWS), NOISE[:, 1], SLOW])
RECORD = {"features": FEATURES, "rewards": NOISE[:, 2], "terminated": NOISE[:, 3] > 1}


def words(text):
    return " ".join(str(text).split())


def test_entries_are_the_estimates():
    d = diagnose(RECORD)
    assert [c.name for c in d.columns] == ["features", "rewards", "terminated"]
    features, rewards, terminated = d.columns
    slow, fast = integrated_autocorrelation_time(SLOW), integrated_autocorrelation_time(NOISE[:, 1])
    assert (features.width, features.worst_feature, features.examined, features.constant) == (3, 2, 3, 1)
    assert features.tau_max == pytest.approx(slow)
    assert features.tau_median == pytest.approx((slow + fast) / 2)
    assert features.ess == pytest.approx(ROWS / slow)
    assert rewards.tau_max == rewards.tau_median == pytest.approx(1, abs=0.2)
    assert terminated.width == 1
    assert (d.rows, d.tau, d.ess) == (ROWS, features.tau_max, features.ess)
    assert d.slowest is features
    assert features.label == "features[2]"
    assert rewards.label == "rewards"
    assert d.reliable


def test_buffers_mappings_and_bare_arrays_agree():
    from_mapping = diagnose(RECORD)
    assert diagnose(SimpleNamespace(columns=RECORD)) == from_mapping
    bare = diagnose(FEATURES)
    assert bare.columns[0].name == "series"
    assert bare.tau == from_mapping.tau
    labelled = SimpleNamespace(columns=["a", "b", "c"], __array__=None)
    with pytest.raises(InputError, match="series"):
        diagnose(labelled)
    assert diagnose(SLOW.tolist()).tau == pytest.approx(bare.tau)


def test_features_go_by_their_names():
    names = ("one", "fast", "slow")
    frame = pd.DataFrame(FEATURES, columns=names)
    for source in ({"features": frame}, Buffer(features=FEATURES, names=names), frame):
        found = diagnose(source)
        assert found.slowest.label == found.slowest.worst_name == "slow"
        assert "The slowest column (slow) has" in found.sentence
        assert "| slow |" in str(found)
        assert "[2]" not in str(found)
        assert found.to_dict()["columns"][0]["worst_name"] == "slow"
        assert found.tau == diagnose(FEATURES).tau
    later = diagnose(Buffer(features=FEATURES[:, :2], next_features=FEATURES[:, 1:], names=["one", "fast"]))
    assert later.slowest.label == "next fast"
    some = diagnose(Buffer(features=FEATURES[:, [2, 1, 0]], names=["a", "b", "c"]), max_features=2)
    assert some.slowest.label == "a"
    assert diagnose(Buffer(features=scipy.sparse.csr_array(FEATURES), names=names)).slowest.label == "slow"
    with pytest.raises(InputError, match="'features', feature 'fast', is nan at row 9"):
        diagnose({"features": frame.assign(fast=np.where(frame.index == 9, np.nan, frame.fast))})


def test_long_names_do_not_break_the_table():
    names = ["a_name_" * 9, "b", "c"]
    text = str(diagnose(Buffer(features=FEATURES[:, [2, 1, 0]], names=names)))
    assert max(map(len, text.splitlines())) <= 90
    assert "a_name_" in text


def test_extra_series_are_examined_like_columns():
    d = diagnose({"rewards": NOISE[:, 2]}, extra={"operator": FEATURES * 2})
    assert d.slowest.label == "operator[2]"
    with pytest.raises(InputError, match="extra series 'rewards'"):
        diagnose(RECORD, extra={"rewards": SLOW})
    with pytest.raises(InputError, match=r"'operator' has 10 rows and 'features' has 6000"):
        diagnose(RECORD, extra={"operator": SLOW[:10]})


@settings(max_examples=15, deadline=None)
@given(order=st.permutations(range(3)), columns=st.permutations(list(RECORD)))
def test_order_of_columns_and_features_changes_only_the_labels(order, columns):
    shuffled = {**RECORD, "features": FEATURES[:, order]}
    d, reference = diagnose({name: shuffled[name] for name in columns}), diagnose(RECORD)
    assert d.tau == pytest.approx(reference.tau)
    assert d.slowest.tau_median == pytest.approx(reference.slowest.tau_median)
    assert order[d.slowest.worst_feature] == 2


def test_many_features_are_sampled_evenly_and_the_text_says_so():
    wide = RNG.standard_normal((400, 200))
    column = diagnose(wide).columns[0]
    assert (column.width, column.examined) == (200, 64)
    assert "64 of 200" in str(diagnose(wide))
    assert "max_features=None" in words(diagnose(wide))
    assert "feature examined (series[" in diagnose(wide).sentence
    everything = diagnose(wide, max_features=None)
    assert everything.columns[0].examined == 200
    assert "max_features" not in str(everything)
    assert everything.tau >= column.tau_max
    ends = np.ones((400, 11))
    ends[:, -1] = SLOW[:400]
    assert diagnose(ends, max_features=2).columns[0].worst_feature == 10
    assert diagnose(ends, max_features=1).columns[0].worst_feature is None


def test_constant_columns_are_shown_and_left_out():
    d = diagnose({"bias": np.full(ROWS, 0.1), "rewards": SLOW})
    assert math.isnan(d.columns[0].tau_max)
    assert d.columns[0].worst_feature is None
    assert d.slowest.name == "rewards"
    assert any(line.startswith("| bias") and "constant" in line for line in str(d).splitlines())
    alone = diagnose(np.ones((50, 2)))
    assert math.isnan(alone.tau)
    assert math.isnan(alone.ess)
    assert "constant" in alone.sentence


def test_to_dict_is_json():
    d = diagnose({**RECORD, "bias": np.ones(ROWS)})
    back = json.loads(json.dumps(d.to_dict(), allow_nan=False))
    assert back["rows"] == ROWS
    assert back["tau"] == d.tau
    assert back["sentence"] == d.sentence
    assert back["columns"][0]["worst_feature"] == 2
    assert back["columns"][3]["tau_max"] is None


def test_results_cannot_be_changed():
    d = diagnose(RECORD)
    with pytest.raises(FrozenInstanceError):
        d.rows = 3
    with pytest.raises(FrozenInstanceError):
        d.columns[0].ess = 3.0


def spoiled(value, row, feature):
    wide = FEATURES.copy()
    wide[row, feature] = value
    return {"features": wide}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({}, "no columns"),
        ([], "'series' has 0 rows; at least 4"),
        ({"rewards": [1.0, 2.0, 3.0]}, "'rewards' has 3 rows; at least 4"),
        ({"x": np.zeros((9, 0))}, "'x' has no features"),
        ({"x": np.zeros((9, 2, 2))}, "'x' has 3 axes"),
        (3.0, "'series' has 0 axes"),
        ({"x": ["a", "b", "c", "d"]}, "'x' holds <U1"),
        ({"x": np.ones(9, dtype=complex)}, "'x' holds complex128"),
        ({"x": [[1.0], [1.0, 2.0], [], []]}, "'x' cannot be read"),
        ({"x": np.ones(9), "y": np.ones(8)}, "'y' has 8 rows and 'x' has 9"),
        ({"x": [0, 1, np.inf, 3, np.nan]}, "'x' is inf at row 2"),
        (spoiled(np.nan, 4321, 1), "'features', feature 1, is nan at row 4321"),
        (spoiled(-np.inf, ROWS - 1, 2), "'features', feature 2, is -inf at row 5999"),
    ],
)
def test_bad_input_is_named(source, message):
    with pytest.raises(InputError, match=message):
        diagnose(source)


def test_a_bad_value_is_found_far_down_a_large_column():
    tall = np.zeros(2**22 + 5, dtype=np.float32)
    tall[-2] = np.nan
    with pytest.raises(InputError, match=f"row {2**22 + 3}"):
        integrated_autocorrelation_time(tall)


def test_bad_options_are_named():
    with pytest.raises(InputError, match="max_features is 0"):
        diagnose(RECORD, max_features=0)
    for c in (0.0, -1.0, math.nan):
        with pytest.raises(InputError, match="c is"):
            integrated_autocorrelation_time(SLOW, c=c)
