"""The pictures: there, not blank, nothing covered, and sensible axes."""

from __future__ import annotations

import matplotlib.image
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from multireplay.bench import EXPERIMENTS, pictures, table
from multireplay.bench.figures import FIGURES
from multireplay.bench.runner import Scope, work_out
from multireplay.bench.table import Row
from multireplay.show.plotting import method_style

DRAWINGS = {"tracking": pictures.following, "theory": pictures.bounds}


def reports_of(folder, name):
    """The finished instances of the run that all tests share."""
    experiment = EXPERIMENTS[name]
    scope = Scope("small", 0, 2, experiment.tuning["small"], 1, folder)
    return work_out(experiment, scope, lambda name, seconds: None)[0]


@pytest.fixture(scope="module")
def figures(everything):
    """Every picture as a matplotlib figure, laid out."""
    found = {}
    for name, experiment in EXPERIMENTS.items():
        reports = reports_of(everything, name)
        rows = table.read(everything / f"{name}.csv")
        with matplotlib.rc_context(pictures.FONTS):
            found[name] = DRAWINGS.get(name, pictures.curves)(experiment, rows, reports, "small")
            found[name].draw_without_rendering()
    return found


def pixels(picture, color):
    return int((np.abs(picture[..., :3] - to_rgb(color)).max(axis=2) < 0.02).sum())


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_files(everything, name):
    picture = matplotlib.image.imread(everything / f"{name}.png")
    assert picture.shape[1] >= 1000
    assert picture[..., :3].std() > 0.05
    svg = (everything / f"{name}.svg").read_text()
    assert svg.startswith("<?xml")
    assert svg.rstrip().endswith("</svg>")


@pytest.mark.parametrize("name", FIGURES)
def test_every_method_is_seen_in_its_colour(everything, name):
    picture = matplotlib.image.imread(everything / f"{name}.png")
    for method in FIGURES[name].drawn:
        assert pixels(picture, method_style(method.name)["color"]) > 700, method.name


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_legends_cover_nothing(figures, name):
    figure = figures[name]
    boxes = [ax.get_legend().get_window_extent() for ax in figure.axes]
    assert not boxes[0].overlaps(boxes[1])
    for ax, box in zip(figure.axes, boxes, strict=True):
        assert len(ax.get_legend().get_texts()) >= 5
        assert box.y1 < ax.xaxis.label.get_window_extent().y0
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= figure.bbox.x1
        for other in figure.axes:
            assert not box.overlaps(other.get_window_extent())


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_ticks_can_be_read(figures, name):
    for ax in figures[name].axes:
        low, high = ax.get_ylim()
        inside = [tick for tick in ax.yaxis.get_majorticklocs() if low <= tick <= high]
        assert 3 <= len(inside) <= 14
        assert high / low < 1e20
        if name in FIGURES:
            labels = ax.yaxis.get_major_formatter().format_ticks(inside)
            assert [float(label) for label in labels] == pytest.approx(inside)


@pytest.mark.parametrize("name", FIGURES)
def test_curves_fill_the_panels(figures, everything, name):
    low, high = figures[name].axes[0].get_ylim()
    drawn = {method.name for method in FIGURES[name].drawn} | set(FIGURES[name].exact_grids)
    rows = [row for row in table.read(everything / f"{name}.csv") if row.method in drawn]
    means = [row.error_weighted_mean if FIGURES[name].weighted else row.error_mean for row in rows]
    means = [mean for mean in means if mean < pictures.TOP]
    assert low < min(means) <= max(means) < high < 2 * pictures.TOP
    assert np.log(max(means) / min(means)) > 0.5 * np.log(high / low)


def test_theory_shows_measured_errors_and_the_total(figures, everything):
    rows = table.read(everything / "theory.csv")
    for ax, panel in zip(figures["theory"].axes, ("three states", "paper MRP"), strict=True):
        low, high = ax.get_ylim()
        measured = [r.error_mean for r in rows if r.panel == panel and r.method.startswith("measured")]
        totals = [r.error_mean for r in rows if r.panel == panel and r.method == "total"]
        assert 1e-3 * min(measured) < low < min(measured)
        assert max(totals) < high < 100 * max(totals)


def test_tracking_leaves_out_zeros(everything):
    reports = reports_of(everything, "tracking")
    rows = table.read(everything / "tracking.csv")
    first = next(row for row in rows if row.method == "measured difference")
    positive = [r._replace(error_mean=max(r.error_mean, 1e-9)) for r in rows]
    zeros = [r._replace(error_mean=0.0) if r == first else p for r, p in zip(rows, positive, strict=True)]
    for some, noted in ((zeros, True), (positive, False)):
        figure = pictures.following(EXPERIMENTS["tracking"], some, reports, "small")
        texts = [text.get_text() for ax in figure.axes for text in ax.texts]
        assert any("below resolution" in text for text in texts) == noted
        assert all((np.asarray(line.get_ydata(), dtype=float) > 0).all() for ax in figure.axes for line in ax.lines)
    assert "100 pairs of chains" in figure.get_suptitle()


def test_a_diverged_run_leaves_at_the_top(everything):
    figure = FIGURES["fig2a"]
    reports = reports_of(everything, "fig2a")
    rows = table.read(everything / "fig2a.csv")
    lost: list[Row] = [
        row._replace(error_weighted_mean=np.inf) if row.method == "serial" and row.iterations > 100 else row
        for row in rows
    ]
    ax = pictures.curves(figure, lost, reports, "small").axes[0]
    serial = next(line for line in ax.lines if line.get_label() == "serial")
    assert np.isfinite(serial.get_ydata()).all()
    assert serial.get_ydata()[-1] > 100 * ax.get_ylim()[1]
    assert ax.get_ylim()[1] < pictures.TOP * 1.5


def test_the_norm_is_the_caption_s(figures, everything):
    assert "Π" in figures["fig2a"].axes[0].get_ylabel()
    assert "Euclidean" in figures["fig3a"].axes[0].get_ylabel()
    assert (everything / "fig2a-euclidean.png").exists()
    assert not (everything / "fig3a-euclidean.png").exists()
