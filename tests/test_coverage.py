"""The table of coverage: three of its cells again, small and with other seeds; its rivals against their libraries."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"
HELPERS = ("coverage_worlds", "coverage_rivals")


@pytest.fixture(scope="module")
def script():
    """What benchmarks/coverage.py defines."""
    sys.path.insert(0, str(FOLDER))
    yield runpy.run_path(str(FOLDER / "coverage.py"))
    sys.path.remove(str(FOLDER))
    for name in HELPERS:
        sys.modules.pop(name, None)


@pytest.mark.parametrize("number", range(3))
def test_a_small_cell_covers(script, number):
    """Of 60 intervals, 51 at least: fewer have a chance below one in a thousand if 95 % hold."""
    lines = script["measure"](script["SMALL"][number], 60, 1, seed=977)
    ours = [line for line in lines if line["method"] == script["OURS"] and line["visits"] >= 50]
    assert ours
    for line in ours:
        assert line["replications"] == 60
        assert line["coverage"] >= 100 * 51 / 60
        assert 0.7 < line["width"] < 1.6


def test_what_is_hardly_seen_is_marked(script):
    cell = script["Cell"]("mean", 0.99, 2_000, 1)
    ours = next(line for line in script["measure"](cell, 40, 1, seed=977) if line["method"] == script["OURS"])
    assert ours["effective"] < 20
    assert ours["marked"] >= 90


@pytest.mark.parametrize("family", ["linear", "Poisson"])
def test_hac_is_that_of_statsmodels(script, family):
    models = pytest.importorskip("statsmodels.api")
    from coverage_rivals import default_lag, hac_errors

    cell = script["Cell"](family, 0.5, 2_000, 5)
    sample = script["draw"](cell, cell.generator(0, seed=977))
    y, X = sample.columns["targets"], sample.features
    model = models.OLS(y, X) if family == "linear" else models.GLM(y, X, family=models.families.Poisson())
    found = model.fit(cov_type="HAC", cov_kwds={"maxlags": int(default_lag(X)[0])})
    centre, images = sample.images(np.asarray(found.params), np.eye(5))
    np.testing.assert_allclose(centre, found.params, rtol=1e-6)
    np.testing.assert_allclose(hac_errors(images, default_lag(images)), found.bse, rtol=1e-6)


def test_arch_covers_a_mean(script):
    pytest.importorskip("arch")
    from coverage_rivals import arch_interval

    values = np.random.default_rng(977).standard_normal(500)
    low, high = arch_interval(values.mean(), values - values.mean(), 0)
    assert low < values.mean() < high
    assert 0.7 < (high - low) / (2 * 1.96 * values.std() / np.sqrt(500)) < 1.3


def test_the_truth_of_a_chain_is_its_projected_fixed_point(script):
    from coverage_worlds import GAMMA, chain_of

    chain = chain_of("tabular", 0.9)
    chances = np.diff(chain.cumulated, prepend=0.0, axis=1)
    np.testing.assert_allclose(chain.theta, np.linalg.solve(np.eye(10) - GAMMA * chances, chain.rewards), rtol=1e-9)
    np.testing.assert_allclose(chain.stationary @ chances, chain.stationary, atol=1e-12)


def test_every_line_of_the_file_is_of_the_table(script):
    lines = script["read"](script["FILE"])
    assert lines
    assert set(lines) <= {str(cell) for cell in script["all_cells"]()}
    assert all(rows for _, rows in script["tables"](lines))
