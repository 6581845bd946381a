"""Pages on a diagnosis."""

from __future__ import annotations

import numpy as np
import pytest

import multireplay as mr
from multireplay.errors import InputError
from multireplay.report.blocks import Plot
from multireplay.report.sections import dependence


def test_a_diagnosis(buffer, tmp_path):
    found = mr.diagnose(buffer)
    text = mr.report.report_of_diagnosis(
        tmp_path / "d.html", found, buffer, command="multireplay diagnose x.npz"
    ).read_text(encoding="utf-8")
    assert found.sentence in text.replace("&#39;", "'")
    assert "multireplay diagnose x.npz" in text
    assert f'data-value="{found.columns[0].tau_max!r}"' in text
    assert "plotly.js (basic" in text
    bare = mr.report.report_of_diagnosis(tmp_path / "d.html", found).read_text(encoding="utf-8")
    assert "plotly.js (basic" in bare  # the diagnosis has its curves


def test_autocorrelation_curves_are_those_of_the_slowest_features(buffer):
    found = mr.diagnose(buffer)
    (plot,) = [block for block in dependence.blocks_of(found) if isinstance(block, Plot)]
    slowest = sorted(found.columns, key=lambda column: -column.tau_max)
    assert [trace.name for trace in plot.figure.data] == [column.label for column in slowest]
    column = next(column for column in slowest if column.name == "features")
    place = slowest.index(column)
    x = buffer["features"][:, column.worst_feature] - buffer["features"][:, column.worst_feature].mean()
    lag = int(plot.figure.data[place].x[7])
    assert plot.figure.data[place].y[7] == pytest.approx(x[:-lag] @ x[lag:] / (x @ x))


def test_groups_of_a_record_are_kept_apart_on_its_page(buffer, tmp_path):
    groups = np.arange(len(buffer)) // 100
    parted = mr.Buffer(**buffer.columns, groups=groups)
    found = mr.diagnose(parted)
    assert found.chains > 1
    for path in (
        mr.report.report_of_diagnosis(tmp_path / "d.html", found),
        mr.solve(mr.PolicyEvaluation(0.5), parted).report(tmp_path / "r.html"),
    ):
        text = path.read_text(encoding="utf-8")
        assert f"{found.chains} groups, each a chain of its own" in text
    (curve, *_), longest = found.curves, max(found.lengths)
    assert curve.lags[-1] < longest


def test_a_diagnosis_refuses_another_record(buffer, tmp_path):
    with pytest.raises(InputError, match="the record that was diagnosed"):
        mr.report.report_of_diagnosis(tmp_path / "d.html", mr.diagnose(buffer), buffer[:100])
    with pytest.raises(InputError, match=r"what mr\.diagnose returned"):
        mr.report.report_of_diagnosis(tmp_path / "d.html", buffer)


def test_constant_records_have_a_page(tmp_path):
    record = mr.Buffer(features=np.ones((10, 2)), targets=np.zeros(10))
    text = mr.report.report_of_diagnosis(tmp_path / "d.html", mr.diagnose(record), record).read_text(encoding="utf-8")
    assert "Everything examined is constant" in text
