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
    assert "plotly.js v" not in bare


def test_autocorrelation_curves_are_those_of_the_slowest_features(buffer):
    found = mr.diagnose(buffer)
    (plot,) = [block for block in dependence.blocks_of(found, buffer) if isinstance(block, Plot)]
    assert [trace.name for trace in plot.figure.data] == [column.label for column in found.columns]
    column = found.columns[0]
    x = buffer["features"][:, column.worst_feature] - buffer["features"][:, column.worst_feature].mean()
    lag = int(plot.figure.data[0].x[7])
    assert plot.figure.data[0].y[7] == pytest.approx(x[:-lag] @ x[lag:] / (x @ x))


def test_a_diagnosis_refuses_another_record(buffer, tmp_path):
    with pytest.raises(InputError, match="the record that was diagnosed"):
        mr.report.report_of_diagnosis(tmp_path / "d.html", mr.diagnose(buffer), buffer[:100])
    with pytest.raises(InputError, match=r"what mr\.diagnose returned"):
        mr.report.report_of_diagnosis(tmp_path / "d.html", buffer)


def test_constant_records_have_a_page(tmp_path):
    record = mr.Buffer(features=np.ones((10, 2)), targets=np.zeros(10))
    text = mr.report.report_of_diagnosis(tmp_path / "d.html", mr.diagnose(record), record).read_text(encoding="utf-8")
    assert "Everything examined is constant" in text
