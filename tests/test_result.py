from __future__ import annotations

import matplotlib
import numpy as np
import pytest

import multireplay as mr

matplotlib.use("Agg")


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((300, 2))
    return mr.Buffer(features=A, targets=A @ [1.0, -1.0])


def test_table_has_a_row_an_epoch(data):
    table = mr.solve(mr.GLM(), data, replay=mr.Multiscale(), step=0.1).table()
    assert [row["epoch"] for row in table.rows] == list(range(1, 9))
    assert table.rows[0]["gap"] == "150"
    assert [row["note"] for row in table.rows].count("the answer") == 1
    text = str(table)
    assert len(text.splitlines()) == 10
    assert "<td>150</td>" in table._repr_html_()


def test_table_of_what_takes_no_steps_has_no_step_size(data):
    exact, newton = (mr.solve(mr.GLM(), data, update=update).table().rows for update in (mr.Exact(), mr.Newton()))
    assert {(row["gap"], row["step size"]) for row in exact} == {("-", "-")}
    assert {row["step size"] for row in newton} == {"-"}


def test_table_shows_errors_only_when_tracked(data):
    assert "‖last − x*‖²" not in str(mr.solve(mr.GLM(), data).table())
    assert "‖last − x*‖²" in str(mr.solve(mr.GLM(), data, track=[1, -1]).table())


@pytest.mark.parametrize(
    ("options", "label"),
    [
        ({"track": [1.0, -1.0]}, "normalized squared error"),
        ({"track": [1.0, -1.0], "replay": mr.Multiscale(), "step": 0.1}, "normalized squared error"),
        ({"replay": mr.Multiscale(), "step": 0.1}, "distance to the final answer"),
        ({"update": mr.Plain()}, "answer x"),
        ({"update": mr.Newton()}, "distance to the final answer"),
        ({}, "answer x"),
    ],
)
def test_plot(data, options, label):
    ax = mr.solve(mr.GLM(), data, **options).plot()
    assert ax.get_ylabel() == label
    assert ax.lines or ax.containers
    ax.figure.canvas.draw()


def test_plot_of_the_answer_has_the_names(data):
    named = mr.Buffer(**data.columns, names=["temp", "hum"])
    ax = mr.solve(mr.GLM(), named).plot()
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["temp", "hum"]


def test_plot_of_epochs_has_one_point_each(data):
    result = mr.solve(mr.GLM(), data, replay=mr.Multiscale(), step=0.1, track=[1.0, -1.0])
    ax = result.plot()
    assert ax.lines[0].get_xdata().tolist() == [2**k for k in range(1, 9)]
    expected = [epoch.curve.last[-1] / 2 for epoch in result.epochs]
    assert np.allclose(ax.lines[0].get_ydata(), expected)


def test_print_ends_with_the_status(data):
    result = mr.solve(mr.GLM(), data)
    assert str(result).splitlines()[-1] == str(result.status)
