from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from written import joined, stored

import multireplay as mr
from multireplay.buffer.disk import files, folder

RNG = np.random.default_rng(0)


def record():
    return mr.Buffer(features=RNG.standard_normal((3000, 5)), targets=RNG.random(3000) < 0.5)


def test_round_trip_and_plain_numpy(tmp_path):
    buffer = record()
    buffer.save(tmp_path / "new" / "record")
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["record"]
    back = mr.Buffer.open(tmp_path / "new" / "record")
    for name in buffer:
        assert back[name].dtype == buffer[name].dtype
        assert np.array_equal(back[name], buffer[name])
        assert np.array_equal(np.load(tmp_path / "new" / "record" / f"{name}.npy"), buffer[name])


def test_views_and_slices_are_saved_as_they_look(tmp_path):
    values = RNG.standard_normal((100, 6))
    mr.Buffer(a=values[::2, ::3], b=values.T[0, ::2])[5:].save(tmp_path / "record")
    back = mr.Buffer.open(tmp_path / "record")
    assert np.array_equal(back["a"], values[10::2, ::3])
    assert np.array_equal(back["b"], values[10::2, 0])


@settings(max_examples=25, deadline=None)
@given(
    names=st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20), min_size=1, unique=True)
)
def test_any_name(tmp_path_factory, names):
    path = tmp_path_factory.mktemp("names") / "record"
    mr.Buffer(**{name: [float(number)] for number, name in enumerate(names)}).save(path)
    back = mr.Buffer.open(path)
    assert {name: float(back[name][0]) for name in back} == {name: number for number, name in enumerate(names)}


def test_names_that_differ_in_case_only(tmp_path):
    mr.Buffer(a=[1.0], A=[2.0]).save(tmp_path / "record")
    assert len({path.name.lower() for path in (tmp_path / "record").iterdir()}) == 3
    assert mr.Buffer.open(tmp_path / "record")["A"][0] == 2.0


def test_an_earlier_one_is_replaced(tmp_path):
    path = tmp_path / "record"
    record().save(path)
    mr.Buffer(a=[1.0, 2.0]).save(path)
    assert list(mr.Buffer.open(path)) == ["a"]
    assert [item.name for item in tmp_path.iterdir()] == ["record"]


def test_onto_itself(tmp_path):
    path = tmp_path / "record"
    buffer = record()
    buffer.save(path)
    stored(path, {"x": "features"}, rows=100).save(path)
    assert np.array_equal(mr.Buffer.open(path)["x"], buffer["features"])


def test_other_things_are_not_replaced(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(mr.InputError, match=r"has other things in it, such as notes.txt; give the name of"):
        record().save(tmp_path)
    record().save(tmp_path / "record")
    (tmp_path / "record" / "notes.txt").write_text("mine")
    with pytest.raises(mr.InputError, match=r"has other things in it, such as notes.txt"):
        record().save(tmp_path / "record")
    with pytest.raises(mr.InputError, match="is a file; a buffer is saved as a folder"):
        record().save(tmp_path / "notes.txt")
    np.save(tmp_path / "record2.npy", np.zeros(3))
    (tmp_path / "foreign").mkdir()
    np.save(tmp_path / "foreign" / "a.npy", np.zeros(3))
    with pytest.raises(mr.InputError, match=r"has other things in it, such as a.npy"):
        record().save(tmp_path / "foreign")


def test_nothing_is_left_of_a_save_that_failed(tmp_path):
    np.save(tmp_path / "a.npy", np.append(np.zeros(999), np.nan))
    with pytest.raises(mr.InputError, match="holds nan in column 'a' at row 999"):
        stored(tmp_path, rows=10).save(tmp_path / "record")
    assert [item.name for item in tmp_path.iterdir()] == ["a.npy"]


def test_a_full_disk_is_said_in_words(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(folder.os, "fsync", full)
    with pytest.raises(mr.InputError, match=r"could not be saved to .*record: No space left on device"):
        record().save(tmp_path / "record")
    assert not list(tmp_path.iterdir())


def test_columns_that_are_no_arrays(tmp_path):
    with pytest.raises(mr.InputError, match="column 'a' is a list; only dense columns can be saved"):
        folder.save_arrays(tmp_path / "record", {"a": [1.0]})


@pytest.mark.parametrize("flip", [200, 60_000, 119_999])
def test_a_flipped_bit_is_noticed(tmp_path, monkeypatch, flip):
    monkeypatch.setattr(files, "CHUNK_BYTES", 4000)  # 100 rows
    path = tmp_path / "record"
    record().save(path)
    content = bytearray((path / "features.npy").read_bytes())
    content[128 + flip] ^= 1
    (path / "features.npy").write_bytes(content)
    chunk = flip // 4000
    said = rf"features.npy is corrupt: rows {100 * chunk} to {100 * chunk + 99} \(counting from 0\) are not the ones"
    buffer = stored(path, rows=7)
    for use in (
        lambda: mr.Buffer.open(path),
        lambda: list(buffer.blocks()),
        lambda: list(buffer.blocks(["features"], first=max(0, 100 * chunk - 3))),
        lambda: buffer.take([100 * chunk + 50]),  # the damage is elsewhere in the chunk
    ):
        with pytest.raises(mr.InputError, match=said):
            use()
    assert len(joined(buffer, ["targets"])["targets"]) == 3000  # that one is whole
    assert len(buffer.take([100 * chunk + 50], verified=False)["features"]) == 1


@pytest.mark.parametrize("order", [mr.Shuffle(0), mr.Dyadic(), mr.Uniform(0), mr.Reverse(100)], ids=repr)
def test_a_flipped_bit_is_noticed_in_every_order(tmp_path, monkeypatch, order):
    monkeypatch.setattr(files, "CHUNK_BYTES", 4000)
    path = tmp_path / "record"
    rng = np.random.default_rng(3)
    mr.Buffer(features=rng.standard_normal((3000, 5)), targets=rng.standard_normal(3000)).save(path)
    content = bytearray((path / "features.npy").read_bytes())
    content[128 + 40 * 1234] ^= 1  # the last bit of a number
    (path / "features.npy").write_bytes(content)
    with pytest.raises(mr.InputError, match=r"features.npy is corrupt: rows 1200 to 1299"):
        mr.solve(mr.GLM(), stored(path, rows=100), replay=order, step=0.01)


def test_chunks_are_checked_once(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "CHUNK_BYTES", 4000)
    path, checked = tmp_path / "record", []
    record().save(path)
    crc32 = files.zlib.crc32
    monkeypatch.setattr(
        files.zlib, "crc32", lambda values, start: (checked.append(len(values)), crc32(values, start))[1]
    )
    buffer = stored(path, rows=7)
    for _ in range(3):
        buffer.take([5, 2999, 1500, 5], ["features"])
    assert sum(checked) == 3 * 100  # rows of three chunks
    list(buffer.blocks(["features"]))
    assert sum(checked) == 3000


@pytest.mark.parametrize("mask", [0x01, 0x02, 0x05, 0x20, 0x80])
def test_every_byte_of_the_header_matters_or_is_noticed(tmp_path, mask):
    path = tmp_path / "record"
    buffer = mr.Buffer(a=RNG.standard_normal((10, 10)))
    buffer.save(path)
    right = (path / "a.npy").read_bytes()
    noticed = 0
    for place in range(128):
        (path / "a.npy").write_bytes(right[:place] + bytes([right[place] ^ mask]) + right[place + 1 :])
        try:
            with warnings.catch_warnings(action="ignore"):
                assert np.array_equal(mr.Buffer.open(path)["a"], buffer["a"])
        except mr.InputError:
            noticed += 1
    assert noticed > 60


def test_half_a_copy_is_noticed(tmp_path):
    path = tmp_path / "record"
    record().save(path)
    content = (path / "targets.npy").read_bytes()
    (path / "targets.npy").unlink()
    with pytest.raises(mr.InputError, match=r"targets.npy is missing: .*multireplay.json says that it holds"):
        mr.Buffer.open(path)
    (path / "targets.npy").write_bytes(content[:1000])
    with pytest.raises(mr.InputError, match=r"targets.npy ends after row 872 of 3000"):
        mr.Buffer.open(path)
    np.save(path / "targets.npy", np.zeros(3000))
    with pytest.raises(mr.InputError, match=r"targets.npy holds <f8 of shape \(3000,\), but .*json says |b1"):
        mr.Buffer.open(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[:100], "multireplay.json cannot be understood"),
        (lambda text: "[]", "multireplay.json cannot be understood"),
        (lambda text: text.replace('"version": 1', '"version": 2'), "is of version 2; this program reads version 1"),
        (lambda text: text.replace('"rows": 104857', '"rows": 1'), "checksums of 'features' are not as many"),
        (lambda text: text.replace('"file"', '"fils"'), "KeyError: 'file'"),
    ],
)
def test_a_page_that_is_wrong(tmp_path, change, message):
    path = tmp_path / "record"
    record().save(path)
    page = path / "multireplay.json"
    text = page.read_text()
    json.loads(text)
    page.write_text(change(text))
    with pytest.raises(mr.InputError, match=message):
        mr.Buffer.open(path)


@pytest.mark.parametrize(
    "file", ["../outside.npy", "/etc/passwd", "inner/../../outside.npy", "", ".", "..", "inner/a.npy", 7, None]
)
def test_a_page_that_names_files_elsewhere(tmp_path, file):
    path = tmp_path / "record"
    mr.Buffer(a=[1.0, 2.0]).save(path)
    (path / "a.npy").rename(tmp_path / "outside.npy")
    page = json.loads((path / "multireplay.json").read_text())
    page["columns"][0]["file"] = str(tmp_path / "outside.npy") if file == "/etc/passwd" else file
    (path / "multireplay.json").write_text(json.dumps(page))
    with pytest.raises(mr.InputError, match="for the column 'a', which is not in its folder"):
        mr.Buffer.open(path)


@pytest.mark.parametrize("shape", ["[" * 100_000 + "]" * 100_000, "[1e999]", "[NaN]", "null"])
def test_a_page_with_odd_numbers(tmp_path, shape):
    path = tmp_path / "record"
    mr.Buffer(a=[1.0, 2.0]).save(path)
    page = json.loads((path / "multireplay.json").read_text())
    page["columns"][0]["shape"] = "SHAPE"
    (path / "multireplay.json").write_text(json.dumps(page).replace('"SHAPE"', shape))
    with pytest.raises(mr.InputError, match="cannot be understood"):
        mr.Buffer.open(path)


KILLED = """
import os, pathlib, sys
import numpy as np
import multireplay as mr

rename, count = pathlib.Path.rename, [0]

def killed(self, target):
    count[0] += 1
    if count[0] == {at}:
        os._exit(9)
    return rename(self, target)

pathlib.Path.rename = killed
mr.Buffer(a=np.full(5, 2.0)).save(sys.argv[1])
"""


def killed_save(path, at):
    done = subprocess.run([sys.executable, "-c", KILLED.format(at=at), str(path)], capture_output=True, text=True)
    assert done.returncode == 9, done.stderr


def test_a_save_that_is_killed_loses_nothing_and_leaves_nothing(tmp_path):
    path = tmp_path / "record"
    mr.Buffer(a=np.full(5, 1.0)).save(path)
    killed_save(path, at=2)  # between the two renames
    assert not path.exists()
    assert mr.Buffer.open(path)["a"].tolist() == [2.0] * 5  # the new one was complete
    killed_save(path, at=1)  # before the first
    assert len(os.listdir(tmp_path)) == 2  # of the two killed ones, the second has removed what the first left
    mr.Buffer(a=np.full(5, 3.0)).save(path)
    assert os.listdir(tmp_path) == ["record"]
    assert mr.Buffer.open(path)["a"].tolist() == [3.0] * 5


def test_the_old_one_comes_back_where_the_new_one_is_not_whole(tmp_path):
    path = tmp_path / "record"
    mr.Buffer(a=np.full(5, 1.0)).save(path)
    killed_save(path, at=2)
    (new,) = tmp_path.glob(".record.*.unfinished")
    (new / "multireplay.json").unlink()
    mr.Buffer(b=np.full(5, 3.0)).save(tmp_path / "other")
    assert mr.Buffer.open(path)["a"].tolist() == [1.0] * 5


def test_ctrl_c_between_the_two_renames(tmp_path, monkeypatch):
    path, rename = tmp_path / "record", folder.Path.rename
    mr.Buffer(a=np.full(5, 1.0)).save(path)

    def interrupted(self, target):
        if self.suffix == ".unfinished":
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(folder.Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        mr.Buffer(a=np.full(5, 2.0)).save(path)
    monkeypatch.undo()
    assert os.listdir(tmp_path) == ["record"]
    assert mr.Buffer.open(path)["a"].tolist() == [1.0] * 5


def test_another_process_that_is_about_to_put_its_own_there_is_waited_for(tmp_path, monkeypatch):
    path = tmp_path / "record"
    monkeypatch.setattr(folder, "_PATIENCE", 0.05)
    mr.Buffer(a=np.full(5, 1.0)).save(path)
    aside = folder.beside(path, "replaced")  # this process is at work
    path.rename(aside)
    with pytest.raises(mr.InputError, match="is being saved by another process"):
        mr.Buffer.open(path)
    assert aside.exists()
    aside.rename(path)
    assert len(mr.Buffer.open(path)) == 5


def test_files_and_folders_are_on_the_disk_before_they_have_their_names(tmp_path, monkeypatch):
    synced, fsync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (synced.append(os.readlink(f"/proc/self/fd/{file}")), fsync(file)))
    mr.Buffer(a=[1.0], b=[2.0]).save(tmp_path / "record")
    names = [name.rpartition("/")[2] for name in synced]
    assert names[:3] == ["a.npy", "b.npy", "multireplay.json"]
    assert names[3].endswith(".unfinished")
    assert synced[4:] == [str(tmp_path)]
