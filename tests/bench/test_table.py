"""The tables: their columns, what is in them, and that they are read back as written."""

from __future__ import annotations

import csv
import json
import math

import numpy as np
import pytest

from multireplay.bench import table
from multireplay.bench.figures import FIGURES, RULES

EXACT = {"fig1": {"LSTD"}, "fig2a": {"LSTD"}, "fig2b": {"LSTD"}}
EXACT |= {name: {"unpenalized exact fit", "best ridge"} for name in ("fig3a", "fig3b")}
EXACT |= {f"{name}-bernoulli": {"maximum likelihood", "best ridge"} for name in ("fig3a", "fig3b")}
SKIPS = {name: {"skip 5", "skip 19", "skip 50"} for name in ("fig2a", "fig2b")}
SKIPS |= {name: {"skip 10"} for name in FIGURES if name.startswith("fig3")}
SKIPS["fig1"] = {"skip right (19)", "skip too much (300)", "skip too little (3)"}
CONSTANT = "MER, one constant step (ours)"
OTHERS = {"MER", CONSTANT, "serial", "i.i.d.", "uniform", "shuffle", "dyadic"}


@pytest.mark.parametrize("name", [*FIGURES, "tracking", "theory"])
def test_columns(everything, name):
    lines = (everything / f"{name}.csv").read_text().splitlines()
    assert (
        lines[0] == "panel,method,step,iterations,error_mean,error_se,error_weighted_mean,error_weighted_se,instances"
    )
    assert {len(row) for row in csv.reader(lines)} == {9}


@pytest.mark.parametrize("name", FIGURES)
def test_every_method_is_in_both_panels(everything, name):
    rows = table.read(everything / f"{name}.csv")
    for panel in ("shared", "best"):
        found = {row.method for row in rows if row.panel == panel}
        assert found == OTHERS | SKIPS[name] | EXACT[name]
    assert {row.panel for row in rows} == {"shared", "best"}
    assert {row.instances for row in rows} == {2}
    assert all(row.error_mean > 0 and row.error_weighted_mean > 0 for row in rows)


@pytest.mark.parametrize("name", FIGURES)
def test_iterations(everything, name):
    rows = table.read(everything / f"{name}.csv")
    length = FIGURES[name].lengths["small"]
    last = 2 ** int(math.log2(length))
    ends = {"MER": last, CONSTANT: last, "i.i.d.": length, "serial": length, "dyadic": length, "shuffle": length}
    for panel in ("shared", "best"):
        for method in {row.method for row in rows}:
            found = [row.iterations for row in rows if (row.panel, row.method) == (panel, method)]
            assert found == sorted(set(found))
            assert found[-1] == ends.get(method, found[-1])
            if method.startswith("MER"):
                assert found == [2**k for k in range(1, len(found) + 1)]
            elif method.startswith("skip"):
                gap = int("".join(filter(str.isdigit, method)))
                assert found[-1] in (length // gap, -(-length // gap))


@pytest.mark.parametrize("name", FIGURES)
def test_steps(everything, name):
    rows = table.read(everything / f"{name}.csv")
    methods = OTHERS - {"MER"} | SKIPS[name]
    shared = {row.step for row in rows if row.panel == "shared" and row.method in methods}
    assert shared == {float(f"{FIGURES[name].shared_step:.6g}")}
    grid = {float(f"{step:.6g}") for step in FIGURES[name].grid}
    for method in methods:
        own = {row.step for row in rows if row.panel == "best" and row.method == method}
        assert len(own) == 1
        assert own < grid


@pytest.mark.parametrize("name", FIGURES)
def test_mer_has_its_own_rule_of_steps(everything, name):
    rows, chosen = (
        table.read(everything / f"{name}.csv"),
        json.loads((everything / f"{name}.json").read_text())["chosen"],
    )
    for panel, rule in RULES.items():
        c, cap = chosen[rule]
        points = [row for row in rows if row.panel == panel and row.method == "MER"]
        expected = [min(cap, c * math.log(row.iterations) / row.iterations) for row in points]
        assert [row.step for row in points] == pytest.approx(expected, rel=1e-5)
    assert chosen[RULES["shared"]][1] == FIGURES[name].shared_step


def test_round_trip(tmp_path):
    rows = [
        table.Row("a, b", "m", 0.125, 3, 1 / 3, math.nan, math.inf, 0.1, 2),
        table.Row("c", "i.i.d.", 1e-9, 2**40, 1.0, 0.5, 2.0, 0.25, 1),
    ]
    table.write(tmp_path / "t.csv", rows)
    first, second = table.read(tmp_path / "t.csv")
    assert second == rows[1]
    assert first.panel == "a, b"
    assert first.error_mean == pytest.approx(1 / 3, rel=1e-5)
    assert math.isnan(first.error_se)
    assert first.error_weighted_mean == math.inf


def test_mean_and_error():
    mean, error = table.mean_and_error(np.array([1.0, 2.0, 6.0]))
    assert mean == 3.0
    assert error == pytest.approx(math.sqrt(7 / 3))  # variance (4 + 1 + 9)/2 = 7, over 3
    assert math.isnan(table.mean_and_error(np.array([1.0]))[1])
