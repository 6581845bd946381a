"""Names of features, in every way a buffer is made, and in what is said of them."""

from __future__ import annotations

import copy
import json
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from written import stored

import multireplay as mr
from multireplay.buffer.buffer import buffer_of
from multireplay.buffer.names import as_names, distinct, names_in

NAMES = ("temp", "hum")
X = np.random.default_rng(40).standard_normal((60, 2))
Y = X @ [1.0, 2.0]
FRAMES = {
    "pandas": pd.DataFrame(X, columns=list(NAMES)),
    "polars": pl.DataFrame(X, schema=list(NAMES)),
    "pyarrow": pa.table(dict(zip(NAMES, X.T, strict=True))),
    "pandas of several types": pd.DataFrame({"temp": X[:, 0], "hum": X[:, 1].astype(np.float32)}),
}

some_names = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), min_size=1, max_size=6)


def buffer(**more):
    return mr.Buffer(features=X, targets=Y, names=NAMES, **more)


def saved(made, folder, **options):
    made.save(folder / "record")
    return mr.Buffer.open(folder / "record", **options)


@pytest.mark.parametrize("kind", FRAMES)
def test_data_frames_keep_theirs(kind):
    made = mr.Buffer(features=FRAMES[kind], targets=Y)
    assert made.feature_names == NAMES
    assert np.allclose(made["features"], X)
    assert mr.solve(mr.GLM(), made).run.names == NAMES


@pytest.mark.parametrize("features", [X, X.tolist(), scipy.sparse.csr_array(X), torch.as_tensor(X)], ids=type)
def test_any_array_takes_names(features):
    made = mr.Buffer(features=features, targets=Y, names=iter(NAMES))
    assert made.feature_names == NAMES
    assert mr.Buffer(features=features, targets=Y).feature_names is None
    assert made[10:].feature_names == made.to_numpy().feature_names == NAMES
    assert made.fingerprint() == mr.Buffer(features=features, targets=Y).fingerprint()
    assert mr.Buffer(features=features, names=np.array(NAMES)).feature_names == NAMES


@pytest.mark.parametrize("again", [lambda made: pickle.loads(pickle.dumps(made)), copy.copy, copy.deepcopy])
def test_copies_have_them(again):
    assert again(buffer()).feature_names == NAMES
    assert again(mr.Buffer(features=X)).feature_names is None
    odd = buffer_of({"names": Y, "features": X})
    assert np.array_equal(again(odd)["names"], Y)


def test_given_names_come_before_those_of_a_frame():
    assert mr.Buffer(features=FRAMES["pandas"], names=["a", "b"]).feature_names == ("a", "b")


@pytest.mark.parametrize("labels", [range(2), ["a", "a"], ["a", ""], ["a", 3], [("a", 1), ("a", 2)]], ids=str)
def test_labels_of_a_frame_that_are_no_names_are_left_out(labels):
    assert mr.Buffer(features=pd.DataFrame(X, columns=labels), targets=Y).feature_names is None


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["temp"], "names needs one for each of the 2 features, but there are 1"),
        (["temp", "hum", "sun"], "names needs one for each of the 2 features, but there are 3"),
        ([], "names needs one for each of the 2 features, but there are 0"),
        (["temp", "temp"], "names must all be different, but 'temp' is there 2 times"),
        (["temp", " "], r"names must not be empty, and at place 1 \(counting from 0\) there is ' '"),
        (["temp", 3], r"names must be texts, .* at place 1 \(counting from 0\) there is 3; a column .* called 'names'"),
        (Y, "names must be texts"),
        ("temp", "names must be a list with a name for every feature, not 'temp'"),
        (5, "names must be a list with a name for every feature, not 5"),
    ],
)
def test_bad_names(names, message, tmp_path):
    with pytest.raises(mr.InputError, match=message):
        mr.Buffer(features=X, targets=Y, names=names)
    np.savez(tmp_path / "record.npz", features=X, targets=Y)
    for memory in ("512 MB", "3 kB"):
        with pytest.raises(mr.InputError, match=message):
            mr.Buffer.open(tmp_path / "record.npz", names=names, memory=memory)


def test_the_same_names_in_another_order_are_refused():
    """Without this, numbers would stand for the wrong features, and nobody would know."""
    now = FRAMES["pandas"]
    with pytest.raises(mr.InputError, match="column 'next_features' has 'hum' where 'features' has 'temp'"):
        mr.Buffer(features=now, next_features=now[["hum", "temp"]])
    with pytest.raises(mr.InputError, match="'features' has 'temp' where names has 'hum'"):
        mr.Buffer(features=now, names=["hum", "temp"])
    later = mr.Buffer(features=now, next_features=now.add_suffix(" later"))
    assert later.feature_names == NAMES


@settings(max_examples=60, deadline=None)
@given(names=some_names)
def test_names_are_taken_as_they_are_or_refused(names, tmp_path_factory):
    fine = len(set(names)) == len(names) and all(name.strip() for name in names)
    features = np.ones((3, len(names)))
    assert distinct(names) == (tuple(names) if fine else None)
    if not fine:
        with pytest.raises(mr.InputError, match="names must"):
            mr.Buffer(features=features, names=names)
        return
    made = mr.Buffer(features=features, names=names)
    assert made.feature_names == as_names(names) == tuple(names)
    assert saved(made, tmp_path_factory.mktemp("names")).feature_names == tuple(names)


def test_a_saved_folder_has_them_in_memory_and_on_disk(tmp_path):
    assert saved(buffer(), tmp_path).feature_names == NAMES
    on_disk = mr.Buffer.open(tmp_path / "record", memory="2500")
    assert isinstance(on_disk, mr.StoredBuffer)
    assert on_disk.feature_names == on_disk.load().feature_names == NAMES
    assert mr.solve(mr.GLM(), on_disk).run.names == NAMES
    on_disk.save(tmp_path / "again")
    assert mr.Buffer.open(tmp_path / "again").feature_names == NAMES
    only = {"features": ["features", "targets"]}
    assert mr.Buffer.open(tmp_path / "record", columns=only).feature_names == (*NAMES, "targets")
    assert mr.Buffer.open(tmp_path / "record", columns={"a": "features"}).feature_names == NAMES
    renamed = mr.Buffer.open(tmp_path / "record", names=["a", "b"], memory="2500")
    assert renamed.feature_names == ("a", "b")
    assert renamed.fingerprint() == on_disk.fingerprint()


@pytest.mark.parametrize(
    ("page", "message"),
    [(["temp"], r"feature_names in .*multireplay.json needs one for each of the 2"), ([1, 2], "must be texts")],
)
def test_a_page_with_other_names_is_refused(tmp_path, page, message):
    saved(buffer(), tmp_path)
    path = tmp_path / "record" / "multireplay.json"
    told = json.loads(path.read_text())
    path.write_text(json.dumps({**told, "feature_names": page}))
    with pytest.raises(mr.InputError, match=message):
        mr.Buffer.open(tmp_path / "record")
    del told["feature_names"]  # as it was written before there were names
    path.write_text(json.dumps(told))
    assert mr.Buffer.open(tmp_path / "record").feature_names is None


@pytest.mark.parametrize("form", ["parquet", "csv", "npz"])
def test_stored_columns_side_by_side_keep_theirs(tmp_path, form):
    path, columns = tmp_path / f"record.{form}", {"temp": X[:, 0], "hum": X[:, 1], "load": Y, "names": Y}
    if form == "parquet":
        pq.write_table(pa.table(columns), path)
    elif form == "csv":
        pd.DataFrame(columns).to_csv(path, index=False)
    else:
        np.savez(path, **columns)
    wanted = {"features": ["hum", "temp"], "targets": "load"}
    assert mr.Buffer.open(path, columns=wanted).feature_names == stored(path, wanted).feature_names == ("hum", "temp")
    assert mr.Buffer.open(path).feature_names is None
    assert np.allclose(mr.Buffer.open(path)["names"], Y)  # a column of a file may be called so
    twice = mr.Buffer.open(path, columns={"features": ["hum", "hum"]})
    assert twice.feature_names is None


def test_wide_stored_columns_are_numbered_beside_others(tmp_path):
    np.savez(tmp_path / "record.npz", psi=X, load=Y)
    assert mr.Buffer.open(tmp_path / "record.npz", columns={"features": "psi"}).feature_names is None
    beside = mr.Buffer.open(tmp_path / "record.npz", columns={"features": ["psi", "load"]})
    assert beside.feature_names == ("psi[0]", "psi[1]", "load")
    given_here = mr.Buffer.open(tmp_path / "record.npz", columns={"features": "psi"}, names=NAMES)
    assert given_here.feature_names == NAMES


@pytest.mark.parametrize("kind", [np.array, scipy.sparse.csr_array, torch.as_tensor, pd.DataFrame])
def test_errors_say_the_name(kind):
    bad = X.copy()
    bad[7, 1] = np.nan
    for column in ("features", "next_features"):
        columns = {"features": kind(X), "next_features": kind(X), column: kind(bad)}
        with pytest.raises(mr.InputError, match=rf"{column}' holds nan at row 7 \(counting from 0\), feature 'hum'"):
            mr.Buffer(**columns, names=NAMES)
    frame = FRAMES["pandas"].astype(object)
    frame.loc[3, "hum"] = "wet"
    with pytest.raises(mr.InputError, match=r"holds 'wet' at row 3 \(counting from 0\), feature 'hum', which is not"):
        mr.Buffer(features=frame)


def test_errors_on_disk_say_the_name(tmp_path):
    saved(buffer(), tmp_path)
    bad = X.copy()
    bad[7, 1] = np.inf
    np.save(tmp_path / "features.npy", bad)
    with pytest.raises(mr.InputError, match=r"features.npy holds inf .* at row 7, feature 1 \(counting from 0\)"):
        mr.Buffer.open(tmp_path / "features.npy")
    page = json.loads((tmp_path / "record" / "multireplay.json").read_text())
    (tmp_path / "record" / "features.npy").write_bytes((tmp_path / "features.npy").read_bytes())
    page["columns"][0]["crc32"]["values"] = _sums(bad, page["columns"][0]["crc32"]["rows"])
    (tmp_path / "record" / "multireplay.json").write_text(json.dumps(page))
    with pytest.raises(
        mr.InputError, match=r"holds inf in column 'features' at row 7 \(counting from 0\), feature 'hum'"
    ):
        mr.Buffer.open(tmp_path / "record")


def _sums(values, chunk):
    from multireplay.buffer.disk.files import RunningChecksums

    return [found for _, found in RunningChecksums(chunk, len(values)).add(values)]


@pytest.mark.parametrize("values", [None, X, X.tolist(), torch.as_tensor(X), scipy.sparse.csr_array(X), 3.0])
def test_what_is_no_frame_has_no_names(values):
    assert names_in(values) is None


def test_names_of_coordinates_without_features(tmp_path):
    problem = mr.VariationalInequality(lambda x, sample: x - sample, dim=2)
    made = mr.Buffer(samples=X, names=NAMES)
    assert saved(made, tmp_path).feature_names == NAMES
    assert mr.solve(problem, made).run.names == NAMES
    with pytest.raises(mr.InputError, match="the buffer has 2 names, but x has 3 coordinates"):
        mr.solve(mr.VariationalInequality(lambda x, sample: x, dim=3), made)
    beside = mr.Buffer(samples=X, features=np.ones((60, 3)), names=["a", "b", "c"])  # which are not what x is of
    assert mr.solve(problem, beside).run.names == ("x[0]", "x[1]")


def test_many_names_are_no_trouble():
    """A few passes over them: 200,000 would never end otherwise."""
    names = [f"sensor {i}" for i in range(200_000)]
    made = mr.Buffer(features=np.zeros((1, len(names))), names=names)
    assert made.feature_names == tuple(names)
    with pytest.raises(mr.InputError, match="'sensor 7' is there 2 times"):
        mr.Buffer(features=np.zeros((1, len(names))), names=[*names[:-1], "sensor 7"])


@pytest.mark.parametrize("library", ["pandas", "pyarrow"])
def test_two_columns_of_one_name(library):
    frame = pd.DataFrame(X, columns=["hum", "hum"])
    table = frame if library == "pandas" else pa.Table.from_arrays(list(X.T), names=["hum", "hum"])
    y = np.arange(float(len(X)))
    asks = [lambda: mr.diagnose(table)]
    asks += [lambda: mr.MERRegressor().fit(table, y), lambda: mr.MERValueRegressor(0.5).fit(table, y)]
    for ask in asks:
        with pytest.raises(mr.InputError, match="2 columns of the data frame are called 'hum': which is meant"):
            ask()


def test_an_index_that_is_in_another_order():
    """Rows are taken as they come, which the index of a shuffled data frame says is not their order."""
    frame, y = pd.DataFrame(X, columns=NAMES), pd.Series(np.arange(float(len(X))))
    days = pd.date_range("2024-01-01", periods=len(X), freq="D")
    turned = np.random.default_rng(0).permutation(len(X))
    fits = [lambda X, y: mr.Buffer(features=X, targets=y), mr.MERRegressor().fit, mr.MERValueRegressor(0.5).fit]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for fit in fits:
            for right in (frame, frame.set_index(days), frame.iloc[5:], frame.set_index(turned.astype(str))):
                fit(right, y.to_numpy()[: len(right)])
        sites = np.repeat([0, 1], len(X) // 2)
        mr.Buffer(features=frame.iloc[turned], targets=y.to_numpy(), groups=sites)
        mr.MERRegressor().fit(frame.iloc[turned], y.to_numpy(), groups=sites)
    for fit in fits:
        for wrong in (frame.iloc[turned], frame.set_index(days).iloc[turned], frame[::-1]):
            with pytest.warns(mr.UncertaintyWarning, match="the index of '(X|features)' is in another") as caught:
                fit(wrong, y.to_numpy())
            assert [one.filename for one in caught if "index" in str(one.message)] == [__file__]
        with pytest.warns(mr.UncertaintyWarning, match="the index of '(y|targets)' is in another"):
            fit(X, y.iloc[turned])
