"""What a report of a run says, in every kind of run; looks at the page's text, not in a browser."""

from __future__ import annotations

import html
import pickle
import re

import numpy as np
import pytest

import multireplay as mr
from multireplay.errors import InputError
from multireplay.report import blocks
from multireplay.report.blocks import Plot, TableBlock, Text
from multireplay.report.evidence import gather
from multireplay.report.rivals import Missing
from multireplay.report.sections import comparison, convergence, dependence, replayed


def sections(result, **options):
    return {section.title: section for section in mr.report.sections_of_result(result, **options)}


def texts(section) -> str:
    return " ".join(block.text for block in section.blocks if isinstance(block, Text))


def table(section, number=0) -> TableBlock:
    return [block for block in section.blocks if isinstance(block, TableBlock)][number]


def test_it_says_where_it_wrote(result, tmp_path):
    path = result.report(tmp_path / "new" / "folder" / "r.html", title="A <title>")
    assert path == tmp_path / "new" / "folder" / "r.html"
    page = path.read_text(encoding="utf-8")
    assert "<title>A &lt;title&gt;</title>" in page
    assert page.count("* plotly.js (basic - minified) v") == 1
    assert len(page) < 2_000_000
    assert list(path.parent.iterdir()) == [path]


def test_by_default_it_is_written_here(result, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert result.report().resolve() == (tmp_path / "report.html").resolve()


def test_the_page_asks_for_nothing(written):
    page = written.read_text(encoding="utf-8")
    ours = page[: page.index("* plotly.js (basic")] + page[page.rindex("<script>") :]
    assert not re.findall(r"""(?:src|href)=["']?(?:https?:)?//""", ours)
    assert "default-src 'none'" in ours
    assert "/tmp" not in ours.replace(str(written), "")


ODD = {
    "serial": {"replay": mr.Serial()},
    "skip": {"replay": mr.Skip(5), "average": "none"},
    "uniform": {"replay": mr.Uniform(3)},
    "reverse": {"replay": mr.Reverse(20, 2)},
    "phases": {"replay": mr.Multiscale(phases="all")},
    "richardson": {"update": mr.RichardsonRomberg()},
    "one pass": {"passes": 1},
    "multiscale rounds": {"replay": mr.Multiscale(epochs=3), "update": mr.VarianceReduced()},
    "ball": {"constraint": mr.sets.Ball(0.5)},
    "held out": {"holdout": 0.3},
    "tracked": {"track": [1.0, -1.0, 0.0]},
    "tracked at the end": {"track": mr.Track([1.0, -1.0, 0.0], at="end"), "passes": 3},
    "start": {"x0": [0.1, 0.1, 0.1]},
    "schedule": {"step": mr.steps.Decaying(mu=0.2, t0=10)},
}


@pytest.mark.parametrize("name", ODD)
def test_every_kind_of_run_has_its_page(name, regression, tmp_path):
    result = mr.solve(*regression, **ODD[name])
    page = result.report(tmp_path / "r.html").read_text(encoding="utf-8")
    assert html.escape(str(result.status), quote=False).replace("'", "&#39;").replace('"', "&#34;") in page
    for tab in ("fit", "convergence", "replay", "dependence", "comparison", "repeat"):
        assert f'id="{tab}"' in page
    assert "nan" not in re.sub(r"<(script|style).*?</\1>", "", page, flags=re.S).lower().split()


def test_the_comparison_is_what_solve_gives(regression):
    problem, buffer = regression
    result = mr.solve(problem, buffer)
    evidence = gather(result)
    exact = problem.fit_exactly(buffer)
    serial = mr.solve(problem, buffer, replay=mr.Serial(), update=mr.Plain())
    shuffled = mr.solve(problem, buffer, replay=mr.Shuffle(0), update=mr.Plain())
    rows = {row["method"]: row for row in table(comparison.section(evidence)).rows}
    for name, x in {"one pass in order": serial.x, "one shuffled pass": shuffled.x, "this run": result.x}.items():
        assert rows[name]["distance to the exact fit"] == pytest.approx(np.linalg.norm(x - exact))
        assert rows[name]["residual"] == pytest.approx(
            np.linalg.norm(problem.mean_operator(x, problem.columns(buffer)))
        )
        assert rows[name]["in standard errors"] == pytest.approx(np.linalg.norm(x - exact) / evidence.uncertainty.total)
    assert rows["exact fit"]["distance to the exact fit"] == 0
    assert rows["exact fit"]["seconds"] > 0
    assert rows["one pass in order"]["passes"] == 1


def test_the_way_ends_where_the_run_does(result, multiscale, process, buffer):
    exact = process.problem.fit_exactly(buffer)
    ours = gather(result).ours
    assert ours.steps[-1] == result.passes * len(buffer)
    assert ours.distances[-1] == pytest.approx(np.linalg.norm(result.x - exact), rel=1e-6)
    tracked = gather(multiscale).ours
    assert tracked.steps.tolist() == [epoch.length for epoch in multiscale.epochs]
    ends = [np.linalg.norm(epoch.answer - process.solution) for epoch in multiscale.epochs]
    assert tracked.distances == pytest.approx(ends)
    side_by_side = mr.solve(process.problem, buffer, replay=mr.Interleaved(8))
    assert gather(side_by_side).ours.steps[-1] == len(buffer)  # all chains together


def test_residuals_are_those_of_the_epochs(multiscale):
    evidence = gather(multiscale)
    assert [r.size for r in evidence.residuals] == pytest.approx([epoch.residual for epoch in multiscale.epochs])
    rows = table(convergence.section(evidence)).rows
    assert [row["residual"] for row in rows] == pytest.approx([epoch.residual for epoch in multiscale.epochs])
    assert [row["note"] for row in rows].index("the answer") == multiscale.chosen
    assert [row["gap"] for row in rows] == [epoch.gap for epoch in multiscale.epochs]


def test_epochs_closer_than_tau_are_told_apart(multiscale):
    evidence = gather(multiscale)
    near = next(epoch.k for epoch in multiscale.epochs if epoch.gap < evidence.tau)
    assert f"From epoch {near} on the gap is below the autocorrelation time" in texts(replayed.section(evidence))


def test_what_order_costs(result, process, buffer):
    evidence = gather(result)
    text = dependence.cost_of_order(evidence)
    theirs = evidence.in_standard_errors(evidence.in_order.x)
    assert theirs > 2
    assert "As squared errors" in text
    serial = mr.solve(process.problem, buffer, replay=mr.Serial())
    assert "itself reads the record in order" in dependence.cost_of_order(gather(serial))
    rng = np.random.default_rng(0)
    A = rng.standard_normal((40_000, 2))
    independent = mr.Buffer(features=A, targets=A @ [1.0, 1.0] + rng.standard_normal(40_000))
    mixed = gather(mr.solve(mr.GLM(), independent))
    assert "order" in dependence.cost_of_order(mixed)
    assert mixed.in_standard_errors(mixed.in_order.x) < theirs / 4


def test_the_noise_at_the_answer_can_be_independent(result):
    """TD errors at the solution are martingale differences where values are representable, whatever the chain does."""
    evidence = gather(result)
    text = texts(dependence.section(evidence))
    assert evidence.tau > 10
    assert "nearly independent although the columns are not" in text


def test_a_diverged_run_says_so(regression, tmp_path):
    problem, buffer = mr.GLM(), regression[1]
    with pytest.warns(mr.DivergenceWarning):
        result = mr.solve(problem, buffer, step=10.0, update=mr.Plain())
    page = result.report(tmp_path / "r.html").read_text(encoding="utf-8")
    assert '<p class="beware">Diverged' in page
    assert "its answer is compared with nothing" in page


def test_what_is_dear_is_left_out_and_says_how_to_have_it(monkeypatch, regression):
    from multireplay.report import evidence, rivals

    result = mr.solve(*regression, update=mr.Newton())
    monkeypatch.setattr(rivals, "WIDEST", 2)
    found = gather(result)
    assert isinstance(found.exact, Missing)
    assert "exact=True" in found.exact.reason
    assert not isinstance(gather(result, exact=True).exact, Missing)
    assert found.in_standard_errors(result.x) is None
    assert "Without an exact fit" in texts(comparison.section(found))
    assert "with a residual of" in dependence.cost_of_order(found)
    monkeypatch.setattr(evidence, "SLOW_PASS", 0.0)
    slow = gather(result)
    assert isinstance(slow.in_order, Missing)
    assert "rivals=True" in slow.in_order.reason
    assert not isinstance(gather(result, rivals=True).in_order, Missing)
    assert isinstance(gather(result, rivals=False, exact=False).shuffled, Missing)


def test_a_pickled_result_still_has_a_report(result, buffer, tmp_path):
    again = pickle.loads(pickle.dumps(result))
    page = again.report(tmp_path / "r.html").read_text(encoding="utf-8")
    assert "left behind when this result was pickled" in page
    assert "result.report(path, buffer=...)" in page
    whole = again.report(tmp_path / "r.html", buffer=buffer).read_text(encoding="utf-8")
    assert "left behind" not in whole


def test_users_code_has_a_report(tmp_path):
    rng = np.random.default_rng(0)
    problem = mr.VariationalInequality(lambda x, sample: x - sample, dim=2, constraint=mr.sets.Simplex())
    result = mr.solve(problem, mr.Buffer(samples=rng.random((400, 2))), step=0.01)
    page = result.report(tmp_path / "r.html").read_text(encoding="utf-8")
    assert "There is no exact fit to compare with" in page
    assert "your function" in page
    again = pickle.loads(pickle.dumps(result))
    assert "cannot be pickled" in again.report(tmp_path / "r.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 64])
def test_the_shortest_records(rows, tmp_path):
    rng = np.random.default_rng(0)
    buffer = mr.Buffer(features=rng.standard_normal((rows, 1)), targets=rng.standard_normal(rows))
    assert mr.solve(mr.GLM(), buffer).report(tmp_path / "r.html").is_file()


def test_a_run_that_is_at_the_exact_fit_from_the_start(tmp_path):
    features = np.random.default_rng(0).standard_normal((300, 2))
    result = mr.solve(mr.GLM(), mr.Buffer(features=features, targets=np.zeros(300)), update=mr.Plain())
    assert not result.x.any()
    assert result.report(tmp_path / "r.html").is_file()


def test_many_coordinates_are_cut_honestly(tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "MOST_ROWS", 25)
    rng = np.random.default_rng(0)
    A = rng.standard_normal((400, 50))
    y = A @ np.ones(50) + rng.standard_normal(400)
    result = mr.solve(mr.GLM(), mr.Buffer(features=A, targets=y), holdout=None)
    found = sections(result)["Fit"]
    coefficients = table(found)
    assert len(coefficients.rows) == 50
    assert len(coefficients.cells) == 25
    assert coefficients.left_out == 25
    dots = next(block for block in found.blocks if isinstance(block, Plot))
    assert len(dots.figure.layout.yaxis.ticktext) == 40
    assert "The 40 of 50" in dots.caption
    assert "25 further rows are not on this page" in result.report(tmp_path / "r.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"exact": "maybe"}, "exact must be True, False or 'auto'"),
        ({"rivals": 1}, "rivals must be"),
        ({"names": ["one"]}, "one name for each of the 16 coordinates, not 1 of them"),
        ({"names": "abcdefghijklmnop"}, "names must have one name"),
        ({"buffer": "record"}, "a multireplay Buffer, not str"),
        ({"buffer": mr.Buffer(features=[[1.0]])}, "which has 8192 rows, not 1"),
    ],
)
def test_bad_arguments(result, options, words, tmp_path):
    with pytest.raises(InputError, match=words):
        result.report(tmp_path / "r.html", **options)
    assert not list(tmp_path.iterdir())


def test_only_results_of_solve(tmp_path):
    with pytest.raises(InputError, match=r"what mr\.solve returned, not int"):
        mr.report.report_of_result(tmp_path / "r.html", 3)
    made = mr.Result(np.ones(1), (), mr.Status("finished", ""), 1.0, 1.0)
    with pytest.raises(InputError, match=r"was not made by mr\.solve"):
        made.report(tmp_path / "r.html")
