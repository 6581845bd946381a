"""What a stream makes of names, dates, positions and groups, and of what cannot be read at all."""

from __future__ import annotations

import json
import warnings
from datetime import UTC, date, datetime

import numpy as np
import pandas as pd
import pytest
from streaming.worlds import same

import multireplay as mr
from multireplay.errors import InputError

RNG = np.random.default_rng(5)
A = RNG.standard_normal((80, 2))
Y = A @ [3.0, -1.0] + 0.1 * RNG.standard_normal(80)


@pytest.fixture(params=["given", "of the first frame", "of the first row"])
def stream(request):
    """A stream of the features a and b."""
    found = mr.Stream(mr.GLM(), names=["a", "b"] if request.param == "given" else None)
    if request.param == "of the first row":
        found.observe(features=pd.Series(A[0], index=["a", "b"]), targets=Y[0])
    found.observe_many(features=pd.DataFrame(A, columns=["a", "b"])[found.position :], targets=Y[found.position :])
    return found


def test_features_are_read_by_name(stream):
    plain = mr.Stream(mr.GLM())
    plain.observe_many(features=A, targets=Y)
    frame = pd.DataFrame(A, columns=["a", "b"])[["b", "a"]]
    assert np.array_equal(stream.predict(frame), plain.predict(A))
    assert np.array_equal(stream.predict(frame.iloc[3]), plain.predict(A[3]))
    for one, features in ((stream, frame), (plain, A)):
        one.observe_many(features=features, targets=Y)
        one.observe(features=features.iloc[5] if one is stream else features[5], targets=Y[5])
    assert np.array_equal(stream.x, plain.x)
    assert stream.result().names == ("a", "b")
    numbered = pd.DataFrame(A)
    assert np.array_equal(stream.predict(numbered), plain.predict(A))


def test_other_names_are_refused(stream):
    before = stream.state()
    words = r"features' lacks 'b' and has 'c': the features of the stream are 'a', 'b'"
    for features in (pd.DataFrame({"a": [1.0], "c": [2.0]}), pd.Series({"a": 1.0, "c": 2.0})):
        with pytest.raises(InputError, match=words):
            stream.predict(features)
        with pytest.raises(InputError, match=f"column '{words}"):
            stream.observe(features=features, targets=[1.0] if features.ndim == 2 else 1.0)
    with pytest.raises(InputError, match="'features' has 'c': the features"):
        stream.predict(pd.Series({"a": 1.0, "c": 2.0, "b": 0.0}))
    assert same(stream.state(), before)


def test_frames_of_other_libraries_are_read_by_name():
    pa = pytest.importorskip("pyarrow")
    stream = mr.Stream(mr.GLM(), names=["a", "b"])
    stream.observe_many(features=pa.table({"b": A[:, 1], "a": A[:, 0]}), targets=Y)
    assert stream.x == pytest.approx([3, -1], abs=0.1)


def test_next_features_are_read_by_name():
    stream, plain = mr.Stream(mr.PolicyEvaluation(0.5)), mr.Stream(mr.PolicyEvaluation(0.5))
    frame = pd.DataFrame(A, columns=["a", "b"])
    rows = {"features": frame[:-1], "rewards": Y[:-1], "next_features": frame[["b", "a"]][1:]}
    stream.observe_many(rows)
    plain.observe_many(features=A[:-1], rewards=Y[:-1], next_features=A[1:])
    assert np.array_equal(stream.x, plain.x)


@pytest.mark.parametrize("features", [[1.0, 2.0, 3.0], [[1.0]], 1.0, np.zeros((1, 1, 2))])
def test_predict_names_the_widths(stream, features):
    with pytest.raises(InputError, match="rows of 2 features, as the stream has them, not of shape"):
        stream.predict(features)
    for strange in (["a", 2.0], [[1.0, 2.0], [3.0]], None):
        with pytest.raises(InputError):
            stream.predict(strange)


@pytest.mark.parametrize("position", [float("nan"), 1.5, -1, "a", True, [1]])
@pytest.mark.parametrize("bad", [None, "quarantine"])
def test_a_position_is_a_whole_number(tmp_path, position, bad):
    stream = mr.Stream(mr.GLM(), store=None if bad is None else tmp_path / "run", bad=bad)
    with pytest.raises(InputError, match="position must be a whole number of at least 0, not"):
        stream.observe(features=[1.0], targets=1.0, position=position)
    assert stream.observe(features=[1.0], targets=1.0, position=np.int64(0)) == stream.position == 1


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("group", ["x", 1.5, 2**70, True, [1]])
def test_a_gap_is_in_a_group_that_has_a_number(tmp_path, kept, group):
    stream = mr.Stream(mr.PolicyEvaluation(0.5), store=tmp_path / "run" if kept else None)
    with pytest.raises(InputError, match="group must be a whole number of 64 bits, not"):
        stream.break_here(group)
    stream.break_here(np.int64(-3))


DAY = 1_577_836_800.0
"""2020-01-01 in seconds since 1970."""


@pytest.mark.parametrize(
    "when",
    [
        "2020-01-01", b"1577836800", DAY, np.datetime64("2020-01-01"), np.datetime64("2020-01-01T00:00", "ns"),
        np.datetime64("2020"), date(2020, 1, 1), datetime(2020, 1, 1), datetime(2020, 1, 1, tzinfo=UTC),
        pd.Timestamp("2020-01-01"), pd.Timestamp("2020-01-01 01:00", tz="Europe/Berlin"), "2020-01-01T02:00+02:00",
        pd.Series(pd.to_datetime(["2020-01-01"])), pd.Series(["2020-01-01"]), np.array(["2020-01-01"], "datetime64[s]"),
    ],
    ids=str,
)  # fmt: skip
def test_dates_are_seconds_since_1970(when):
    stream = mr.Stream(mr.GLM(), clock="time")
    stream.observe(features=[1.0], targets=1.0, time=when)
    assert stream._intake.times == {0: DAY}


def test_what_is_no_time_is_refused():
    stream = mr.Stream(mr.GLM(), clock="time")
    for when in ("noon", np.datetime64("NaT"), pd.NaT, 1j, np.timedelta64(1, "s"), object(), [[1.0], [2.0, 3.0]]):
        with pytest.raises(InputError, match="time"):
            stream.observe(features=[1.0], targets=1.0, time=when)
    assert stream.position == 0


STRANGE = {
    "ragged": {"features": [[1.0, 2.0], [3.0]], "targets": [1.0, 2.0], "time": [3.0, 4.0]},
    "a number": {"features": 1.0, "targets": 1.0, "time": 3.0},
    "bytes": {"features": b"abc", "targets": 1.0, "time": 3.0},
    "lengths": {"features": [[1.0, 2.0], [1.0, 2.0]], "targets": [1.0], "time": [3.0, 4.0]},
    "noon": {"features": [1.0, 2.0], "targets": 1.0, "time": "noon"},
    "object": {"features": [1.0, object()], "targets": 1.0, "time": 3.0},
    "large": {"features": [1, 10**400], "targets": 1.0, "time": 3.0},
    "a dictionary": {"features": {"a": 1.0}, "targets": 1.0, "time": 3.0},
    "group": {"features": [1.0, 2.0], "targets": 1.0, "time": 3.0, "group": "x"},
    "nothing": {},
    "None": {"features": None, "targets": None, "time": None},
    "one time": {"features": [[1.0, 2.0], [3.0, 4.0]], "targets": [1.0, 2.0], "time": 3.0},
}


@pytest.mark.parametrize("name", STRANGE)
def test_what_cannot_be_read_is_refused_or_put_aside_once(tmp_path, name):
    rows = {"features": [[1.0, 2.0], [2.0, 2.0]], "targets": [1.0, 2.0], "time": [1.0, 2.0]}
    stream = mr.Stream(mr.GLM(), clock="time")
    stream.observe_many(rows)
    before = stream.state()
    with pytest.raises(InputError):
        stream.observe(**STRANGE[name])
    assert same(stream.state(), before)
    with mr.Stream(mr.GLM(), clock="time", store=tmp_path / "run", bad="quarantine") as kept:
        kept.observe_many(rows)
        assert kept.observe(**STRANGE[name]) == 1
        assert kept.observe(**STRANGE[name], position=3) == 1
        assert (kept.position, kept.quarantined) == (4, 2)
        assert kept.observe(features=[0.0, 1.0], targets=1.0, time=9.0) == 1
        assert np.isfinite(kept.x).all()
    lines = [json.loads(line) for line in (tmp_path / "run" / "quarantine.ndjson").read_text().splitlines()]
    assert [line["position"] for line in lines] == [2, 3]
    assert lines[0]["row"].keys() == STRANGE[name].keys()


def test_a_block_with_a_column_that_is_not_known_is_put_aside_row_by_row(tmp_path):
    stream = mr.Stream(mr.GLM(), store=tmp_path / "run", bad="quarantine")
    assert stream.observe_many(features=A[:5], targets=Y[:5], colour="red") == 5
    assert (stream.position, stream.quarantined) == (5, 5)


def test_observe_many_takes_a_dictionary():
    for columns in ([1], {1: [2.0]}, "features"):
        with pytest.raises(InputError, match="takes a dictionary of columns by name"):
            mr.Stream(mr.GLM()).observe_many(columns)


def test_one_step_is_no_transition():
    stream = mr.Stream(mr.PolicyEvaluation(0.5))
    assert str(stream.status) == "No row has come yet."
    stream.observe(features=[1.0], rewards=1.0)
    assert str(stream.status) == "A transition needs two steps, one after the other, and none is whole yet."
    with pytest.raises(InputError, match="A transition needs two steps"):
        stream.predict([1.0])


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_short_floats_are_read_without_a_warning(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stream = mr.Stream(mr.GLM())
        stream.observe_many(features=np.ones((3, 2), kind), targets=np.ones(3, kind))
    assert stream.position == 3
