"""Files as people have them: each is read as meant, or refused with a sentence that names what to mend."""

from __future__ import annotations

import json
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

ROWS = 80


@pytest.fixture
def base():
    rng = np.random.default_rng(5)
    x, z = rng.standard_normal((2, ROWS)).round(3)
    return pd.DataFrame({"x": x, "z": z, "y": (2 * x - z + 0.1 * rng.standard_normal(ROWS)).round(3)})


@pytest.fixture
def fitted(run, tmp_path):
    """The model of a file with this text, frame or Arrow table, and what was said on the way."""

    def fit(file, *options, target="y", name="data.csv"):
        path, out = tmp_path / name, tmp_path / "model.json"
        if isinstance(file, str | bytes):
            path.write_bytes(file.encode() if isinstance(file, str) else file)
        elif isinstance(file, pa.Table):
            parquet.write_table(file, path := tmp_path / "data.parquet")
        else:
            file.to_csv(path, index=False)
        done = run("fit", path, "--target", target, "--out", out, *options)
        assert done.exit_code == 0, done.stderr
        return json.loads(out.read_text()), done.stderr

    return fit


@pytest.fixture
def refused(run, tmp_path):
    """The sentence with which a file is refused."""

    def refuse(file, *options, target="y"):
        path = tmp_path / "data.csv"
        if isinstance(file, str):
            path.write_text(file)
        elif isinstance(file, pa.Table):
            parquet.write_table(file, path := tmp_path / "data.parquet")
        else:
            file.to_csv(path, index=False)
        done = run("fit", path, "--target", target, *options)
        assert done.exit_code == 3, done.output
        return " ".join(done.stderr.split())

    return refuse


def as_lines(frame, cells, separator=","):
    """The names and lines of a frame, its numbers as `cells` writes them, column by column."""
    lines = [separator.join(way(value) for way, value in zip(cells, row, strict=True)) for row in frame.to_numpy()]
    return "\n".join([separator.join(frame.columns), *lines, ""])


TEXTS = {
    "names with blanks": lambda t: t.replace("x,z,y", "x , z,  y "),
    "cells with blanks": lambda t: t.replace(",", ", "),
    "quotes after a blank": lambda t: "\n".join(", ".join(f'"{c}"' for c in line.split(",")) for line in t.split()),
    "comments above": lambda t: "# logger 3, of the north plant\n# in metres\n\n" + t,
    "names in a comment": lambda t: "# " + t,
    "excel's separator": lambda t: "sep=;\n" + t.replace(",", ";"),
    "runs of spaces": lambda t: t.replace(",", "    "),
    "a separator at the end": lambda t: t.replace("\n", ",\n"),
    "empty cells at the bottom": lambda t: t + ",,\n,,\n",
    "blank lines at the bottom": lambda t: t + "\n   \n\n",
    "no end of the last line": lambda t: t.rstrip(),
    "windows": lambda t: "\ufeff" + t.replace("\n", "\r\n"),
    "old macs": lambda t: t.replace("\n", "\r"),
}


@pytest.mark.parametrize("change", TEXTS.values(), ids=TEXTS)
def test_a_text_table_is_read_however_it_is_written(fitted, base, change):
    plain = fitted(base)[0]
    found, said = fitted(change(base.to_csv(index=False)))
    assert found["features"] == ["x", "z"]
    assert found["coef"] == plain["coef"]
    assert "Left out" not in said


NUMBERS = {
    "1,234.5": (lambda v: f'"{v:,.1f}"', ","),
    "1.234,5": (lambda v: f"{v:,.1f}".replace(",", "_").replace(".", ",").replace("_", "."), ";"),
    "1 234.5": (lambda v: f"{v:,.1f}".replace(",", " "), ";"),
    "$1,234.5": (lambda v: f'"{v:,.1f}"'.replace('"-', '"-$') if v < 0 else f'"${v:,.1f}"', ","),
    "1234.5 €": (lambda v: f"{v:.1f} €", ","),
    "1234.5%": (lambda v: f"{v:.1f}%", ","),
}


@pytest.mark.parametrize(("way", "separator"), NUMBERS.values(), ids=NUMBERS)
def test_numbers_are_read_as_people_write_them(fitted, base, way, separator):
    base["x"] *= 10_000
    plain = fitted(base.round(1))[0]
    comma = separator == ";" and way(0.5) == "0,5"
    other = (lambda v: f"{v:.1f}".replace(".", ",")) if comma else "{:.1f}".format
    found, _ = fitted(as_lines(base, (way, other, other), separator))
    assert found["features"] == ["x", "z"]
    assert found["coef"] == plain["coef"]


TIMES = {
    "quarters": [f"{2000 + k // 4}Q{k % 4 + 1}" for k in range(ROWS)],
    "quarters first": [f"Q{k % 4 + 1} {2000 + k // 4}" for k in range(ROWS)],
    "months": [f"{2000 + k // 12}M{k % 12 + 1:02d}" for k in range(ROWS)],
    "months in words": pd.date_range("2000-01-01", periods=ROWS, freq="MS").strftime("%B %Y"),
    "short months": pd.date_range("2000-01-01", periods=ROWS, freq="MS").strftime("%b-%y"),
    "american": pd.date_range("2000-01-01", periods=ROWS, freq="D").strftime("%B %d, %Y"),
    "noon": pd.date_range("2000-01-01", periods=ROWS, freq="h").strftime("%m/%d/%Y %I:%M %p"),
    "weeks": [f"{2000 + k // 52}-W{k % 52 + 1:02d}" for k in range(ROWS)],
    "short years": pd.date_range("2000-01-01", periods=ROWS, freq="D").strftime("%d/%m/%y"),
}


@pytest.mark.parametrize("when", TIMES.values(), ids=TIMES)
def test_times_of_many_kinds_are_the_time(fitted, base, when):
    found, _ = fitted(base.assign(when=when))
    assert found["fitted"]["time"] == "when"
    assert found["fitted"]["chains"] == 1
    assert "from 2000-01-0" in found["fitted"]["about_rows"][0]


def test_iso_times_with_a_zone_are_times_in_parquet_too(fitted, base):
    zoned = pd.date_range("2024-10-26", periods=ROWS, freq="h", tz="Europe/Berlin")
    table = pa.Table.from_pandas(base).append_column("when", pa.array([one.isoformat() for one in zoned]))
    found, _ = fitted(table)
    assert found["fitted"]["time"] == "when"
    assert found["fitted"]["chains"] == 1  # an hour that is there twice is told apart by its zone


def test_a_gap_in_unix_times_is_shown_to_the_second(fitted, base):
    seconds = 1_700_000_000 + 60 * np.arange(ROWS) + 3600 * (np.arange(ROWS) > 40)
    found, _ = fitted(base.assign(ts=seconds), "--time", "ts")
    assert "first from 1700002400 to 1700006060" in found["fitted"]["about_rows"][1]


def test_times_of_day_alone_are_not_the_time(fitted, base):
    clock = [f"{k % 24:02d}:30:00" for k in range(ROWS)]
    _, said = fitted(base.assign(clock=clock))
    assert "'clock' holds times of day" in said


def test_a_total_below_dates_is_no_row(refused, base):
    base.insert(0, "day", pd.date_range("2024-01-01", periods=ROWS).astype(str))
    said = refused(base.to_csv(index=False) + "Total,1.0,2.0,3.0\n")
    assert "column 'day' holds dates, but text in 1 of 81 rows: 'Total' at row 80" in said
    assert "line 'Total'" in refused(base.to_csv(index=False) + "Total\n")


def test_a_title_above_the_names_is_named(refused, base):
    assert "put the names first" in refused("The north plant\n\n" + base.to_csv(index=False))


def test_names_larger_than_numbers_are_no_feature(fitted, refused, base):
    base["id"] = 2**53 + 1 + np.arange(ROWS)
    found, said = fitted(base)
    assert found["features"] == ["x", "z"]
    assert "'id' holds whole numbers beyond" in said
    assert "names rather than amounts" in refused(base, "--features", "x,id")


def test_classes_that_are_large_numbers_keep_their_names(fitted, base):
    base["c"] = np.where(base["x"] > 0, 2**53 + 1, 2**53 + 3)
    assert fitted(base, "--model", "logistic", target="c")[0]["classes"] == [2**53 + 1, 2**53 + 3]


def test_decimals_are_numbers_in_all_commands(fitted, run, tmp_path, base):
    table = pa.table({name: pa.array([Decimal(str(v)) for v in base[name]]) for name in base})
    assert fitted(table)[0]["features"] == ["x", "z"]
    done = run("diagnose", tmp_path / "data.parquet", "--json")
    assert json.loads(done.stdout)["left_out"] == []


def test_nested_columns_are_left_out_with_a_word_and_predict_still_works(fitted, refused, run, tmp_path, base):
    table = pa.Table.from_pandas(base)
    table = table.append_column("s", pa.array([{"a": 1.0}] * ROWS))
    table = table.append_column("l", pa.array([[1.0] * (1 + k % 2) for k in range(ROWS)]))
    found, _ = fitted(table)
    assert set(found["fitted"]["left_out"]) == {"s", "l"}
    done = run("predict", tmp_path / "model.json", tmp_path / "data.parquet")
    assert done.exit_code == 0, done.stderr
    assert "column 'l' holds lists of 1 and of 2" in refused(table, "--features", "l")


def test_names_with_commas_go_in_quotes(fitted, refused, base):
    base = base.rename(columns={"x": "a,b"})
    assert fitted(base, "--features", '"a,b",z')[0]["features"] == ["a,b", "z"]
    assert "a name with a comma is put in quotes" in refused(base, "--features", "a,b")


@pytest.mark.parametrize("model", ["linear", "poisson"])
def test_a_constant_target_is_refused(refused, base, model):
    assert "the target 'y' is 3 in all rows" in refused(base.assign(y=3), "--model", model)


def test_classes_are_no_numbers_and_no_names(refused, base):
    assert "numbers are for --model linear" in refused(base, "--model", "logistic")
    base["y"] = np.where(base["x"] > 0, 0.5, 1.0)
    assert "which is no class" in refused(base, "--model", "logistic")
    base["y"] = [f"w{k}" for k in range(ROWS)]
    assert "a class needs several rows" in refused(base, "--model", "logistic")
    assert "is empty in all rows" in refused(base.assign(y=""), "--model", "logistic")


def test_counts_below_zero_are_named_by_the_row_of_the_file(fitted, refused, base):
    base["y"], base["g"] = 1.0 + np.arange(ROWS) % 3, np.arange(ROWS) % 2
    base.loc[7, "y"] = -2
    assert "is -2 at row 7 " in refused(base, "--model", "poisson", "--group", "g")
    base.loc[7, "y"] = 0.5
    assert "no whole number in 1 rows" in str(fitted(base, "--model", "poisson")[0]["fitted"]["about_rows"])


def test_a_twin_of_the_target_is_named(fitted, base):
    found, _ = fitted(base.assign(goal=2 * base["y"] + 1))
    assert any("'goal' is 'y' in other units" in said for said in found["fitted"]["about_rows"])
    assert not fitted(base)[0]["fitted"]["about_rows"]


def test_a_category_of_one_level_that_is_asked_for_is_named(refused, base):
    assert "column 'k' is 'only' in all rows" in refused(base.assign(k="only"), "--features", "x,k")


def test_a_category_of_one_level_in_a_formula_is_named(run, tmp_path, base):
    base.assign(k="only").to_csv(tmp_path / "data.csv", index=False)
    done = run("fit", tmp_path / "data.csv", "--formula", "y ~ x + C(k)")
    assert done.exit_code == 3
    assert "'k', which is 'only' in all rows" in done.stderr


def test_a_hash_in_a_name_stays(fitted, base):
    assert fitted(base.rename(columns={"z": "# of z"}))[0]["features"] == ["x", "# of z"]


def test_few_rows_are_counted(refused, base):
    assert "has 3 rows that can be used, and a fit needs 4" in refused(base[:3])


def test_levels_with_blanks_are_the_same(fitted, base):
    base["k"] = np.where(base["z"] > 0, "a", "b")
    base.loc[::2, "k"] += " "
    assert fitted(base)[0]["features"] == ["x", "z", "k=b"]


def test_a_number_for_nothing_is_nothing_however_it_is_written(fitted, run, tmp_path, base):
    base.loc[4, "x"] = -999
    found, _ = fitted(base, "--na", "-999", "--missing", "drop")
    assert found["fitted"]["rows_dropped"] == {"nothing in 'x'": 1}
    done = run("predict", tmp_path / "model.json", tmp_path / "data.csv")
    assert "1 of 80 rows have no prediction" in done.stderr  # the model remembers


def test_a_constant_column_is_no_twin_of_the_target(fitted, base):
    assert not fitted(base.assign(c=1))[0]["fitted"]["about_rows"]


@pytest.mark.parametrize("name", ["x", "y"])
def test_numbers_that_no_one_measures_are_named(refused, base, name):
    base.loc[3, name] = 1e200
    assert f"the first at row 3 (counting from 0): 1 with a number beyond 1e+100 in '{name}'" in refused(base)


@pytest.mark.parametrize("what", ["time", "group"])
def test_the_target_is_nothing_else(refused, base, what):
    assert f"the target 'y' cannot be the {what} too" in refused(base, f"--{what}", "y")


def test_numbers_in_the_way_of_accountants_are_below_zero(fitted, base):
    plain = fitted(base.assign(x=base["x"].round(1)))[0]
    found, _ = fitted(base.assign(x=[f"({-v:.1f})" if v < 0 else f"{v:.1f}" for v in base["x"].round(1)]))
    assert found["coef"] == plain["coef"]


def test_a_workbook_is_to_be_saved_as_text(run, tmp_path):
    (tmp_path / "data.xlsx").write_bytes(b"PK")
    assert "save its sheet as .csv" in run("fit", tmp_path / "data.xlsx", "--target", "y").stderr


class TestNewFiles:
    """A model of the columns x, z and k, and files that are not quite like its own."""

    @pytest.fixture
    def predicted(self, fitted, run, tmp_path, base):
        base["k"] = np.where(base["z"] > 0, "a", "b")
        fitted(base)

        def predict(file, *options):
            file.to_csv(tmp_path / "new.csv", index=False)
            return run("predict", tmp_path / "model.json", tmp_path / "new.csv", *options)

        return predict

    def test_rows_of_which_none_can_be_predicted(self, predicted, base, tmp_path):
        page, out = tmp_path / "page.html", tmp_path / "out.csv"
        done = predicted(base.assign(k="new")[:3], "--report", page, "--out", out)
        assert done.exit_code == 0, done.stderr
        assert "3 of 3 rows have no prediction: 3 with 'new' in 'k'" in done.stderr
        assert page.exists()
        assert pd.read_csv(out)["prediction"].isna().tolist() == [True] * 3  # no line is lost

    def test_text_where_numbers_were(self, predicted, base):
        done = predicted(base.assign(x=["1.5", "2.5", "high", *["3"] * (ROWS - 3)]))
        assert done.exit_code == 3
        assert "new.csv: column 'x' holds 'high' at row 2 (counting from 0)" in " ".join(done.stderr.split())

    def test_another_order_other_blanks_and_whole_numbers(self, predicted, base):
        assert predicted(base.assign(x=1)[["k", "z", "x"]].rename(columns={"x": " x "})).exit_code == 0

    def test_another_case(self, predicted, base):
        done = predicted(base.rename(columns={"x": "X"}))
        assert done.exit_code == 3
        assert "did you mean 'X'?" in done.stderr
