"""Groups and gaps in time: nothing is measured across the border of two chains."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from scipy.signal import lfilter

import multireplay as mr
from multireplay.diagnose.autocorrelation import autocorrelation
from multireplay.diagnose.chains import pairs


def slow(rng, *shape):
    return lfilter([1.0], [1.0, -0.9], rng.standard_normal(shape), axis=0)


def test_autocorrelations_are_of_pairs_within_chains():
    x = slow(np.random.default_rng(1), 57)
    lengths = (20, 1, 33, 3)
    ends = np.cumsum(lengths)
    y = x - x.mean()
    chains = np.split(y, ends[:-1])
    found = autocorrelation(x, 30, lengths)
    for lag in range(31):
        sums = sum(chain[lag:] @ chain[: len(chain) - lag] for chain in chains if len(chain) > lag)
        count = sum(max(len(chain) - lag, 0) for chain in chains)
        assert pairs(lengths)[lag] == count
        assert found[lag] == pytest.approx(sums / (y @ y) * min((57 - lag) / count, 10), abs=1e-12)
    assert autocorrelation(x, 40, lengths)[34:] == pytest.approx(0)


def test_interleaved_series_are_brought_together():
    series = slow(np.random.default_rng(2), 4000, 5)
    groups = np.tile(["a", "b", "c", "d", "e"], 4000)
    found = mr.diagnose(series.ravel(), groups=groups)
    assert found.lengths == (4000,) * 5
    assert found.tau == pytest.approx(19, rel=0.25)
    assert found.curves[0].values[1] == pytest.approx(0.9, abs=0.02)
    assert abs(mr.diagnose(series.ravel()).curves[0].values[1]) < 0.1  # where the neighbour is another series
    sparse = mr.diagnose(mr.Buffer(features=sp.csr_array(series.reshape(-1, 1))), groups=groups)
    assert sparse.tau == pytest.approx(found.tau)
    assert "5 groups, each a chain of its own" in str(found)


def test_many_short_chains_say_what_one_long_one_does():
    x = slow(np.random.default_rng(3), 50_000)
    for size in (100, 1000):
        found = mr.diagnose(x, groups=np.arange(50_000) // size)
        assert found.tau == pytest.approx(19, rel=0.3), size
    few = mr.diagnose(x, groups=np.arange(50_000) // 20)
    assert not few.reliable
    assert "chains are too short to show it" in " ".join(str(few).split())


def test_borders_that_jump_are_no_dependence():
    rng = np.random.default_rng(4)
    x = rng.standard_normal(3000)
    groups = np.repeat(np.arange(1500), 2)
    x[1::2] = -x[::2]  # within a pair all is known
    found = autocorrelation(x, 3, (2,) * 1500)
    assert found[1] == pytest.approx(-1, abs=0.01)
    assert found[2:] == pytest.approx(0)
    assert mr.diagnose(x, groups=groups).lengths == (2,) * 1500


def test_batches_do_not_reach_over_borders():
    rng = np.random.default_rng(5)
    x = np.repeat(rng.standard_normal(400), 50) + rng.standard_normal(20_000)  # a level for each group
    found = mr.diagnose(x, groups=np.arange(20_000) // 50)
    assert 25 < found.tau < 51  # if chains went on like that, the mean of all would not become better known
    assert not found.reliable


def test_gaps_and_repeated_times_are_borders_and_shown_as_dates():
    hours = np.arange("2024-03-01", "2024-03-11", dtype="datetime64[h]").astype("datetime64[s]")
    hours = np.delete(np.insert(hours, 50, hours[49]), [100, 101])
    found = mr.diagnose(np.random.default_rng(6).standard_normal(len(hours)), time=hours)
    assert found.lengths == (50, 50, len(hours) - 100)
    assert "there twice, first 2024-03-03 01:00 at row 50" in " ".join(found.about)
    assert "1 gap in 'time' (the usual step is 1 h, the longest gap 3 h)" in " ".join(found.about)
    assert found.to_dict()["chains"] == 3


def test_times_that_go_back_are_refused():
    with pytest.raises(mr.InputError, match=r"is 2024-01-02 at row 4 .* after 2024-01-05 at row 3"):
        mr.diagnose(
            {"x": np.arange(5.0), "day": np.array([1, 2, 4, 5, 2], "datetime64[D]") + np.timedelta64(19722, "D")},
            time="day",
        )
    with pytest.raises(mr.InputError, match=r"time has shape \(3,\), but the record has 5 rows"):
        mr.diagnose(np.arange(5.0), time=[1, 2, 3])
    with pytest.raises(mr.InputError, match="there is no column 'id'; there are x"):
        mr.diagnose({"x": np.arange(5.0)}, groups="id")


@pytest.mark.parametrize("missing", [7, 13, 24 * 40 + 5])
def test_a_cycle_is_found_across_a_gap(missing):
    rng = np.random.default_rng(7)
    places = np.delete(np.arange(6000), slice(2500, 2500 + missing))
    x = np.sin(2 * np.pi * places / 24) + 0.5 * slow(rng, len(places))
    found = mr.diagnose(x, time=places)
    assert found.chains == 2
    assert found.columns[0].period == pytest.approx(24, rel=2e-3)
    assert found.columns[0].tau_rest == pytest.approx(19, rel=0.4)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table])
def test_data_frames_dates_are_the_time_and_text_is_left_out(kind):
    rng = np.random.default_rng(8)
    days = np.delete(np.arange("2020-01-01", "2022-01-01", dtype="datetime64[D]"), slice(300, 310))
    places = [["north", "south"][row % 2] for row in range(len(days))]
    noise = rng.standard_normal(len(days))
    columns = {"day": days.astype("datetime64[ms]"), "temp": slow(rng, len(days)), "place": places, "hum": noise}
    found = mr.diagnose(kind(columns))
    assert found.lengths == (300, len(days) - 300)
    assert found.slowest.label == "temp"
    assert found.about[-1] == "Left out, because they are not numbers: place."
    assert mr.diagnose(kind(columns), groups="place").lengths[0] > 0
    mixed = kind({"x": ["1", "2", "3", "four", "5"], "y": [1.0, 2.0, 3.0, 4.0, 5.0]})
    with pytest.raises(mr.InputError, match="'four' at row 3"):
        mr.diagnose(mixed)


def test_an_index_of_dates_is_the_time():
    index = pd.date_range("2024-01-01", periods=100, freq="h").delete(slice(40, 50))
    found = mr.diagnose(pd.DataFrame({"x": np.random.default_rng(9).standard_normal(90)}, index=index))
    assert found.lengths == (40, 50)


def test_groups_of_a_buffer_are_used():
    x = slow(np.random.default_rng(10), 3000)
    groups = np.repeat(["a", "b", "c"], 1000)
    buffer = mr.Buffer(features=x[:, None], groups=groups)
    assert mr.diagnose(buffer).lengths == (1000, 1000, 1000)
    assert mr.diagnose(buffer[500:]).lengths == (500, 1000, 1000)
    assert mr.diagnose(buffer).tau == mr.diagnose(x[:, None], groups=groups).tau


def test_curves_are_those_of_the_slowest_columns_and_no_more_than_can_be_told_apart():
    rng = np.random.default_rng(11)
    weights = np.linspace(0, 0.95, 12)
    record = {f"c{place}": lfilter([1.0], [1.0, -weight], rng.standard_normal(4000)) for place, weight in
              enumerate(weights)}  # fmt: skip
    found = mr.diagnose(record)
    assert len(found.curves) == 6
    assert found.curves[0].label == found.slowest.label
    assert [curve.tau for curve in found.curves] == sorted((c.tau_max for c in found.columns), reverse=True)[:6]
    ax = found.plot()
    assert len(ax.get_lines()) == 6
    assert ax.get_legend_handles_labels()[1][0].startswith(found.slowest.label)


def test_a_cycle_of_24_steps_is_no_alias_in_the_picture():
    rng = np.random.default_rng(12)
    turns = np.sin(2 * np.pi * np.arange(60_000) / 24)
    (short,) = mr.diagnose(turns + 0.1 * rng.standard_normal(60_000)).curves
    assert short.lags.tolist() == list(range(int(short.lags[-1]) + 1))
    assert short.lags[-1] >= 4 * 24 - 1
    assert short.values[12] < -0.9 < 0.9 < short.values[24]
    drift = 2 * lfilter([1.0], [1.0, -0.9995], rng.standard_normal(60_000)) / 30
    (long,) = mr.diagnose(turns + drift).curves
    assert long.lags[-1] > 1000
    assert len(long.lags) <= 801
    swings = np.abs(np.diff(long.values[1:]))
    assert np.median(swings) > 0.5 * 2 * 0.5 / (0.5 + (turns + drift).var() - 0.5)  # up and down from point to point


def test_a_cycle_is_found_between_many_dropped_rows():
    rng = np.random.default_rng(13)
    places = np.flatnonzero(rng.random(6000) > 0.1)  # chains of some ten rows
    x = np.sin(2 * np.pi * places / 24) + rng.standard_normal(len(places))
    found = mr.diagnose(x, time=places)
    assert max(found.lengths) < 24 * 16
    assert found.columns[0].period == pytest.approx(24, rel=1e-3)
    assert found.columns[0].tau_rest == pytest.approx(1, abs=0.2)
    noise = mr.diagnose(rng.standard_normal(len(places)), time=places)
    assert noise.columns[0].period is None


def test_a_cycle_is_taken_out_of_every_group():
    rng = np.random.default_rng(14)
    hours = np.concatenate([np.arange(1000) + 7 * group for group in range(5)])
    x = np.sin(2 * np.pi * hours / 24) + rng.standard_normal(5000)
    found = mr.diagnose(x, groups=np.repeat(np.arange(5), 1000))
    assert found.columns[0].period == pytest.approx(24, rel=5e-3)
    assert found.columns[0].tau_rest == pytest.approx(1, abs=0.2)


def test_chains_of_one_row_show_nothing():
    found = mr.diagnose(np.random.default_rng(15).standard_normal(500), groups=np.arange(500))
    assert (found.chains, found.tau, found.reliable) == (500, 1.0, False)
    assert found.curves[0].values.tolist() == [1.0]
