"""Autocorrelation functions for a picture: those of the slowest columns, at lags that hide no cycle."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from multireplay.diagnose.autocorrelation import Floats
from multireplay.show.plotting import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from multireplay.diagnose.diagnosis import ColumnDiagnosis, Diagnosis

MOST_CURVES = 6
"""Curves that can be told apart in one picture."""
COLORS = (BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY)
FEWEST_LAGS = 20
TIMES, TURNS = 5, 4
"""Lags go on for so many autocorrelation times and so many turns of a cycle."""
ALL_LAGS, BINS = 1000, 400
"""Up to so many lags all are kept; of more, the least and the greatest value in each of so many bins."""


@dataclass(frozen=True, slots=True, eq=False)
class LagCurve:
    """The autocorrelations of the slowest feature of a column."""

    label: str
    tau: float
    lags: NDArray[np.int64]
    values: Floats


def curves_of(columns: list[tuple[ColumnDiagnosis, Any]], longest: int) -> tuple[LagCurve, ...]:
    """The curves of the slowest of some columns, slowest first; the longest chain has so many rows.

    Each is given with what makes the autocorrelations of its slowest feature, up to a lag.
    """
    varying = [pair for pair in columns if pair[0].worst_feature is not None]
    shown = sorted(varying, key=lambda pair: -pair[0].tau_max)[:MOST_CURVES]
    if not shown:
        return ()
    wanted = [max(TIMES * column.tau_max, TURNS * (column.period or 0)) for column, _ in shown]
    most = min(max(FEWEST_LAGS, int(max(wanted))), longest - 1)
    found = []
    for column, autocorrelations_to in shown:
        values = autocorrelations_to(most)
        lags = _shown(values)
        found.append(LagCurve(column.label, column.tau_max, lags, values[lags]))
    return tuple(found)


def _shown(values: Floats) -> NDArray[np.int64]:
    """All lags, or of very many the least and the greatest value of every few: every so many alone may hide a cycle."""
    if len(values) <= ALL_LAGS + 1:
        return np.arange(len(values))
    cuts = np.linspace(1, len(values), BINS + 1).astype(int)
    ends = [low + place(values[low:high]) for low, high in pairwise(cuts) for place in _EXTREMES]
    return np.unique([0, *ends])


_EXTREMES = (np.argmin, np.argmax)


def plot(diagnosis: Diagnosis, ax: Axes | None = None) -> Axes:
    """See `Diagnosis.plot`."""
    ax = new_axes(ax)
    noise = 2 / np.sqrt(diagnosis.rows)
    ax.axhspan(-noise, noise, color="0.85")
    for place, (curve, color) in enumerate(zip(diagnosis.curves, COLORS, strict=False)):
        tau = f"{curve.tau:.3g}" if curve.tau < 1000 else f"{curve.tau:.0f}"
        label, above = f"{curve.label}, tau = {tau}", 3 - 0.1 * place  # the slowest on top
        ax.plot(curve.lags, curve.values, color=color, linewidth=1.2, zorder=above, label=label)
    ax.set(xlabel="lag in steps", ylabel="autocorrelation")
    if diagnosis.curves:
        ax.set_xlim(0, max(int(curve.lags[-1]) for curve in diagnosis.curves))
        ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=3, fontsize="small")
    return ax
