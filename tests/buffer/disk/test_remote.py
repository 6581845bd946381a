"""Records in object storage, against a real S3 server on this machine."""

from __future__ import annotations

import gzip
import logging
import pickle
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather, fs
from typer.testing import CliRunner
from written import joined, stored

import multireplay as mr
from multireplay.buffer.disk.opening import find_source
from multireplay.buffer.disk.remote import RemotePath, as_path, shown
from multireplay.cli import app

KEY, SECRET = "AKIDEXAMPLE", "wJalr/XUtnFEMI+K7MDENG"


@pytest.fixture(scope="module")
def server():
    moto = pytest.importorskip("moto.server")
    serving = moto.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    serving.start()
    yield serving.get_host_and_port()[1]
    serving.stop()


@pytest.fixture
def s3(server, request):
    """A bucket of the test's own: its file system, and the URI of a path in it, with credentials."""
    bucket = "b" + str(abs(hash(request.node.name)))
    query = f"scheme=http&region=us-east-1&endpoint_override=127.0.0.1:{server}&allow_bucket_creation=true"
    there, _ = fs.FileSystem.from_uri(f"s3://{KEY}:{quote(SECRET, safe='')}@{bucket}?{query}")
    there.create_dir(bucket)

    class Bucket:
        filesystem = there

        def uri(self, path):
            return f"s3://{KEY}:{quote(SECRET, safe='')}@{bucket}/{path}?{query}"

        def write(self, path, table, **options):
            pq.write_table(table, f"{bucket}/{path}", filesystem=there, **options)

        def put(self, path, content):
            with there.open_output_stream(f"{bucket}/{path}", compression=None) as file:
                file.write(content)

        def get(self, path):
            with there.open_input_file(f"{bucket}/{path}") as file:
                return file.read()

        def flip(self, path, place):
            """Change one byte of a number."""
            content = bytearray(self.get(path))
            content[int(place * len(content)) // 8 * 8 + 1] ^= 1
            self.put(path, bytes(content))

        def remove(self, path):
            there.delete_file(f"{bucket}/{path}")

    return Bucket()


def parts(count=3, rows=400):
    rng = np.random.default_rng(18)
    for number in range(count):
        x = rng.standard_normal((rows, 2))
        y = (rng.random(rows) < 1 / (1 + np.exp(-x @ [1.0, -0.5]))) * 1.0
        yield pa.table({"a": x[:, 0], "b": x[:, 1], "y": y, "t": np.arange(rows) + rows * number})


def written(s3, folder):
    """The same files here and there."""
    for number, table in zip((1, 2, 10), parts(), strict=True):
        s3.write(f"record/part-{number}.parquet", table, row_group_size=150, use_dictionary=False, compression="none")
        pq.write_table(table, folder / f"part-{number}.parquet", row_group_size=150)
    return folder


COLUMNS = {"features": ["a", "b"], "targets": "y"}


def test_the_answer_is_that_of_the_files_here_to_the_bit(s3, tmp_path):
    here = written(s3, tmp_path)
    far = stored(s3.uri("record"), COLUMNS, rows=100)
    one, other = (mr.solve(mr.GLM("logistic"), buffer) for buffer in (stored(here, COLUMNS, rows=100), far))
    np.testing.assert_array_equal(one.x, other.x)
    np.testing.assert_array_equal(one.standard_error, other.standard_error)
    whole = mr.Buffer.open(s3.uri("record"), COLUMNS, time="t")
    np.testing.assert_array_equal(whole["features"], mr.Buffer.open(here, COLUMNS)["features"])
    pair = mr.Buffer.open((s3.filesystem, as_path(s3.uri("record")).path), COLUMNS)
    np.testing.assert_array_equal(whole["features"], pair["features"])
    rows = np.array([1100, 3, 399, 400])
    np.testing.assert_array_equal(far.take(rows)["features"], whole["features"][rows])


@pytest.mark.parametrize("use", [lambda b: list(b.blocks()), lambda b: b.take([0, 450]), lambda b: b.load()])
def test_an_object_that_is_written_again_or_removed_between_two_passes(s3, tmp_path, use):
    written(s3, tmp_path)
    buffer = stored(s3.uri("record"), COLUMNS, rows=100)
    use(buffer)
    s3.flip("record/part-2.parquet", place=0.25)  # of the same size and index, in the same second
    with pytest.raises(mr.InputError, match=r"s3://\w+/record/part-2.parquet has changed since it was opened"):
        use(buffer)
    s3.remove("record/part-2.parquet")
    with pytest.raises(mr.InputError, match=r"s3://\w+/record/part-2.parquet disappeared .* at row 0"):
        use(buffer)


def test_an_object_that_changes_while_it_is_read(s3, tmp_path):
    written(s3, tmp_path)
    for change in (
        lambda: s3.flip("record/part-1.parquet", place=0.7),
        lambda: s3.write("record/part-1.parquet", next(parts()).slice(1), row_group_size=150),
    ):
        blocks = stored(s3.uri("record"), COLUMNS, rows=10).blocks()
        next(blocks)
        change()
        with pytest.raises(mr.InputError, match=r"part-1.parquet has changed since it was opened"):
            list(blocks)


def test_what_is_wrong_with_an_object_names_it(s3, tmp_path):
    written(s3, tmp_path)
    table = list(parts())[1]
    bad = table.column("a").to_numpy().copy()
    bad[157] = np.nan
    s3.write("record/part-2.parquet", table.set_column(0, "a", pa.array(bad)))
    with pytest.raises(mr.InputError, match=r"s3://\w+/record/part-2.parquet holds nan in column 'a' at row 157 "):
        mr.Buffer.open(s3.uri("record"), COLUMNS)
    s3.put("record/part-2.parquet", s3.get("record/part-1.parquet")[:-50])
    with pytest.raises(mr.InputError, match=r"s3://\w+/record/part-2.parquet cannot be read as Parquet"):
        mr.Buffer.open(s3.uri("record"), COLUMNS)
    for path in ("nothing", "nothing.parquet"):
        with pytest.raises(mr.InputError, match=rf"s3://\w+/{path} does not exist"):
            mr.Buffer.open(s3.uri(path))
    s3.put("record/part-2.npy", b"")
    with pytest.raises(mr.InputError, match=r"part-2.npy is elsewhere, and a .npy file is read from a disk"):
        mr.Buffer.open(s3.uri("record/part-2.npy"))


def test_folders_of_keys_feather_and_text(s3, tmp_path):
    tables = list(parts())
    for month, table in zip((9, 10, 11), tables, strict=True):
        s3.write(f"hive/year=2024/month={month}/x.parquet", table)
    s3.put("hive/_SUCCESS", b"")
    found = mr.Buffer.open(s3.uri("hive"), {"a": "a", "month": "month"}, time="t")
    np.testing.assert_array_equal(found["month"], np.repeat([9.0, 10.0, 11.0], 400))
    feather.write_feather(tables[0], str(tmp_path / "a.feather"))
    s3.put("a.feather", (tmp_path / "a.feather").read_bytes())
    s3.put("a.csv.gz", gzip.compress(b"a;b\n1,5;2\n2,5;3\n"))
    np.testing.assert_array_equal(mr.Buffer.open(s3.uri("a.feather"))["a"], tables[0].column("a").to_numpy())
    np.testing.assert_array_equal(mr.Buffer.open(s3.uri("a.csv.gz"))["a"], [1.5, 2.5])


def test_a_record_is_opened_again_from_a_small_description(s3, tmp_path):
    written(s3, tmp_path)
    first = stored(s3.uri("record"), COLUMNS, rows=100)
    where = pickle.loads(pickle.dumps(first.where))
    assert hash(where) == hash(first.where)
    assert len(pickle.dumps(where)) < 1000
    again = stored(where, COLUMNS, rows=100)
    assert again.fingerprint() == first.fingerprint()
    np.testing.assert_array_equal(joined(again)["features"], joined(first)["features"])
    s3.write("record/part-2.parquet", next(parts()), row_group_size=150)
    assert stored(where, COLUMNS, rows=100).fingerprint() != first.fingerprint()


def test_credentials_are_shown_nowhere(s3, tmp_path):
    written(s3, tmp_path)
    uri, said = s3.uri("record"), []
    far = stored(uri, COLUMNS, rows=100)
    said += [repr(far), far.cost_of_random_access(), repr(far.where), str(far.where), repr(find_source(uri, 10**9))]
    wrong = {"columns": {"features": ["a", "bb"]}, "time": "tt", "groups": "gg", "memory": "1 kB"}
    for name, value in wrong.items():
        with pytest.raises(mr.InputError) as caught:
            mr.Buffer.open(uri, **{"columns": COLUMNS, name: value})
        said.append(str(caught.value))
    for bad in (uri + "&token=" + SECRET, uri.replace("s3:", "s9:"), uri.replace("@", "@ "), uri.replace(":", ":/", 1)):
        with pytest.raises(mr.InputError) as caught:
            mr.Buffer.open(bad)
        said.append(str(caught.value))
    result = mr.solve(mr.GLM("logistic"), far, checkpoint=tmp_path / "checkpoint", update=mr.Newton())
    said += [repr(result), repr(result.run), result.report(tmp_path / "result.html").read_text()]
    for out in (
        ["fit", uri, "--target", "y", "--features", "a,b", "--model", "linear", "--out", tmp_path / "model.json",
         "--report", tmp_path / "fit.html"],
        ["predict", tmp_path / "model.json", uri, "--out", tmp_path / "predicted.csv", "--json"],
        ["diagnose", uri, "--json", "--report", tmp_path / "diagnose.html"],
        ["inspect", uri], ["fit", uri, "--target", "yy"], ["fit", s3.uri("none"), "--target", "y"],
        ["fit", uri.replace("s3:", "s9:"), "--target", "y"], ["--debug", "fit", s3.uri("none"), "--target", "y"],
    ):  # fmt: skip
        ended = CliRunner().invoke(app, list(map(str, out)))
        assert ended.exit_code in (0, 3), ended.output
        said.append(ended.output)
    said += [path.read_bytes().decode("latin-1") for path in tmp_path.iterdir() if path.is_file()]
    assert any("s3://" in one for one in said)
    for secret in (KEY, SECRET, quote(SECRET, safe=""), "endpoint_override"):
        assert not [one[:2000] for one in said if secret in one]


def test_predictions_are_those_of_the_files_here(s3, tmp_path):
    here = tmp_path / "record"
    here.mkdir()
    written(s3, here)
    model = tmp_path / "model.json"
    run = CliRunner().invoke
    fitted = ["fit", "--target", "y", "--features", "a,b", "--model", "logistic", "--out"]
    assert run(app, [*fitted, str(model), str(here)]).exit_code == 0
    for name, where in (("here.csv", str(here)), ("far.csv", s3.uri("record"))):
        assert run(app, ["predict", str(model), where, "--out", str(tmp_path / name)]).exit_code == 0
    assert (tmp_path / "here.csv").read_bytes() == (tmp_path / "far.csv").read_bytes()


def test_uris_and_paths():
    for secret in ("K:S?x", "K:S/x", "K:S?x/y", "/K:S", "/K", "K/x:S", "K"):
        assert shown(f"s3://{secret}@b/k@l?token=T@U") == ("s3://…" if "/" in secret else "s3://b/k@l")
    assert shown("s3://b/k@l?token=T@U") == "s3://b/k@l"
    assert shown("plain text with a ? and an @") == "plain text with a ? and an @"
    assert str(as_path("file:///some%20where/x.parquet")) == "/some where/x.parquet"
    assert str(as_path("gs://bucket/folder/x.parquet")) == "gs://bucket/folder/x.parquet"
    assert isinstance(as_path("abfs://container@account.dfs.core.windows.net/x"), RemotePath)
    for wrong in (5, ("a", "b"), object()):
        with pytest.raises(mr.InputError, match="cannot be opened; give a path, a URI"):
            mr.Buffer.open(wrong)


@pytest.mark.parametrize(
    ("uri", "kind"),
    [("gs://bucket/folder", "gcs"), ("gcs://bucket/x", "gcs"), ("abfs://c@account.dfs.core.windows.net/x", "abfs")],
)
def test_other_stores_are_those_of_pyarrow(uri, kind):
    assert as_path(uri).filesystem.type_name == kind


@pytest.mark.parametrize(
    "uri", ["gs://bucket/r1", "gs://bucket/r1?scheme=http", "hdfs://name:8020/r1", "abfs://c@a/r1"]
)
def test_a_store_without_credentials_says_so_and_soon(monkeypatch, uri):
    asked = []

    class Store:
        @classmethod
        def from_uri(cls, given):
            asked.append(given)
            return cls(), "r1"

        def get_file_info(self, path):
            raise pa.ArrowException(f"Failed to get a token for {uri}\nand more")

    monkeypatch.setattr(fs, "FileSystem", Store)
    with pytest.raises(mr.InputError, match=r"//.*r1 cannot be read: Failed to get a token for .*r1$"):
        mr.Buffer.open(uri)
    assert asked[0].startswith(uri)
    assert ("retry_limit_seconds=" in asked[0]) == uri.startswith("gs")


def test_what_a_store_says_of_a_secret_is_not_repeated(monkeypatch):
    def answered(path):
        raise OSError("the signature of sesame is wrong")

    there = type("Store", (), {"from_uri": lambda uri: (type("One", (), {"get_file_info": answered}), "r2")})
    monkeypatch.setattr(fs, "FileSystem", there)
    with pytest.raises(mr.InputError, match="may be secret") as caught:
        mr.Buffer.open("s3://key:sesame@bucket/r2")
    assert "sesame" not in str(caught.value)
