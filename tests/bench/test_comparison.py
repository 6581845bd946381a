"""The bench as a whole: what it writes, that it is the same whatever the jobs, and that it goes on where it was."""

import csv

import numpy as np
import pytest

import multireplay as mr
from multireplay.bench import compare
from multireplay.bench.comparison import Comparison, total_cost
from multireplay.bench.scores import COLUMNS, ratio_of_means
from multireplay.bench.world import Listing, MissingExtra
from multireplay.bench.worlds import WORLDS

CHOSEN = ["paper MRP m=0.9", "logistic ρ=0.9"]


def run(out, **options):
    return compare(CHOSEN, **{"seeds": 2, "tuning_seeds": 1, "jobs": 1, "out": out, "size": "small", **options})


def assert_same(found, wanted):
    """Up to rounding, since sums may depend on how memory is aligned; times differ."""
    assert len(found) == len(wanted)
    for row, other in zip(found, wanted, strict=True):
        for name in set(COLUMNS) - {"seconds"}:
            if isinstance(other[name], float):
                assert row[name] == pytest.approx(other[name], rel=1e-6, nan_ok=True), (row["method"], name)
            else:
                assert row[name] == other[name]


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    out = tmp_path_factory.mktemp("compare")
    return out, run(out)


def test_what_is_written(first):
    out, rows = first
    with (out / "compare.csv").open(encoding="utf-8") as file:
        written = list(csv.DictReader(file))
    assert tuple(written[0]) == COLUMNS
    assert len(written) == len(rows)
    exact = [row for row in rows if row["method"] == "exact fit"]
    assert [row["ratio_mean"] for row in exact] == [1.0, 1.0]
    assert [row["seeds"] for row in rows] == [2] * len(rows)
    by_problem = {(row["problem"], row["method"]): row for row in rows}
    assert by_problem["logistic ρ=0.9", "recursive LSTD(0)"]["step"] == "n/a"
    assert by_problem["paper MRP m=0.9", "recursive LSTD(0)"]["ratio_mean"] == pytest.approx(1, abs=0.02)
    assert by_problem["paper MRP m=0.9", "shuffle x3"]["passes"] == 3
    assert by_problem["paper MRP m=0.9", "shuffle x3"]["samples_touched"] == 3 * 2**12
    text = (out / "compare.md").read_text(encoding="utf-8")
    assert "| mr.solve | - |" in text
    assert "n/a" in text
    assert (out / "compare.png").read_bytes().startswith(b"\x89PNG")


def test_same_whatever_the_jobs(first, tmp_path):
    assert_same(run(tmp_path, jobs=2), first[1])


def test_goes_on_where_it_was(first, monkeypatch):
    out, rows = first

    def never(*arguments):
        raise AssertionError("worked out again")

    monkeypatch.setattr(Comparison, "report", never)
    monkeypatch.setattr(Comparison, "tune", never)
    told = []
    again = run(out, advance=lambda name, seconds: told.append((name, seconds)))
    assert_same(again, rows)
    assert sum(seconds for _, seconds in told) == pytest.approx(total_cost(CHOSEN, 2, 1))


def test_a_missing_package_leaves_the_world_out(first, monkeypatch):
    def missing(size, cache):
        raise MissingExtra("needs a package")

    monkeypatch.setitem(WORLDS, "absent", Listing("absent", "glm", missing))
    rows = compare(["absent", CHOSEN[0]], seeds=2, tuning_seeds=1, jobs=1, out=first[0], size="small")
    assert {row["problem"] for row in rows} == {CHOSEN[0]}
    assert "absent: needs a package" in (first[0] / "compare.md").read_text(encoding="utf-8")


def test_bad_arguments(tmp_path):
    with pytest.raises(mr.InputError, match="no world"):
        compare(["nothing"], out=tmp_path)
    with pytest.raises(mr.InputError, match="at least 1"):
        compare("paper", seeds=0, out=tmp_path)
    with pytest.raises(mr.InputError, match="size"):
        compare("paper", size="huge", out=tmp_path)


def test_standard_error_of_a_ratio():
    """Against the spread of the ratio over many repetitions."""
    rng = np.random.default_rng(0)
    exact = rng.exponential(size=(4000, 30))
    errors = exact * 1.5 + 0.3 * rng.exponential(size=(4000, 30))
    found = np.array([ratio_of_means(e, x) for e, x in zip(errors, exact, strict=True)])
    assert found[:, 1].mean() == pytest.approx(found[:, 0].std(), rel=0.1)
    assert ratio_of_means(np.array([1.0, np.inf]), np.ones(2))[0] == np.inf
