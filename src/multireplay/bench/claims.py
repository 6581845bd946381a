"""What a verdict on a claim is made of: the table of a figure, asked in the paper's terms, in both panels."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from multireplay.bench.figures import PANELS
from multireplay.bench.table import Row

HOLDS, FAILS, ONLY_IF = "holds", "does not hold", "holds only if"


@dataclass(frozen=True)
class Verdict:
    """A claim of the paper, what was found, and the numbers it rests on."""

    figure: str
    claim: str
    verdict: str
    finding: str
    numbers: dict[str, float]


class Curves:
    """The table of one figure, asked by panel and method."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = rows

    def points(self, panel: str, method: str) -> list[Row]:
        return [row for row in self.rows if row.panel == panel and row.method == method]

    def end(self, panel: str, method: str) -> float:
        """Error when its samples are used up."""
        return self.points(panel, method)[-1].error_mean

    def best(self, panel: str, method: str) -> float:
        """Smallest error on its curve."""
        return min(row.error_mean for row in self.points(panel, method))

    def at(self, panel: str, method: str, iterations: float) -> float:
        """Error after that many iterations, on the straight line between its points in the logarithms."""
        points = self.points(panel, method)
        x, y = ([math.log(getattr(row, name)) for row in points] for name in ("iterations", "error_mean"))
        return float(np.exp(np.interp(math.log(iterations), x, y)))

    def wins(self, panel: str, method: str, rival: str, factor: float = 1.0) -> float:
        """Share of the method's points, up to the rival's last, at which its error is below factor × the rival's."""
        last = self.points(panel, rival)[-1].iterations
        points = [row for row in self.points(panel, method) if row.iterations <= last]
        better = [row.error_mean < factor * self.at(panel, rival, row.iterations) for row in points]
        return sum(better) / len(better)

    def farthest(self, panel: str, method: str, reference: str) -> float:
        """Largest ratio, up or down, of the errors of two methods over the iterations both take."""
        last = min(self.points(panel, name)[-1].iterations for name in (method, reference))
        points = [row for row in self.points(panel, method) if row.iterations <= last]
        ratios = [row.error_mean / self.at(panel, reference, row.iterations) for row in points]
        return max(max(ratio, 1 / ratio) for ratio in ratios)


def combine(held: Mapping[str, bool]) -> str:
    """One verdict from whether a claim holds in each panel."""
    if all(held.values()):
        return HOLDS
    if not any(held.values()):
        return FAILS
    names = {"shared": "all methods share one step", "best": "every method has its own best step"}
    return f"{ONLY_IF} {' and '.join(names[panel] for panel, holds in held.items() if holds)}"


Numbers = dict[str, float]


class Claim(NamedTuple):
    """What the paper says of a figure: ``test(panel)`` whether it is so and by which numbers, and what is found.

    `finding` is filled in with the numbers of both panels, named panel_number.
    """

    text: str
    test: Callable[[str], tuple[bool, Numbers]]
    finding: str


def judge(figure: str, *claims: Claim) -> list[Verdict]:
    """Test claims in both panels."""
    verdicts = []
    for claim in claims:
        held: dict[str, bool] = {}
        numbers: Numbers = {}
        for panel in PANELS:
            held[panel], found = claim.test(panel)
            numbers |= {f"{panel}_{name}": value for name, value in found.items()}
        verdicts.append(Verdict(figure, claim.text, combine(held), claim.finding.format(**numbers), numbers))
    return verdicts
