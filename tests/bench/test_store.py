"""Finished instances: found again only by the same settings and the same code, and never unpickled."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pytest

from multireplay.bench import store
from multireplay.bench.runner import Scope, work_out
from multireplay.bench.store import Store
from multireplay.errors import InputError

SETTINGS = {"grid": (0.5, 0.25), "lengths": {"full": 8}, "name": "ρ"}


def test_what_is_saved_is_loaded(tmp_path):
    kept = Store(tmp_path, "a chain, m=0.9", SETTINGS)
    assert not kept.has("tune", 3)
    kept.save("tune", 3, {"shared/skip, gap /10~tuned": np.array([1.0, np.inf])})
    again = Store(tmp_path, "a chain, m=0.9", dict(reversed(SETTINGS.items())))
    assert again.has("tune", 3)
    assert again.load("tune", 3)["shared/skip, gap /10~tuned"].tolist() == [1.0, np.inf]
    spelled = json.loads((kept.folder / "settings.json").read_text(encoding="utf-8"))
    assert spelled["grid"] == [0.5, 0.25]
    assert spelled["code"] == store.code_version()


def test_other_settings_and_other_code_are_other_folders(tmp_path, monkeypatch):
    kept = Store(tmp_path, "x", SETTINGS)
    kept.save("tune", 0, {"a": np.ones(1)})
    assert not Store(tmp_path, "x", {**SETTINGS, "grid": (0.5, 0.125)}).has("tune", 0)
    monkeypatch.setattr(store, "code_version", lambda: "older")
    assert not Store(tmp_path, "x", SETTINGS).has("tune", 0)


def test_the_code_that_matters(tmp_path, monkeypatch):
    package = tmp_path / "multireplay"
    (package / "bench").mkdir(parents=True)
    names = ("__init__.py", "solve.py", "bench/pictures.py")
    for name in names:
        (package / name).write_text("pass\n", encoding="utf-8")
    monkeypatch.setattr(store.multireplay, "__file__", str(package / "__init__.py"))
    before = store.code_version.__wrapped__()
    (package / "bench" / "pictures.py").write_text("colour = 1\n", encoding="utf-8")
    assert store.code_version.__wrapped__() == before
    (package / "solve.py").write_text("step = 1\n", encoding="utf-8")
    assert store.code_version.__wrapped__() != before


@pytest.mark.parametrize("damage", ["torn", "pickled"])
def test_a_damaged_or_pickled_file_is_refused(tmp_path, damage):
    kept = Store(tmp_path, "x", SETTINGS)
    kept.save("tune", 0, {"a": np.ones(100)})
    path = kept.path("tune", 0)
    if damage == "torn":
        path.write_bytes(path.read_bytes()[:50])
    else:
        np.savez(path, a=np.array([{"an": "object"}], dtype=object))
        assert zipfile.is_zipfile(path)
    with pytest.raises(InputError, match=r"is damaged .*: delete it"):
        kept.load("tune", 0)


def test_reports_depend_on_what_was_chosen(tmp_path):
    """More tuning instances may choose another step: reports at the old one are not taken for it."""

    class Tiny:
        name, seconds, tuning_cost = "tiny", 1.0, 1.0

        def settings(self):
            return {}

        def tune(self, size, seed, instance):
            return {"best": np.array(float(instance))}

        def choose(self, size, tuned):
            return {"step": max(float(found["best"]) for found in tuned)}

        def report(self, size, seed, instance, chosen):
            return {"error": np.array(chosen["step"])}

    for tuning in (1, 2, 3):
        reports, chosen = work_out(Tiny(), Scope("small", 0, 2, tuning, 1, tmp_path), lambda name, seconds: None)
        assert chosen == {"step": tuning - 1.0}
        assert [float(found["error"]) for found in reports] == [tuning - 1.0] * 2
