"""Pages on a reproduction and the comparison."""

from __future__ import annotations

import json

import numpy as np
import pytest

import multireplay as mr
from multireplay.bench import table
from multireplay.bench.scores import Scores, acceptance, read
from multireplay.bench.table import Row
from multireplay.errors import InputError
from multireplay.report import of_bench


@pytest.fixture
def reproduced(tmp_path):
    rows = [
        Row(p, m, 0.5, 2**k, 0.5**k, 0.01, 0.5**k, 0.01, 2)
        for p in ("shared", "best")
        for m in ("MER", "serial")
        for k in range(5)
    ]
    rows += [Row(p, "LSTD", 0.0, 16, 0.001, 0.0, 0.001, 0.0, 2) for p in ("shared", "best")]
    table.write(tmp_path / "fig2a.csv", rows)
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
    figure = of_bench.curves([row for row in table.read(reproduced / "fig2a.csv") if row.panel == "best"])
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
    Scores(rows, {}, {}).write(tmp_path)
    return tmp_path


def test_the_bench(compared):
    text = mr.report.report_of_comparison(compared / "r.html", compared).read_text(encoding="utf-8")
    for word in ("1 problem, 3 seeds each", "mr.solve against its bars", "Where a bar is not met", "∞", "20 ± 0.1"):
        assert word in text
    assert [row["exact fit"] for row in acceptance(read(compared / "compare.csv"))] == ["not met"]
    with pytest.raises(InputError, match="multireplay compare --out"):
        mr.report.report_of_comparison(compared / "r.html", compared / "nowhere")
