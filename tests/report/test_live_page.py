"""The live page of a stream: what is open stays open when it is loaded again."""

from __future__ import annotations

import numpy as np
from report.test_browser import Visit, browser, pytestmark  # noqa: F401

import multireplay as mr
from multireplay.report.of_stream import _drift, report_of_stream


def test_it_is_loaded_again_with_the_tab_and_the_colours_that_are_open(browser, tmp_path):  # noqa: F811
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((2000, 2))
    stream = mr.Stream(mr.GLM(), names=["a", "b"])
    history = []
    for at in (0, 1000):
        stream.observe_many(features=rows[at : at + 1000], targets=rows[at : at + 1000, 0])
        result = stream.result()
        ends = result.interval()
        history.append({
            "position": stream.position, "x": result.x, "standard_error": result.standard_error, "low": ends[:, 0],
            "high": ends[:, 1], "statistic": 1.0, "threshold": 4.0, "rate": 12_345.6, "quarantined": 3,
        })  # fmt: skip
    path = report_of_stream(tmp_path / "live.html", result, history, "about", 2.0)
    here = Visit(browser, path)
    here.page.click("#theme")
    here.open("over-time")
    here.page.evaluate("window.before = true")
    here.until("window.before === undefined && document.readyState === 'complete'")
    here.until("document.querySelector('#over-time').classList.contains('open')")
    assert here.page.evaluate("document.documentElement.dataset.theme") == "dark"
    text = here.page.inner_text("body")
    assert here.complaints == []
    here.context.close()
    assert "a" in text
    page = path.read_text(encoding="utf-8")
    assert "12,346" in page
    assert "rows that cannot be used" in page


def test_alarms_are_marked_with_their_rows():
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((12_000, 2))
    turned = np.where(np.arange(12_000) < 8000, 3.0, -3.0)
    stream = mr.Stream(mr.GLM())
    stream.observe_many(features=rows, targets=rows[:, 0] * turned + rng.standard_normal(12_000))
    (alarm,) = stream.drift.alarms
    history = [{"position": at, "statistic": 1.0, "threshold": 4.0, "rate": 1.0} for at in (1000, 12_000)]
    _, moves, _ = _drift(stream.result(), history)
    marks = moves.figure.data[-1]
    assert marks.name == "alarm"
    assert np.unique(marks.x).tolist() == [alarm]
    assert marks.text[0] == f"row {alarm:,}"
    assert [one.text for one in moves.figure.layout.annotations] == [f"row {alarm:,}"]
    assert (
        len(_drift(stream.result(), [{**one, "position": one["position"] + 20_000} for one in history])[1].figure.data)
        == 2
    )
