"""Commands with --on, --workers and little memory: the same answer, from files that are read where they are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from spread_tasks import Posted

from multireplay.cli import cluster, diagnose, fit, predict, surveyed
from multireplay.cli.data_file import DataFile
from multireplay.errors import InputError

ROWS = 3000
DROP = ("--missing", "drop")


@pytest.fixture(scope="module")
def table():
    """Categories, missing cells, series that go on in the next file, and times with gaps, one at the end of a file."""
    rng = np.random.default_rng(0)
    x, z = rng.standard_normal(ROWS).cumsum() / 20, 50 + 3 * rng.standard_normal(ROWS)
    day, busy, span = rng.choice(["Mon", "Tue", "Wed"], ROWS), rng.random(ROWS) < 0.4, rng.uniform(1, 5, ROWS)
    day[:700] = "Mon"  # other levels come in a later file
    score = 0.5 * x - 0.2 * (z - 50) + (day == "Tue") + 0.3 * busy
    nothing = [rng.random(ROWS) < 0.01 for _ in range(2)]
    nothing[0][[599, 600, 1199]] = True  # at borders of files
    return pa.table({
        "x": pa.array(x, mask=nothing[0]), "z": z, "day": pa.array(day, mask=nothing[1]), "busy": busy,
        "heat": 7 + score + 0.1 * rng.standard_normal(ROWS),
        "fails": np.where(rng.random(ROWS) < 1 / (1 + np.exp(-score)), "yes", "no"),
        "size": np.where(score > 1, 5, np.where(score < -0.5, 1, 2)),
        "count": rng.poisson(span * np.exp(score / 4)), "span": span, "name": ["row"] * ROWS,
        "site": np.repeat(["a", "b", "c"], [1100, 700, 1200]), "turn": np.tile(["a", "b", "c"], ROWS // 3),
        "when": np.concatenate([np.arange(600), np.arange(700, 2000), np.arange(2000, 3100) + 50]),
    })  # fmt: skip


@pytest.fixture(scope="module")
def folder(table, tmp_path_factory):
    """Five files of one record."""
    path = tmp_path_factory.mktemp("cluster") / "data"
    path.mkdir()
    for number in range(5):
        parquet.write_table(table.slice(number * 600, 600), path / f"part-{number}.parquet", row_group_size=350)
    return path


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(surveyed, "LEAST", 700)


def given_to(found, monkeypatch):
    """Let commands with --workers have this in the place of a cluster."""

    @contextmanager
    def workers(on, workers):
        yield None if workers is None else found

    for module in (fit, predict, diagnose):
        monkeypatch.setattr(f"{module.__name__}.workers_of", workers)
    return found


@pytest.fixture
def pool(monkeypatch):
    return given_to(Posted(2), monkeypatch)


def model_of(run, folder, *given):
    result = run("fit", folder, "--json", *given)
    assert result.exit_code == 0, result.stderr
    model = json.loads(result.stdout)
    del model["fitted"]["seconds"]
    return model


def same(one, other):
    """Whether all is the same, numbers up to what adding in another order does to them."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        return all(same(one[name], other[name]) for name in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return other == (pytest.approx(one, rel=1e-9, abs=1e-12) if isinstance(one, float) else one)


PLAIN = ("--target", "heat", "--features", "z,busy,size")
SPANS = ("--exposure", "span", "--group", "site")
FITS = {
    "numbers": PLAIN,
    "all that can serve": ("--target", "heat", *DROP),
    "missing and categories": ("--target", "heat", "--features", "x,z,day,busy", *DROP),
    "groups and time": ("--target", "heat", "--features", "x,z,day", *DROP, "--group", "site", "--time", "when"),
    "numbers as categories": ("--target", "heat", "--features", "z,size", "--categorical", "size"),
    "two classes": ("--target", "fails", "--model", "logistic", "--features", "x,z,day", *DROP, "--group", "site"),
    "several classes": ("--target", "size", "--model", "logistic", "--features", "x,z", *DROP),
    "weights of classes": ("--target", "fails", "--model", "logistic", "--features", "z", "--class-weight", "balanced"),
    "counts": ("--target", "count", "--model", "poisson", "--features", "x,z,day", *DROP),
    "exposure": ("--target", "count", "--model", "poisson", "--features", "z,day", *DROP, *SPANS),
    "a formula": ("--formula", "heat ~ x + C(size) + {z**2} + day", *DROP, "--group", "site"),
}


@pytest.mark.parametrize("given", FITS.values(), ids=FITS)
def test_a_model_is_the_same_wherever_the_rows_are(run, folder, pool, monkeypatch, given):
    here, there = (model_of(run, folder, *given, *more) for more in ((), ("--workers", 1)))
    assert len(pool.sent) > 9
    assert same(here, there)
    assert there["coef"] == pytest.approx(np.array(here["coef"]), rel=1e-11, abs=1e-12)
    monkeypatch.setattr(DataFile, "fits", lambda self, names: len(list(names)) == 1)
    assert model_of(run, folder, *given) == there  # on one machine, on disk


@pytest.mark.parametrize("kind", ["groups and time", "several classes"])
def test_workers_change_no_bit_of_a_model(run, folder, monkeypatch, kind):
    found = []
    for count in (1, 7):
        given_to(Posted(count), monkeypatch)
        found.append(model_of(run, folder, *FITS[kind], "--workers", 1))
    assert found[0] == found[1]


def test_little_memory_is_enough(run, tmp_path, monkeypatch):
    monkeypatch.setattr(surveyed, "LEAST", 30_000)
    rng = np.random.default_rng(1)
    x = rng.standard_normal((180_000, 6))
    kind = rng.choice(["a", "b"], len(x))
    columns = {"y": x.sum(axis=1) + (kind == "b") + rng.standard_normal(len(x)), "kind": kind}
    columns |= {f"x{k}": pa.array(x[:, k], mask=rng.random(len(x)) < 0.001) for k in range(6)}
    parquet.write_table(pa.table(columns), tmp_path / "data.parquet", row_group_size=10_000)
    given = (tmp_path / "data.parquet", "--target", "y", *DROP)
    here, there = (model_of(run, *given, "--memory", memory) for memory in ("1 GB", "26 MB"))
    assert same({**here, "fitted": None}, {**there, "fitted": None})
    assert "Measured on the rows" not in str(here["fitted"])


def test_a_person_is_told_the_same(run, folder, pool):
    given = ("fit", folder, *FITS["groups and time"])
    here, there = (run(*given, *more) for more in ((), ("--workers", 1)))
    assert there.exit_code == here.exit_code == 0
    assert there.stdout == here.stdout
    assert "2 gaps" in here.stdout.replace("\n", " ")


def test_a_report(run, folder, pool, tmp_path):
    model, page = tmp_path / "model.json", tmp_path / "page.html"
    given = FITS["groups and time"]
    result = run("fit", folder, *given, "--out", model, "--report", page, "--workers", 1)
    assert result.exit_code == 0, result.stderr
    assert "day=Tue" in page.read_text()
    asked = ("--report", page, "--workers", 1)
    result = run("predict", model, folder, "--out", tmp_path / "parts", *asked)
    assert result.exit_code == 0, result.stderr
    assert "predictions of heat" in page.read_text()
    assert run("diagnose", folder, *DROP, *asked).exit_code == 0


def test_a_page_draws_some_of_many_rows(run, folder, pool, tmp_path, monkeypatch):
    from multireplay.cli import predicted

    model, page = tmp_path / "model.json", tmp_path / "page.html"
    model_of(run, folder, *PLAIN, "--out", model)
    monkeypatch.setattr(predicted, "DRAWN", 300)
    assert run("predict", model, folder, "--out", tmp_path / "parts", "--report", page, "--workers", 1).exit_code == 0
    assert "every 10th row, 300 of them" in page.read_text()


PREDICTED = ["groups and time", "two classes", "several classes", "exposure", "a formula"]


@pytest.mark.parametrize("kind", PREDICTED)
def test_predictions_are_those_of_one_machine(run, folder, pool, tmp_path, kind):
    model, alone, parts = tmp_path / "model.json", tmp_path / "alone.parquet", tmp_path / "parts"
    model_of(run, folder, *FITS[kind], "--out", model)
    here = run("predict", model, folder, "--out", alone, "--interval", "--json")
    there = run("predict", model, folder, "--out", parts, "--interval", "--json", "--workers", 1)
    assert there.exit_code == 0, there.stderr
    one, other = parquet.read_table(alone), parquet.read_table(parts)
    assert other.column_names == one.column_names
    for name in one.column_names:  # rows at the borders of parts are multiplied with other neighbours
        here_, there_ = (table.column(name).to_pylist() for table in (one, other))
        assert same(here_, there_)
    assert len(list(parts.iterdir())) > 3
    both = json.loads(here.stdout), json.loads(there.stdout)
    assert same(both[0]["score"], both[1]["score"])
    assert both[1]["not_predicted"] == both[0]["not_predicted"]
    assert both[1]["rows"] == ROWS
    again = run("predict", model, folder, "--out", parts, "--workers", 1)
    assert again.exit_code != 0
    assert "new folder" in again.stderr


@pytest.mark.parametrize("more", [("--columns", "z,heat"), DROP, (*DROP, "--group", "site", "--time", "when")])
def test_a_diagnosis_is_that_of_one_machine(run, folder, pool, monkeypatch, more):
    here, there = (json.loads(run("diagnose", folder, "--json", *more, *by).stdout) for by in ((), ("--workers", 1)))
    assert same(here, there)
    monkeypatch.setattr(DataFile, "fits", lambda self, names: len(list(names)) == 1)
    assert json.loads(run("diagnose", folder, "--json", *more).stdout) == there


REFUSED = {
    "missing": (("--target", "heat", "--features", "x"), "rows cannot be used, the first at row"),
    "groups that take turns": (("--target", "heat", "--features", "z", "--group", "turn"), "take turns"),
    "steps": ((*PLAIN, "--step", "0.1"), "--step"),
    "text": (("--target", "day", "--features", "z"), "classes are for --model logistic"),
    "one class": (("--target", "name", "--features", "z", "--model", "logistic"), "only one class"),
    "no such column": (("--target", "heta"), "did you mean 'heat'"),
}


@pytest.mark.parametrize(("given", "sentence"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_is_refused(run, folder, pool, given, sentence):
    result = run("fit", folder, *given, "--workers", 1)
    assert result.exit_code != 0
    assert sentence in " ".join(result.stderr.split())


def test_a_text_table_is_read_as_it_was_described(run, table, pool, tmp_path):
    path = tmp_path / "data.csv"
    some = table.select(["z", "heat", "day"]).slice(0, 900)
    broken = pa.array(["off" if row % 90 == 0 else f"{z:.6f}" for row, z in enumerate(some["z"].to_pylist())])
    csv.write_csv(some.set_column(0, "z", broken), path, csv.WriteOptions(delimiter=";"))
    given = ("--target", "heat", *DROP, "--na", "off", "--separator", ";")
    here, there = (model_of(run, path, *given, *more) for more in ((), ("--workers", 1)))
    assert same(here, there)
    assert there["fitted"]["rows"] < 895


def test_a_file_that_changes_on_the_way_is_named(run, table, tmp_path, monkeypatch):
    path = tmp_path / "data.parquet"
    parquet.write_table(table, path)

    class Meddling(Posted):
        def submit(self, function, task):
            if len(self.sent) == 7:
                parquet.write_table(table.slice(1), path)
                surveyed._opened.cache_clear()  # another worker
            return super().submit(function, task)

    given_to(Meddling(), monkeypatch)
    result = run("fit", path, *PLAIN, "--workers", 1)
    assert result.exit_code != 0
    assert f"{path} has changed" in " ".join(result.stderr.split())


def test_an_address_where_nobody_is(monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(cluster, "SECONDS", 0.2)
    with pytest.raises(InputError, match="no Dask scheduler"), cluster.workers_of("tcp://127.0.0.1:1", None):
        pass
    with pytest.raises(InputError, match="not both"), cluster.workers_of("tcp://127.0.0.1:1", 2):
        pass


@pytest.fixture(scope="module")
def client():
    pytest.importorskip("distributed")
    with cluster.workers_of(None, 2) as found:
        yield found


def test_a_local_cluster(run, folder, client, monkeypatch):
    given = FITS["groups and time"]
    given_to(Posted(1), monkeypatch)
    there = model_of(run, folder, *given, "--workers", 1)
    given_to(client, monkeypatch)
    assert model_of(run, folder, *given, "--workers", 2) == there


def test_workers_do_not_write_to_the_terminal(capfd):
    """As they would on Ctrl-C, which a terminal sends to all of them."""
    program = "import os, signal; os.kill(os.getpid(), signal.SIGINT); input()"
    with cluster.mute():
        child = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE)
    child.communicate()
    assert child.returncode
    os.write(2, b"after")
    assert capfd.readouterr().err == "after"
