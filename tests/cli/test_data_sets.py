"""Every data set that statsmodels and scikit-learn bring along goes through all commands, written as people have it."""

from __future__ import annotations

import json
from importlib import import_module

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("statsmodels")

SERIES = ("co2", "elec_equip")
"""A date and one number a row: nothing to predict it from."""
LINEAR = {
    "anes96": "income", "cancer": "population", "ccard": "AVGEXP", "china_smoking": "smoking_no_cancer_no",
    "committee": "BILLS104", "copper": "WORLDCONSUMPTION", "cpunish": "DEGREE", "danish_data": "lrm", "elnino": "DEC",
    "engel": "foodexp", "fair": "affairs", "fertility": "2011", "grunfeld": "invest", "heart": "survival",
    "interest_inflation": "R", "longley": "TOTEMP", "macrodata": "infl", "modechoice": "gc", "nile": "volume",
    "randhie": "mdvis", "scotland": "YES", "spector": "GPA", "stackloss": "STACKLOSS", "star98": "NABOVE",
    "statecrime": "murder", "strikes": "duration", "sunspots": "SUNACTIVITY",
    "diabetes": "target", "digits": "target", "linnerud": "Pulse",
}  # fmt: skip
CLASSES = {
    "anes96": "vote", "ccard": "OWNRENT", "fair": "rate_marriage", "grunfeld": "firm", "heart": "censors",
    "modechoice": "choice", "spector": "GRADE", "iris": "target", "wine": "target", "breast_cancer": "target",
    "digits": "target",
}  # fmt: skip
COUNTS = {
    "cancer": "cancer", "committee": "BILLS104", "cpunish": "EXECUTIONS", "randhie": "mdvis", "stackloss": "STACKLOSS",
}  # fmt: skip
OF_SKLEARN = ("iris", "wine", "breast_cancer", "digits", "diabetes", "linnerud")
MORE = {
    "fertility": ("--missing", "drop"),
    "danish_data": ("--time", "period"),
    "nile": ("--features", "lag"),
    "randhie": ("--features", "lncoins,lpi,disea"),
}
"""What a person would say besides, having seen what the command says without it."""


def frame_of(name):
    if name in OF_SKLEARN:
        found = getattr(import_module("sklearn.datasets"), f"load_{name}")(as_frame=True).frame
    else:
        found = import_module(f"statsmodels.datasets.{name}").load_pandas().data
    if name == "nile":
        found = found.assign(lag=found["volume"].shift().bfill())
    if name == "fertility":  # 2012 and 2013 are nearly empty, as is the fertility of some countries
        found = found.drop(columns=["2012"])
    return found


def written(name, folder, ending):
    """With the index as pandas writes it, in a file of the kind."""
    path, found = folder / f"{name}{ending}", frame_of(name)
    if ending == ".parquet":
        found.to_parquet(path)
    else:
        found.to_csv(path, sep=";" if ending == ".txt" else ",", decimal="," if ending == ".txt" else ".")
    return path


def looked_at(page):
    """A page that is whole, and not too large for a mail."""
    text = page.read_text(encoding="utf-8")
    assert text.rstrip().endswith("</html>")
    assert 10_000 < page.stat().st_size < 2e6
    return text.partition("<main")[2].partition("</main>")[0]


def gone_through(run, folder, path, target, kind, *more):
    """All commands, one after the other; what came of each is looked at."""
    model, page, out = folder / "model.json", folder / "page.html", folder / "out.csv"
    done = run("fit", path, "--target", target, "--model", kind, "--out", model, "--report", page, *more)
    assert done.exit_code in (0, 5), done.stderr
    found = json.loads(model.read_text())
    assert np.isfinite(np.asarray(found["coef"])).all()
    table = pd.read_parquet(path).reset_index() if path.suffix == ".parquet" else None
    if table is not None:
        used = {name.split("=")[0] for name in found["features"]}
        told = used | {target, found["fitted"]["time"], *found["fitted"]["left_out"]}
        assert set(table.columns) <= told | {"index"} or more  # no column goes without a word
    assert 'class="canvas"' in looked_at(page)
    done = run("predict", model, path, "--out", out, "--report", page)
    assert done.exit_code == 0, done.stderr
    text = looked_at(page)
    assert text.index('class="canvas"') < text.index(" predictions of ")  # it opens on a picture
    assert ">Beside what was observed<" in text
    predicted = pd.read_csv(out)
    assert len(predicted) == found["fitted"]["rows"] + sum(found["fitted"]["rows_dropped"].values()) or more
    assert predicted["prediction"].notna().sum() >= found["fitted"]["rows"]


CASES = [(name, "linear", target) for name, target in LINEAR.items()]
CASES += [(name, "logistic", target) for name, target in CLASSES.items()]
CASES += [(name, "poisson", target) for name, target in COUNTS.items()]
ENDINGS = (".csv", ".parquet", ".txt")


@pytest.mark.parametrize(("name", "kind", "target"), CASES)
def test_a_set_goes_through_fit_and_predict_with_pages(run, tmp_path, name, kind, target):
    ending = ENDINGS[(len(name) + len(kind)) % 3]
    more = MORE.get(name, ())
    if (name, kind) == ("digits", "logistic"):  # ten classes of 64 columns take a while
        more = ("--features", "pixel_2_2,pixel_3_4,pixel_5_5")
    gone_through(run, tmp_path, written(name, tmp_path, ending), target, kind, *more)


@pytest.mark.parametrize("name", sorted({*LINEAR, *CLASSES, *SERIES}))
def test_a_set_goes_through_diagnose(run, tmp_path, name):
    path, page = written(name, tmp_path, ".parquet"), tmp_path / "page.html"
    done = run("diagnose", path, "--json", "--report", page)
    empty = frame_of(name).select_dtypes("number").isna().any().any()
    assert done.exit_code == (3 if empty else 0), done.stderr
    if empty:
        assert "with nothing in '" in done.stderr
        assert "the first at row" in done.stderr
        assert not page.exists()
        done = run("diagnose", path, "--json", "--report", page, "--missing", "drop")
        assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["tau"]
    assert 'class="canvas"' in looked_at(page)


@pytest.mark.parametrize("name", SERIES)
def test_a_date_and_a_number_are_nothing_to_predict_from(run, tmp_path, name):
    path = written(name, tmp_path, ".csv")
    target = frame_of(name).columns[0]
    done = run("fit", path, "--target", target)
    assert done.exit_code == 3
    assert "no column to predict" in done.stderr
    assert "besides the time" in done.stderr


def test_a_target_that_is_empty_in_all_rows_is_named(run, tmp_path):
    done = run("fit", written("fertility", tmp_path, ".csv"), "--target", "2013")
    assert done.exit_code == 3
    assert "'2013' is empty in all rows" in done.stderr


def test_every_set_is_here():
    from pkgutil import iter_modules

    import statsmodels.datasets

    there = {one.name for one in iter_modules(statsmodels.datasets.__path__) if one.ispkg} - {"tests"}
    assert there <= {*LINEAR, *CLASSES, *COUNTS, *SERIES}
