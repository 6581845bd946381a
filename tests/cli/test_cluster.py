"""Commands with --on and --workers: the same model and predictions, from files that are read where they are."""

from __future__ import annotations

import json
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from spread_tasks import Posted

from multireplay.cli import cluster, diagnose, fit, predict
from multireplay.errors import InputError

ROWS = 6000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three files of one record."""
    rng = np.random.default_rng(0)
    x, z = rng.standard_normal(ROWS).cumsum() / 20, 50 + 3 * rng.standard_normal(ROWS)
    score = 0.5 * x - 0.2 * (z - 50)
    table = {
        "x": x,
        "z": z,
        "heat": 7 + score + 0.1 * rng.standard_normal(ROWS),
        "fails": (rng.random(ROWS) < 1 / (1 + np.exp(-score))).astype(int),
        "count": rng.poisson(np.exp(score / 4)),
        "name": ["row"] * ROWS,
    }
    path = tmp_path_factory.mktemp("cluster") / "data"
    path.mkdir()
    for number in range(3):
        part = pa.table(table).slice(number * 2000, 2000)
        parquet.write_table(part, path / f"part-{number}.parquet", row_group_size=700)
    return path


@pytest.fixture(params=[1, 5], ids="{} workers".format)
def pool(request, monkeypatch):
    """A pool in the place of a cluster."""
    found = Posted(request.param)

    @contextmanager
    def workers(on, workers):
        yield None if workers is None else found

    for module in (fit, predict, diagnose):
        monkeypatch.setattr(f"{module.__name__}.workers_of", workers)
    return found


def model_of(run, folder, target, kind, *more):
    given = ("fit", folder, "--target", target, "--model", kind, "--features", "x,z", "--json", *more)
    result = run(*given)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize(("target", "kind"), [("heat", "linear"), ("fails", "logistic"), ("count", "poisson")])
def test_the_model_is_the_one_of_one_machine(run, folder, pool, target, kind):
    here, there = (model_of(run, folder, target, kind, *more) for more in ((), ("--workers", 1)))
    assert there["coef"] == pytest.approx(here["coef"], rel=1e-6, abs=1e-9)
    assert there["intercept"] == pytest.approx(here["intercept"], rel=1e-6, abs=1e-9)
    rows = zip(*(found["inference"]["tables"][0]["coefficients"] for found in (here, there)), strict=True)
    for one, other in rows:
        assert other["standard_error"] == pytest.approx(one["standard_error"], rel=1e-3)
    for name in ("score", "rows", "learnt", "baseline", "metric"):
        one, other = (found["fitted"]["holdout"][name] for found in (here, there))
        assert other == (pytest.approx(one, rel=1e-6) if isinstance(one, float) else one)
    assert there["fitted"]["ok"]
    assert len(pool.sent) > 3


def test_workers_change_no_bit_of_a_model(run, folder, monkeypatch):
    found = []
    for count in (1, 7):

        @contextmanager
        def workers(on, workers, count=count):
            yield Posted(count)

        monkeypatch.setattr(f"{fit.__name__}.workers_of", workers)
        model = model_of(run, folder, "heat", "linear", "--workers", 1)
        del model["fitted"]["seconds"]
        found.append(model)
    assert found[0] == found[1]


@pytest.mark.parametrize(("target", "kind"), [("heat", "linear"), ("fails", "logistic"), ("count", "poisson")])
def test_predictions_are_those_of_one_machine(run, folder, pool, tmp_path, monkeypatch, target, kind):
    from multireplay.cli import in_parts

    monkeypatch.setattr(in_parts, "LEAST", 500)
    model, alone, parts = tmp_path / "model.json", tmp_path / "alone.parquet", tmp_path / "parts"
    model_of(run, folder, target, kind, "--out", model)
    here = run("predict", model, folder, "--out", alone, "--interval", "--json")
    there = run("predict", model, folder, "--out", parts, "--interval", "--json", "--workers", 1)
    assert there.exit_code == 0, there.stderr
    one, other = parquet.read_table(alone), parquet.read_table(parts)
    assert other.column_names == one.column_names
    for name in one.column_names:  # rows at the borders of parts are multiplied with other neighbours
        here_, there_ = (table.column(name).to_numpy() for table in (one, other))
        assert there_ == pytest.approx(here_, rel=1e-12)
    assert len(list(parts.iterdir())) > 3
    both = json.loads(here.stdout), json.loads(there.stdout)
    assert both[1]["score"]["score"] == pytest.approx(both[0]["score"]["score"], rel=1e-9)
    assert both[1]["rows"] == ROWS
    again = run("predict", model, folder, "--out", parts, "--workers", 1)
    assert again.exit_code != 0
    assert "new folder" in again.stderr


def test_a_diagnosis_is_that_of_one_machine(run, folder, pool):
    given = ("diagnose", folder, "--columns", "x,z,heat", "--json")
    here, there = (json.loads(run(*given, *more).stdout) for more in ((), ("--workers", 1)))
    assert there["columns"] == here["columns"]


@pytest.mark.parametrize(
    "more",
    [("--formula", "heat ~ x"), ("--missing", "drop"), ("--group", "name"), ("--report", "page.html")],
    ids=lambda more: more[0],
)
def test_what_needs_memory_is_refused(run, folder, pool, tmp_path, monkeypatch, more):
    monkeypatch.chdir(tmp_path)
    features = () if more[0] == "--formula" else ("--features", "x,z")
    result = run("fit", folder, "--target", "heat", *features, *more, "--workers", 1)
    assert result.exit_code != 0
    assert "in memory" in result.stderr


def test_classes_have_to_be_0_and_1(run, folder, pool):
    result = run("fit", folder, "--target", "count", "--model", "logistic", "--features", "x", "--workers", 1)
    assert result.exit_code != 0
    assert "count" in result.stderr or "targets" in result.stderr


def test_an_address_where_nobody_is(monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(cluster, "SECONDS", 0.2)
    with pytest.raises(InputError, match="no Dask scheduler"), cluster.workers_of("tcp://127.0.0.1:1", None):
        pass
    with pytest.raises(InputError, match="not both"), cluster.workers_of("tcp://127.0.0.1:1", 2):
        pass


def test_a_local_cluster(run, folder):
    pytest.importorskip("distributed")
    result = run("fit", folder, "--target", "heat", "--features", "x,z", "--workers", 1, "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["fitted"]["ok"]
