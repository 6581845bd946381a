"""Pages on a diagnosis, the demonstration, a reproduction and the bench."""

from __future__ import annotations

import json

import numpy as np
import pytest

import multireplay as mr
from multireplay.compare import table as bench
from multireplay.demo import Summary
from multireplay.errors import InputError
from multireplay.report import of_comparison, of_reproduction
from multireplay.report.blocks import Plot
from multireplay.report.sections import dependence
from multireplay.reproduce import table as curves
from multireplay.reproduce.table import Row


def test_a_diagnosis(buffer, tmp_path):
    found = mr.diagnose(buffer)
    text = mr.report.report_of_diagnosis(
        tmp_path / "d.html", found, buffer, command="multireplay diagnose x.npz"
    ).read_text(encoding="utf-8")
    assert found.sentence in text.replace("&#39;", "'")
    assert "multireplay diagnose x.npz" in text
    assert f'data-value="{found.columns[0].tau_max!r}"' in text
    assert '"plotly.js v' in text or "plotly.js v" in text
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


def test_the_demonstration(tmp_path):
    at = np.array([1, 1024, 4096])
    one = Summary(at, np.array([1.0, 0.1, 0.01]), np.array([0.0, 0.01, 0.001]))
    found = {"MER": one, "serial": one, "skip 5": one, "i.i.d.": one}
    text = mr.report.report_of_demo(tmp_path / "d.html", found, 0.001, 0.9, 20).read_text(encoding="utf-8")
    assert "LSTD (exact fit)" in text
    assert "m = 0.9" in text


@pytest.fixture
def reproduced(tmp_path):
    rows = [
        Row(p, m, 0.5, 2**k, 0.5**k, 0.01, np.nan, 2)
        for p in ("shared", "best")
        for m in ("MER", "serial")
        for k in range(5)
    ]
    rows += [Row(p, "LSTD", 0.0, 16, 0.001, 0.0, np.nan, 2) for p in ("shared", "best")]
    curves.write(tmp_path / "fig2a.csv", rows)
    (tmp_path / "fig2a.json").write_text(json.dumps({"instances": 2, "seed": 0, "size": "small"}), encoding="utf-8")
    claim = {"figure": "fig2a", "claim": "It <works>.", "verdict": "holds", "finding": "Yes.", "numbers": {}}
    (tmp_path / "claims.json").write_text(json.dumps([claim, {**claim, "verdict": "does not hold"}]), encoding="utf-8")
    return tmp_path


def test_a_reproduction(reproduced):
    text = mr.report.report_of_reproduction(
        reproduced / "r.html", reproduced, command="multireplay reproduce"
    ).read_text(encoding="utf-8")
    for word in ("Verdicts on 2 claims", "It &lt;works&gt;.", "does not hold", "2 instances, seed 0, size small"):
        assert word in text
    figure = of_reproduction.curves([row for row in curves.read(reproduced / "fig2a.csv") if row.panel == "best"])
    assert [trace.name for trace in figure.data] == ["MER", "serial", "LSTD"]
    assert figure.data[0].y.tolist() == [0.5**k for k in range(5)]
    with pytest.raises(InputError, match="multireplay reproduce --out"):
        mr.report.report_of_reproduction(reproduced / "r.html", reproduced / "nowhere")


@pytest.fixture
def compared(tmp_path):
    def row(method, step, ratio):
        numbers = {"passes": 1.0, "samples_touched": 8.0, "ratio_mean": ratio, "ratio_se": 0.1, "error_mean": ratio}
        same = {
            "problem": "a chain",
            "suite": "paper",
            "exact_error_mean": 1.0,
            "seconds": 0.1,
            "seeds": 3,
            "condition": 5.0,
        }
        return {**same, "method": method, "step": step, **numbers}

    rows = [row("exact fit", "LSTD", 1.0), row("mr.solve", "-", 1.6), row("mr.solve, 1 pass", "-", 1.2)]
    rows += [row("serial", "0.5/L", 20.0), row("serial", "tuned 0.1/L", np.inf), row("shuffle", "tuned 1/L", 1.1)]
    bench.write(tmp_path, rows, {}, {})
    return tmp_path


def test_the_bench(compared):
    text = mr.report.report_of_comparison(compared / "r.html", compared).read_text(encoding="utf-8")
    for word in ("1 problem, 3 seeds each", "mr.solve against its bars", "Where a bar is not met", "∞", "20 ± 0.1"):
        assert word in text
    assert [
        row["exact fit"]
        for row in of_comparison._markdown(bench.acceptance(of_comparison._read(compared / "compare.csv")))
    ] == ["not met"]
    with pytest.raises(InputError, match="multireplay compare --out"):
        mr.report.report_of_comparison(compared / "r.html", compared / "nowhere")
