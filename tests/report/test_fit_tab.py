"""The first tab: coefficients with intervals, fitted against actual, and what it says where something cannot be had."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.signal import lfilter

import multireplay as mr
from multireplay.buffer.disk import StoredBuffer
from multireplay.report.blocks import Plot, TableBlock, Text
from multireplay.report.evidence import Shown, gather
from multireplay.report.sections import coefficients, fit, fitted
from multireplay.report.sections.coefficients import DOUBTFUL, FARTHEST, INDEPENDENT, UNDER_DEPENDENCE

CALIBRATED = ["The coefficients", "Fitted probabilities by outcome", "Calibration"]
POINTS = ["The coefficients", "Fitted against actual"]
LEFT = ["Residuals over time", "Autocorrelation of the residuals"]
RELIED_ON = ["Effective sample sizes", "Standard errors by the number of batches"]


def regression(rows=4000, seed=0, link="identity"):
    rng = np.random.default_rng(seed)
    A = np.column_stack([lfilter([1.0], [1.0, -0.9], rng.standard_normal((rows, 2)), axis=0) / 3, np.ones(rows)])
    z = A @ [1.0, -0.5, 0.2]
    outcome = {
        "identity": z + rng.standard_normal(rows), "logistic": (rng.random(rows) < 1 / (1 + np.exp(-z))).astype(float),
        "exp": rng.poisson(np.exp(z)).astype(float),
    }  # fmt: skip
    return mr.GLM(link), mr.Buffer(features=A, targets=outcome[link], names=["load", "heat", "one"])


def told(result, **options):
    return fit.section(gather(result, rivals=False, **options))


def plots(section) -> dict[str, Plot]:
    return {block.title: block for block in section.blocks if isinstance(block, Plot)}


def curve(plot, name):
    (found,) = (trace for trace in plot.figure.data if trace.name == name)
    return found


@pytest.mark.parametrize(
    ("link", "titles"),
    [("identity", POINTS), ("logistic", CALIBRATED), ("exp", [*POINTS, "Mean counts by group"])],
)
def test_every_link_has_its_plots(link, titles):
    section = told(mr.solve(*regression(link=link)))
    assert section.title == "Fit"
    assert list(plots(section)) == [*titles, *LEFT, *RELIED_ON]


@pytest.mark.parametrize("classes", [3, 35])
def test_several_classes_have_their_pictures_by_name(classes):
    rng = np.random.default_rng(classes)
    A = np.column_stack([rng.standard_normal((1500, 2)), np.ones(1500)])
    y = np.append(np.arange(classes), (A[:, 0] > 0).astype(int)[classes:])
    result = mr.solve(mr.Multinomial(classes, ridge=0.01), mr.Buffer(features=A, targets=y))
    names = [f"kind <{k}>" for k in range(classes)]
    uncertainty = Shown({name: result.uncertainty.mapped(result.run.problem.map_of(k, 3), ["a", "b", "c"])
                         for k, name in enumerate(names)})  # fmt: skip
    blocks = fitted.blocks_of(gather(result, exact=False, rivals=False, uncertainty=uncertainty))
    drawn = {block.title: block for block in blocks if isinstance(block, Plot)}
    taken, curves = drawn["What every class is taken for"].figure, drawn["Calibration of every class"].figure
    assert taken.layout.yaxis.ticktext[:2] == ("kind &lt;0&gt;", "kind &lt;1&gt;")
    assert len(taken.layout.yaxis.ticktext) == min(classes, 30)
    assert taken.layout.xaxis.showticklabels == (classes == 3)
    assert {trace.name for trace in curves.data} > {"kind &lt;0&gt;", "kind &lt;1&gt;"}
    assert ("most frequent of 35" in drawn["What every class is taken for"].caption) == (classes == 35)
    assert "Fitted probabilities by outcome" in drawn


def test_the_plot_has_the_intervals_of_the_result():
    result = mr.solve(*regression())
    section = told(result)
    plot = plots(section)["The coefficients"]
    assert plot.figure.layout.yaxis.ticktext == ("load", "heat", "one")
    thick = curve(plot, UNDER_DEPENDENCE.format(95))
    drawn = np.column_stack([thick.x[0::3], thick.x[1::3]])
    np.testing.assert_allclose(drawn, result.interval())
    thin = curve(plot, INDEPENDENT.format(95))
    textbook = gather(result, rivals=False).textbooks[0]
    np.testing.assert_allclose(thin.x[1::3] - thin.x[0::3], 2 * 1.959964 * textbook, rtol=1e-6)
    (table,) = (block for block in section.blocks if isinstance(block, TableBlock))
    rows = result.summary().rows
    assert [row["name"] for row in table.rows] == ["load", "heat", "one"]
    assert [row["standard error"] for row in table.rows] == [row["standard error"] for row in rows]
    assert [(row["95 % from"], row["to"]) for row in table.rows] == [(row["low"], row["high"]) for row in rows]


def test_doubtful_ones_have_another_colour_and_say_why_and_nobody_is_warned():
    problem, buffer = regression()
    rare = np.zeros(4000)
    rare[[700, 2100, 3000]] = 1.0
    A = np.column_stack([buffer["features"], rare])
    result = mr.solve(problem, mr.Buffer(features=A, targets=buffer["targets"], names=["load", "heat", "one", "rare"]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        section = told(result)
    plot = plots(section)["The coefficients"]
    assert len(curve(plot, DOUBTFUL.format(95)).x) == 3
    assert len(curve(plot, UNDER_DEPENDENCE.format(95)).x) == 9
    hovers = [text for trace in plot.figure.data if trace.text is not None for text in trace.text]
    assert [text.split("<br>")[0] for text in hovers if "do not rely on this interval" in text] == ["rare"]
    beware = [block.text for block in section.blocks if isinstance(block, Text) and block.tone == "beware"]
    assert any("too little of rare" in text for text in beware)


def test_of_many_the_forty_farthest_from_0_are_drawn():
    rng = np.random.default_rng(1)
    A = rng.standard_normal((3000, 50))
    result = mr.solve(mr.GLM(), mr.Buffer(features=A, targets=A @ np.arange(50.0) / 100 + rng.standard_normal(3000)))
    plot = plots(told(result))["The coefficients"]
    t = np.abs(result.x / result.standard_error)
    assert list(plot.figure.layout.yaxis.ticktext) == [f"x[{i}]" for i in np.argsort(-t)[:40]]
    assert plot.caption.startswith("The 40 of 50 that are farthest from 0 in standard errors.")


def test_sizes_too_different_to_be_seen_are_drawn_in_standard_errors():
    problem, buffer = regression()
    unlike = mr.Buffer(features=buffer["features"] * [1.0, 1e-6, 1.0], targets=buffer["targets"])
    result = mr.solve(problem, unlike)
    plot = plots(told(result))["The coefficients"]
    assert "in units of its own standard error" in plot.caption
    np.testing.assert_allclose(plot.figure.data[1].x, result.x / result.standard_error)


def test_what_would_hide_all_others_is_an_arrow():
    problem, buffer = regression()
    level = mr.Buffer(features=buffer["features"], targets=1e5 + buffer["targets"])
    result = mr.solve(problem, level)
    dots = plots(told(result))["The coefficients"].figure.data[1]
    t = result.x / result.standard_error
    np.testing.assert_allclose(dots.x, [*t[:2], FARTHEST])
    assert dots.marker.symbol == ("circle", "circle", "triangle-right")
    assert "± " in dots.text[2]


def test_without_standard_errors_it_says_why():
    a = np.linspace(-1, 1, 200)[:, None]
    with pytest.warns(mr.ConvergenceWarning, match="separable"):
        result = mr.solve(mr.GLM("logistic"), mr.Buffer(features=a, targets=(a[:, 0] > 0).astype(float)))
    section = told(result)
    assert f"No standard errors: {result.uncertainty.why_not}." in [getattr(b, "text", "") for b in section.blocks]
    assert not set(RELIED_ON) & set(plots(section))
    assert not plots(section)["The coefficients"].figure.layout.showlegend


def test_without_features_it_says_so_and_has_intervals():
    problem = mr.VariationalInequality(lambda x, sample: x - sample, dim=2)
    section = told(mr.solve(problem, mr.Buffer(samples=np.random.default_rng(0).random((400, 2)))))
    assert "there is no fitted against actual" in " ".join(getattr(block, "text", "") for block in section.blocks)
    assert set(plots(section)) == {"The coefficients", "Effective sample sizes"}
    assert curve(plots(section)["The coefficients"], INDEPENDENT.format(95)).x is not None


def test_on_the_boundary_there_is_no_line():
    problem, buffer = regression()
    result = mr.solve(problem, buffer, constraint=mr.sets.NonNegative())
    plot = plots(told(result))["The coefficients"]
    assert len(curve(plot, UNDER_DEPENDENCE.format(95)).x) == 6
    assert "on the boundary" in " ".join(text for trace in plot.figure.data for text in trace.text or ())


def test_units_of_ones_own():
    result = mr.solve(*regression())
    mapped = result.uncertainty.mapped(np.diag([10.0, 1.0, 1.0]), ["ten loads", "heat", "one"])
    section = told(result, uncertainty=mapped)
    (table,) = (block for block in section.blocks if isinstance(block, TableBlock))
    assert [row["name"] for row in table.rows] == ["ten loads", "heat", "one"]
    assert table.rows[0]["coefficient"] == pytest.approx(10 * result.x[0])
    assert table.rows[0]["standard error"] == pytest.approx(10 * result.standard_error[0])


def test_a_record_on_disk_has_all_of_it(tmp_path):
    problem, buffer = regression(rows=60_000)
    buffer.save(tmp_path / "record")
    stored = mr.Buffer.open(tmp_path / "record", memory="2.4 MB")
    assert isinstance(stored, StoredBuffer)
    here, there = (told(mr.solve(problem, one)) for one in (buffer, stored))
    assert list(plots(there)) == list(plots(here))
    ours, theirs = (plots(section)["Residuals over time"].figure.data[0].y for section in (here, there))
    np.testing.assert_allclose(ours, theirs, atol=1e-9)


def test_few_points_are_drawn_of_a_long_record():
    plot = plots(told(mr.solve(*regression(rows=50_000))))["Fitted against actual"]
    assert len(curve(plot, "rows").x) == fitted.POINTS


def test_order_without_standard_errors_is_by_size():
    rows = [mr.inference.summary.coefficient_row(f"x[{i}]", float(i)) for i in range(41)]
    assert coefficients.ordered(mr.inference.Summary(rows, 0.95, ()))[:2] == [40, 39]


def verdict(result):
    blocks = told(result).blocks
    place = next(
        i for i, block in enumerate(blocks) if getattr(block, "text", "") == "How far to rely on the intervals"
    )
    return blocks[place + 1]


def test_the_verdict_names_what_has_no_interval():
    problem, buffer = regression()
    A = np.column_stack([buffer["features"], 2 * buffer["features"][:, 0]])
    names = ["load", "heat", "one", "twice"]
    found = verdict(mr.solve(problem, mr.Buffer(features=A, targets=buffer["targets"], names=names)))
    assert found.text.startswith("There is no interval for load, twice, which the record says nothing of. ")
    assert "enough for every other interval" in found.text
    assert found.tone == "beware"
    free = verdict(mr.solve(problem, buffer))
    assert "enough for every interval" in free.text
    held = verdict(mr.solve(problem, buffer, constraint=mr.sets.NonNegative()))
    assert held.text.startswith("There is no interval for heat, which the feasible set holds at its boundary. ")
    assert "enough for every other interval" in held.text
    negative = mr.Buffer(features=buffer["features"][:, 1:2], targets=buffer["targets"], names=["heat"])
    none = verdict(mr.solve(problem, negative, constraint=mr.sets.NonNegative()))
    assert none.text == "There is no interval for heat, which the feasible set holds at its boundary."
