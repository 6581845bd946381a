"""The direction of the main claims, and how a verdict is put together."""

from __future__ import annotations

import pytest

from multireplay.bench import EXPERIMENTS, reproduce, table
from multireplay.bench.claims import combine, policy_evaluation_claims
from multireplay.bench.table import Curves, Row


@pytest.fixture(scope="module")
def slow_mixing(everything, tmp_path_factory):
    """fig2b from four instances."""
    folder = tmp_path_factory.mktemp("slow")
    reproduce([EXPERIMENTS["fig2b"]], 4, 0, 1, folder, "small")
    return Curves(table.read(folder / "fig2b.csv"))


@pytest.mark.parametrize("iterations", [1024, 2048])
def test_mer_is_below_td_at_a_shared_step(slow_mixing, iterations):
    assert slow_mixing.at("shared", "MER", iterations) < slow_mixing.at("shared", "serial", iterations)


def test_td_ends_worst_at_a_shared_step(slow_mixing):
    ends = {row.method: slow_mixing.end("shared", row.method) for row in slow_mixing.rows}
    assert max(ends, key=ends.get) == "serial"


def test_dyadic_ends_below_mer(slow_mixing):
    assert slow_mixing.end("shared", "dyadic") < slow_mixing.end("shared", "MER")
    assert slow_mixing.end("best", "dyadic") < slow_mixing.end("best", "MER")


def test_mer_rises_again_at_a_shared_step(slow_mixing):
    assert slow_mixing.best("shared", "MER") < 0.9 * slow_mixing.end("shared", "MER")


def test_own_steps_serve_serial_better(slow_mixing):
    assert slow_mixing.end("best", "serial") < slow_mixing.end("shared", "serial")


def line(panel, method, *points):
    return [Row(panel, method, 0.5, T, error, 0.0, error, 2) for T, error in points]


def test_questions_to_a_table():
    curves = Curves([*line("shared", "a", (1, 1.0), (4, 0.25), (16, 0.5)), *line("shared", "b", (1, 1.0), (8, 1 / 8))])
    assert curves.end("shared", "a") == 0.5
    assert curves.best("shared", "a") == 0.25
    assert curves.at("shared", "b", 2) == pytest.approx(0.5)  # the line is 1/T
    assert curves.wins("shared", "b", "a") == 0.5  # 1.0 against 1.0, and 1/8 against √(1/8) at T = 8
    assert curves.farthest("shared", "b", "a") == pytest.approx(8 * 0.125**0.5)


@pytest.mark.parametrize(
    ("held", "verdict"),
    [
        ({"shared": True, "best": True}, "holds"),
        ({"shared": False, "best": False}, "does not hold"),
        ({"shared": True, "best": False}, "holds only if all methods share one step"),
        ({"shared": False, "best": True}, "holds only if every method has its own best step"),
    ],
)
def test_combined(held, verdict):
    assert combine(held) == verdict


def test_a_verdict_follows_the_numbers():
    """TD worst in the first panel only; then not at all."""
    names = ("MER", "serial", "skip 5", "i.i.d.", "LSTD")

    def verdict(worst_shared, worst_best):
        rows = [
            row
            for panel, worst in (("shared", worst_shared), ("best", worst_best))
            for name in names
            for row in line(panel, name, (1, 1.0), (16, 0.5 if name == worst else 0.1))
        ]
        found = policy_evaluation_claims("fig2b", Curves(rows))
        return next(entry.verdict for entry in found if "TD performs the worst" in entry.claim)

    assert verdict("serial", "serial") == "holds"
    assert verdict("serial", "MER") == "holds only if all methods share one step"
    assert verdict("i.i.d.", "MER") == "does not hold"
