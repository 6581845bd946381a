"""Files that nobody here made: every command reads them as meant, or ends with one sentence on what to type or mend."""

from __future__ import annotations

import json
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

ROWS = 60
RNG = np.random.default_rng(11)
X, Z = RNG.standard_normal((2, ROWS)).round(2)
BASE = pd.DataFrame({"x": X, "z": Z, "y": (2 * X - Z + 0.1 * RNG.standard_normal(ROWS)).round(3)})
HOURS = pd.date_range("2024-10-26", periods=ROWS, freq="h")
BERLIN = pd.date_range("2024-10-26", periods=ROWS, freq="h", tz="Europe/Berlin")
TABLE = pa.Table.from_pandas(BASE, preserve_index=False)


def text(frame=BASE, **options):
    return frame.to_csv(index=False, **options)


def cells(way):
    """The file with its first column written another way."""
    return text(BASE.assign(x=[way(value) for value in BASE["x"]]))


def times(*when):
    return text(BASE.assign(when=when))


def beside(column):
    """A Parquet file with another column."""
    return TABLE.append_column("k", column)


@pytest.fixture
def commands(run, tmp_path):
    """A way to put a file through all commands: its model, None if there is none, and what was said by each."""

    def through(file, *options):
        path, model = tmp_path / ("d.parquet" if isinstance(file, pa.Table) else "d.csv"), tmp_path / "m.json"
        if isinstance(file, pa.Table):
            parquet.write_table(file, path)
        else:
            path.write_bytes(file if isinstance(file, bytes) else file.encode())
        model.unlink(missing_ok=True)
        done = {"fit": run("fit", path, "--target", "y", "--out", model, "--holdout", 0, *options)}
        if model.exists():
            done["predict"] = run("predict", model, path, "--out", tmp_path / "out.csv", "--force")
        done |= {name: run(name, path) for name in ("diagnose", "inspect")}
        for name, result in done.items():
            assert result.exit_code in (0, 3), (name, result.output)
            assert "Traceback" not in result.stderr
            assert "Unexpected" not in result.stderr
        told = {name: " ".join(result.stderr.split()) if result.exit_code else "" for name, result in done.items()}
        return json.loads(model.read_text()) if model.exists() else None, told

    return through


SAME = {
    "UTF-16 with its mark": text().encode("utf-16"),
    "UTF-16 without": text(sep="\t").encode("utf-16-le"),
    "UTF-16, the other way round": text().encode("utf-16-be"),
    "Windows' letters": text(BASE.assign(name="ö €")).encode("cp1252"),
    "accounts": cells(lambda v: f"(${-v:.2f})" if v < 0 else f"${v:.2f}"),
    "codes of currencies": cells(lambda v: f"EUR {v:.2f}"),
    "units": cells(lambda v: f"{v} °C"),
    "units without a blank": cells(lambda v: f"{v}kg"),
    "a typographer's minus": cells(lambda v: str(v).replace("-", "−")),
    "plus signs": cells("{:+.2f}".format),
    "negative zeros": text(BASE.assign(name="same")).replace(",0.0,", ",-0.0,"),
    "the target first": text(BASE[["y", "x", "z"]]),
    "trailing commas": text().replace("\n", ",\n"),
    "decimals in Parquet": pa.table(
        {name: pa.array([Decimal(str(value)) for value in BASE[name]], pa.decimal256(50, 3)) for name in BASE}
    ),
    "a constant column": text(BASE.assign(c=5)),
    "an empty column": text(BASE.assign(c="")),
    "long texts": text(BASE.assign(c=["word " * 3000 + str(k) for k in range(ROWS)])),
    "JSON in a column": text(BASE.assign(c=[json.dumps({"a": k, "b": [1, 2]}) for k in range(ROWS)])),
    "nested": beside(pa.array([{"a": 1, "b": [1]}] * ROWS)),
    "maps": beside(pa.array([[("a", 1)]] * ROWS, pa.map_(pa.string(), pa.int64()))),
    "lists of texts": beside(pa.array([["a", "b"]] * ROWS)),
    "durations": beside(pa.array(np.arange(ROWS).astype("timedelta64[s]"))),
    "bytes": beside(pa.array([b"\0\1"] * ROWS)),
    "names in a dictionary": beside(pa.array([f"row {k}" for k in range(ROWS)]).dictionary_encode()),
}


@pytest.mark.parametrize("file", SAME.values(), ids=SAME)
def test_the_same_numbers_give_the_same_fit(commands, file):
    plain = np.array(commands(text())[0]["coef"])
    found, told = commands(file)
    assert found["features"] == ["x", "z"]
    assert found["coef"] == pytest.approx(plain, rel=1e-9)
    assert not any(told.values())


def test_windows_letters_are_read_as_windows_writes_them(commands):
    found, _ = commands(text(BASE.rename(columns={"x": "größe in €"})).encode("cp1252"))
    assert found["features"] == ["größe in €", "z"]


WHEN = {
    "days of weeks": [f"2024-W{43 + k // 7}-{k % 7 + 1}" for k in range(ROWS)],
    "the word UTC": [f"{t:%Y-%m-%d %H:%M:%S} UTC" for t in HOURS],
    "a Z": [f"{t:%Y-%m-%dT%H:%M:%S}Z" for t in HOURS],
    "a zone after a blank": [f"{t:%Y-%m-%d %H:%M:%S} +0100" for t in HOURS],
    "zones that change": [t.isoformat() for t in BERLIN],
    "days of the week": [f"{t:%a %b %d %Y}" for t in pd.date_range("2024-10-26", periods=ROWS)],
    "parts of a second": [f"{t:%d/%m/%Y %H:%M:%S}.{k % 10}25" for k, t in enumerate(HOURS)],
    "seconds": (1_729_900_800 + 3600 * np.arange(ROWS)).tolist(),
    "milliseconds": (1_729_900_800_000 + 3_600_000 * np.arange(ROWS)).tolist(),
    "nanoseconds": ((1_729_900_800 + 3600 * np.arange(ROWS)) * 10**9).tolist(),
}


@pytest.mark.parametrize("when", WHEN.values(), ids=WHEN)
def test_times_are_the_time_however_they_are_written(commands, when):
    found, told = commands(times(*when))
    assert (found["features"], found["fitted"]["time"]) == (["x", "z"], "when")
    assert found["fitted"]["chains"] == 1
    assert not any(told.values())


def test_parts_of_a_second_count(commands):
    found, _ = commands(times(*(f"26/10/2024 10:00:{k // 10:02d}.{k % 10}" for k in range(ROWS))))
    assert "to 2024-10-26 10:00:05.9" in found["fitted"]["about_rows"][0]
    assert len(found["fitted"]["about_rows"]) == 1  # no time is there twice


def test_the_hour_that_is_there_twice_ends_a_chain_unless_zones_tell_it_apart(commands):
    found, _ = commands(times(*BERLIN.tz_localize(None).astype(str)))
    assert "1 time in 'when' there twice, first 2024-10-27 02:00" in str(found["fitted"]["about_rows"])
    found, _ = commands(TABLE.append_column("when", pa.array(BERLIN)))
    assert found["fitted"]["chains"] == 1


@pytest.mark.parametrize("pair", [("Yes", "No"), ("Y", "N"), ("on", "off"), ("t", "f"), ("+", "-")])
def test_two_words_are_categories(commands, pair):
    found, told = commands(text(BASE.assign(b=np.where(BASE["x"] > 0, *pair))))
    assert found["features"] == ["x", "z", f"b={max(pair)}"]
    assert not any(told.values())


@pytest.mark.parametrize("words", [("True", "False"), ("true", "false"), ("1", "0")])
def test_truth_is_a_number(commands, words):
    assert commands(text(BASE.assign(b=np.where(BASE["x"] > 0, *words))))[0]["features"] == ["x", "z", "b"]


def test_words_that_differ_in_capitals_are_told(commands):
    found, _ = commands(text(BASE.assign(b=["Yes", "yes", "No"] * (ROWS // 3))))
    assert "'b' has 'Yes', 'yes', which are taken for different ones." in found["fitted"]["about_rows"]


CODES = [f"{k % 3:02d}" for k in range(ROWS)]


class TestZerosBeforeNumbers:
    def test_are_categories(self, commands):
        for file in (text(BASE.assign(zip=CODES)), TABLE.append_column("zip", pa.array(CODES))):
            found, told = commands(file)
            assert found["features"] == ["x", "z", "zip=01", "zip=02"]
            assert not any(told.values())

    def test_of_many_kinds_are_names(self, commands, run, tmp_path):
        found, _ = commands(text(BASE.assign(id=[f"{k:05d}" for k in range(ROWS)])))
        assert "holds 60 different numbers with zeros before them, as 00000," in found["fitted"]["left_out"]["id"]
        assert "at most 50, of 4 rows each on average, unless asked for with --categorical id" in str(found["fitted"])
        assert pd.read_csv(tmp_path / "out.csv", dtype=str)["id"][7] == "00007"

    def test_are_classes(self, run, tmp_path):
        labels = np.where(BASE["x"] > 0, "01", "02")
        (tmp_path / "d.csv").write_text(text(BASE[["x", "z"]].assign(c=labels)))
        model, out = tmp_path / "m.json", tmp_path / "out.csv"
        run("fit", tmp_path / "d.csv", "--target", "c", "--model", "logistic", "--out", model)
        assert json.loads(model.read_text())["classes"] == ["01", "02"]
        assert "accuracy" in run("predict", model, tmp_path / "d.csv", "--out", out).stderr
        assert set(pd.read_csv(out, dtype=str)["prediction"]) == {"01", "02"}

    def test_far_down_and_beside_nothing(self, commands):
        found, _ = commands(text(BASE.assign(k=["7", "8"] * (ROWS // 2 - 1) + ["", "07"])), "--missing", "drop")
        assert found["features"] == ["x", "z", "k=7", "k=8"]

    def test_are_a_time_if_asked_for(self, commands):
        found, _ = commands(text(BASE.assign(k=[f"{k:04d}" for k in range(ROWS)])), "--time", "k")
        assert "Time is 'k', from 0 to 59." in found["fitted"]["about_rows"]


def test_texts_for_nothing_are_that_among_texts_too(commands):
    file = text(BASE.assign(k=["a", "b", "NA", "broken", "?", "a"] * (ROWS // 6)))
    found, _ = commands(file, "--na", "broken", "--missing", "drop")
    assert found["features"] == ["x", "z", "k=b"]
    assert found["fitted"]["rows_dropped"] == {"nothing in 'k'": ROWS // 2}
    assert "30 with nothing in 'k'" in commands(file, "--na", "broken")[1]["fit"]


def test_text_of_the_new_kind_in_parquet(commands):
    kind = getattr(pa, "string_view", None)
    if kind is None:
        pytest.skip("this Arrow has none")
    found, told = commands(beside(pa.array(["a", "b"] * (ROWS // 2), kind())))
    assert found["features"] == ["x", "z", "k=b"]
    assert not any(told.values())


REFUSED = {
    "a title in cells": ("Export,,\nPlant 3,,\n" + text(), "cells without a name in its first line: put the names"),
    "a title": ("Export\nPlant 3\n" + text(), "put the names first, and remove titles"),
    "two lines of names": ("sensors,sensors,out\n" + text(), "two columns called 'sensors': rename one"),
    "units below the names": (text().replace("y\n", "y\nm,s,kg\n", 1), "column 'x' holds numbers, but text in 1 of 61"),
    "the same name twice": (text().replace("x,z,y", "x,x,y"), "two columns called 'x'"),
    "infinity": (text().replace("\n", "\ninf,1,1\n", 1), "1 with infinity in 'x'. Leave them out with --missing drop"),
    "1e308": (text().replace("\n", "\n1e308,1,1\n", 1), "1 with a number beyond 1e+100 in 'x'"),
    "one row": (text(BASE[:1]), "has 1 rows that can be used, and a fit needs 4"),
    "no rows": ("x,z,y\n", "it has no rows below the names"),
    "nothing": ("", "no names with rows below them"),
    "a page": ("<html><body></body></html>", "no names with rows below them"),
    "JSON": (json.dumps([{"x": 1}]), "no names with rows below them"),
    "only the target": (text(BASE[["y"]]), "has no column to predict 'y' from"),
    "constants": (text(BASE.assign(x=1, z=2)), "'x' is 1 in all rows, 'z' is 2 in all rows"),
    "another separator": (text(sep="^"), "give it with --separator"),
    "limits of detection": (text().replace("\n", "\n<0.1,1,1\n", 1), "'<0.1' at row 0"),
    "Excel's errors": (text().replace("\n", "\n#DIV/0!,1,1\n", 1), "'#DIV/0!' at row 0"),
    "days whose hours are elsewhere": (
        text(BASE.assign(day=HOURS.strftime("%Y-%m-%d"), hour=HOURS.strftime("%H:%M"))), "days without their hours",
    ),
    "no rows in Parquet": (TABLE.slice(0, 0), "is empty: it has no rows"),
    "a nested target": (TABLE.set_column(2, "y", pa.array([{"a": 1.0}] * ROWS)), "the target 'y' holds struct"),
}  # fmt: skip


@pytest.mark.parametrize(("file", "sentence"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_used_is_named(commands, file, sentence):
    model, told = commands(file)
    assert model is None
    assert sentence in told["fit"]
    assert told["fit"].count("d.csv") + told["fit"].count("d.parquet") <= 1


def test_an_encoding_that_is_not_that_of_the_file_is_named(commands):
    said = commands(text(BASE.rename(columns={"z": "ö"})), "--encoding", "ascii")[1]["fit"]
    assert "is not written in ascii" in said


def test_the_end_of_every_group_is_held_out(run, tmp_path):
    """The last group is unlike the others: alone, it would be no judge of the fit."""
    rng = np.random.default_rng(4)
    group, x = np.repeat(["a", "b", "c"], 40), rng.standard_normal(120)
    frame = pd.DataFrame({"g": group, "x": x, "y": x + 50 * (group == "c") * rng.standard_normal(120)})
    frame.to_csv(tmp_path / "d.csv", index=False)
    done = run("fit", tmp_path / "d.csv", "--target", "y", "--group", "g", "--out", tmp_path / "m.json")
    assert "A fit to the other 96 rows has on the last rows of 3 of 3 groups (24 rows) R²" in " ".join(
        done.stdout.split()
    )
    held = json.loads((tmp_path / "m.json").read_text())["fitted"]["holdout"]
    assert (held["learnt"], held["rows"], held["groups"]) == (96, 24, 3)
    assert "on the last rows of 3 of 3 groups (24 rows), which a trial fit had not seen" in " ".join(
        run("inspect", tmp_path / "m.json").stdout.split()
    )
