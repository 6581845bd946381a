"""Reports that several tests look at, each written once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import multireplay as mr


@pytest.fixture(scope="session")
def names() -> list[str]:
    """Of the coordinates; the first would be markup if they were not escaped."""
    return ["<script>window.hacked = 1</script>", "a & b", "<b>bold</b>", *(f"feature {i}" for i in range(3, 16))]


@pytest.fixture(scope="session")
def process():
    return mr.simulate.paper_mrp(m=0.9)


@pytest.fixture(scope="session")
def buffer(process):
    return process.buffer(length=2**13, seed=0)


@pytest.fixture(scope="session")
def result(process, buffer):
    """A run of corrections, whose page has a plot on every tab."""
    return mr.solve(process.problem, buffer, update=mr.Newton())


@pytest.fixture(scope="session")
def exact(process, buffer):
    """The default run, which is the exact fit here."""
    return mr.solve(process.problem, buffer)


@pytest.fixture(scope="session")
def multiscale(process, buffer):
    return mr.solve(process.problem, buffer, replay=mr.Multiscale(), step=0.5, track=process.solution)


@pytest.fixture(scope="session")
def written(result, names, tmp_path_factory) -> Path:
    """The report of the run of corrections."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    return result.report(path, names=names, command="multireplay fit 'a.npz' --report \"r.html\" && echo <done>")


@pytest.fixture(scope="session")
def written_multiscale(multiscale, tmp_path_factory) -> Path:
    return multiscale.report(tmp_path_factory.mktemp("report") / "multiscale.html")


@pytest.fixture(scope="session")
def written_classes(tmp_path_factory) -> Path:
    """A page on a model with three classes, each with a plot and a table that is wider than a phone."""
    rng = np.random.default_rng(3)
    A = rng.standard_normal((900, 3))
    label = (A @ rng.standard_normal((3, 3)) + rng.gumbel(size=(900, 3))).argmax(axis=1)
    found = mr.MERClassifier(warn_autocorrelation=False).fit(A, np.array(["low", "mid", "high"])[label])
    shown = mr.report.Shown(dict(zip(found.classes_.tolist(), found.uncertainties_, strict=True)))
    sections = mr.report.sections_of_result(found.results_[0], uncertainty=shown, rivals=False)
    return mr.report.write(tmp_path_factory.mktemp("report") / "classes.html", "Three classes", sections)


@pytest.fixture
def regression():
    """A short logistic regression, as (problem, buffer)."""
    rng = np.random.default_rng(1)
    A = rng.standard_normal((600, 3))
    y = (rng.random(600) < 1 / (1 + np.exp(-A @ [1.0, -1.0, 0.0]))).astype(float)
    return mr.GLM(link="logistic"), mr.Buffer(features=A, targets=y)
