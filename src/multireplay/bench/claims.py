"""Every claim that the numerical section makes of its figures, tested on their tables in both panels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from multireplay.bench.figures import PANELS
from multireplay.bench.table import Curves

HOLDS, FAILS, ONLY_IF = "holds", "does not hold", "holds only if"
Numbers = dict[str, float]
Test = Callable[[str], tuple[bool, Numbers]]
"""Of a panel, whether a claim is so there, and by which numbers."""


@dataclass(frozen=True)
class Verdict:
    """A claim of the paper, what was found, and the numbers it rests on."""

    figure: str
    claim: str
    verdict: str
    finding: str
    numbers: dict[str, float]


def combine(held: Mapping[str, bool]) -> str:
    """One verdict from whether a claim holds in each panel."""
    if all(held.values()):
        return HOLDS
    if not any(held.values()):
        return FAILS
    names = {"shared": "all methods share one step", "best": "every method has its own best step"}
    return f"{ONLY_IF} {' and '.join(names[panel] for panel, holds in held.items() if holds)}"


class Judge:
    """Collects the verdicts on one figure."""

    def __init__(self, figure: str) -> None:
        self.figure, self.verdicts = figure, list[Verdict]()

    def __call__(self, claim: str, finding: str) -> Callable[[Test], Test]:
        """Judge a claim by the test below it; `finding` is filled in with the numbers, named panel_number."""

        def judged(test: Test) -> Test:
            held: dict[str, bool] = {}
            numbers: Numbers = {}
            for panel in PANELS:
                held[panel], found = test(panel)
                numbers |= {f"{panel}_{name}": value for name, value in found.items()}
            self.verdicts.append(Verdict(self.figure, claim, combine(held), finding.format(**numbers), numbers))
            return test

        return judged


def policy_evaluation_claims(figure: str, curves: Curves) -> list[Verdict]:
    """What is said of Figure 2: (a) m = 0.9, (b) m = 0.95."""
    judge, skip = Judge(figure), "skip 5"

    if figure == "fig2a":

        @judge(
            "For m = 0.9, owing to skipping, the CTD algorithm closely emulates an i.i.d. data stream over the "
            "30000 iterations over which it is run.",
            "Largest ratio of CTD's error to the i.i.d. error on the way: {shared_ratio:.2f} (shared step), "
            "{best_ratio:.2f} (own steps); below 1.5 counts as close.",
        )
        def emulates(panel: str) -> tuple[bool, Numbers]:
            ratio = curves.farthest(panel, skip, "i.i.d.")
            return ratio < 1.5, {"ratio": ratio}

        @judge(
            "The TD algorithm achieves comparable error eventually, but the decay of its error over iterations is "
            "noticeably worse.",
            "TD ends at {shared_td:.2e} against CTD's {shared_ctd:.2e} (shared step), and at {best_td:.2e} against "
            "{best_ctd:.2e} (own steps); within a factor 1.5 counts as comparable. With a constant step TD's error "
            "stops falling at a bias that only a smaller step lowers. On the way the i.i.d. error is at least 5 % "
            "below TD's at {shared_share:.0%} and {best_share:.0%} of the points; more than half counts as worse.",
        )
        def td_worse_decay(panel: str) -> tuple[bool, Numbers]:
            share = curves.wins(panel, "i.i.d.", "serial", 0.95)
            end, rival = curves.end(panel, "serial"), curves.end(panel, skip)
            return end < 1.5 * rival and share > 0.5, {"td": end, "ctd": rival, "share": share}

    else:

        @judge(
            "For m = 0.95 the fixed skipping parameter of 5 is much smaller than the effective mixing time, which "
            "leads to a marked drop in CTD performance.",
            "Largest ratio of CTD's error to the i.i.d. error on the way: {shared_ratio:.2f} (shared step), "
            "{best_ratio:.2f} (own steps); above 1.5 counts as a marked drop.",
        )
        def drops(panel: str) -> tuple[bool, Numbers]:
            ratio = curves.farthest(panel, skip, "i.i.d.")
            return ratio >= 1.5, {"ratio": ratio}

    @judge(
        "The MER algorithm achieves significantly better iterate-by-iterate performance than TD.",
        "MER's error is below TD's after the same number of iterations at {shared_share:.0%} of its epochs "
        "(shared step) and {best_share:.0%} (own steps); at least 75 % counts.",
    )
    def mer_better(panel: str) -> tuple[bool, Numbers]:
        share = curves.wins(panel, "MER", "serial")
        return share >= 0.75, {"share": share}

    @judge(
        "MER plateaus at a smaller eventual error than CTD and TD (and closer to the i.i.d. error).",
        "MER's last epoch ends at {shared_mer_end:.2e}, its best epoch is at {shared_mer_best:.2e}; CTD's best is "
        "{shared_ctd:.2e}, TD's {shared_td:.2e}, i.i.d. ends at {shared_iid:.2e}, LSTD at {shared_lstd:.2e} "
        "(shared step). With own steps: MER {best_mer_end:.2e} (best {best_mer_best:.2e}), CTD {best_ctd:.2e}, TD "
        "{best_td:.2e}, i.i.d. {best_iid:.2e}. MER does not plateau at a shared step: it falls while the gap is "
        "above the mixing time and rises again when its last epochs become serial.",
    )
    def mer_plateau(panel: str) -> tuple[bool, Numbers]:
        numbers = {
            "mer_end": curves.end(panel, "MER"), "mer_best": curves.best(panel, "MER"), "ctd": curves.best(panel, skip),
            "td": curves.best(panel, "serial"), "iid": curves.end(panel, "i.i.d."), "lstd": curves.end(panel, "LSTD"),
        }  # fmt: skip
        return numbers["mer_end"] < min(numbers["ctd"], numbers["td"]), numbers

    @judge(
        "TD performs the worst.",
        "TD ends at {shared_td:.2e}, the next worst at {shared_next:.2e} (shared step); {best_td:.2e} and "
        "{best_next:.2e} (own steps).",
    )
    def worst(panel: str) -> tuple[bool, Numbers]:
        ends = {row.method: curves.end(panel, row.method) for row in curves.rows if row.panel == panel}
        rest = max(value for name, value in ends.items() if name != "serial")
        return max(ends, key=lambda name: ends[name]) == "serial", {"td": ends["serial"], "next": rest}

    return judge.verdicts


def insensitivity_claims(fast: Curves, slow: Curves) -> list[Verdict]:
    """What is said of both halves of Figure 2 together."""
    judge, both = Judge("fig2a, fig2b"), (("fast", fast), ("slow", slow))

    @judge(
        "The MER algorithm still performs similarly to the case when m = 0.9, showing that its performance is not "
        "as sensitive to the mixing parameter.",
        "MER's best epoch: {shared_fast_best:.2e} at m = 0.9, {shared_slow_best:.2e} at m = 0.95; its last: "
        "{shared_fast_end:.2e} and {shared_slow_end:.2e} (shared step). Own steps: best {best_fast_best:.2e} and "
        "{best_slow_best:.2e}. Within a factor 2 counts as similar.",
    )
    def mer_same(panel: str) -> tuple[bool, Numbers]:
        ends = {f"{name}_end": curves.end(panel, "MER") for name, curves in both}
        bests = {f"{name}_best": curves.best(panel, "MER") for name, curves in both}
        return bests["slow_best"] < 2 * bests["fast_best"], ends | bests

    @judge(
        "CTD's performance is highly sensitive to the choice of skipping parameter.",
        "From m = 0.9 to 0.95 with the same skip of 5, CTD's best error grows by a factor {shared_ctd:.1f}, MER's "
        "best epoch by {shared_mer:.1f} (shared step); {best_ctd:.1f} and {best_mer:.1f} (own steps).",
    )
    def ctd_sensitive(panel: str) -> tuple[bool, Numbers]:
        mer, ctd = (slow.best(panel, name) / fast.best(panel, name) for name in ("MER", "skip 5"))
        return ctd > 1.5 and ctd > mer, {"mer": mer, "ctd": ctd}

    @judge(
        "MER consistently approximates i.i.d. performance regardless of the mixing time.",
        "Largest ratio of MER's to the i.i.d. error: {shared_fast:.1f} (m = 0.9) and {shared_slow:.1f} (m = 0.95) "
        "at a shared step, {best_fast:.1f} and {best_slow:.1f} with own steps. MER stays within 1.5 of the i.i.d. "
        "error up to T = {shared_fast_until:.0f} and {shared_slow_until:.0f} (shared): while its gap is above the "
        "mixing time, not regardless of it.",
    )
    def tracks_iid(panel: str) -> tuple[bool, Numbers]:
        numbers = {}
        for name, curves in both:
            numbers[name] = curves.farthest(panel, "MER", "i.i.d.")
            points = curves.points(panel, "MER")
            close = [p.iterations for p in points if p.error_mean < 1.5 * curves.at(panel, "i.i.d.", p.iterations)]
            numbers[f"{name}_until"] = float(max(close, default=0))
        return max(numbers["fast"], numbers["slow"]) < 1.5, numbers

    return judge.verdicts


def logistic_claims(figure: str, curves: Curves) -> list[Verdict]:
    """What is said of Figure 3."""
    judge = Judge(figure)

    @judge(
        "The MER algorithm consistently achieves performance better than TD and CTD, even when the chain mixes "
        "slowly (at the end of the run).",
        "At the end: MER {shared_mer:.3f}, TD {shared_td:.3f}, CTD {shared_ctd:.3f}, i.i.d. {shared_iid:.3f}, "
        "dyadic {shared_dyadic:.3f}, shuffle {shared_shuffle:.3f} (shared step); MER {best_mer:.3f}, TD "
        "{best_td:.3f}, CTD {best_ctd:.3f}, i.i.d. {best_iid:.3f}, dyadic {best_dyadic:.3f}, shuffle "
        "{best_shuffle:.3f} (own steps). Best ridge {best_ridge:.3f}, maximum likelihood {best_ml:.3g}. An error "
        "of 1 is that of x = 0.",
    )
    def better(panel: str) -> tuple[bool, Numbers]:
        names = {
            "mer": "MER", "td": "serial", "ctd": "skip 10", "iid": "i.i.d.", "dyadic": "dyadic", "shuffle": "shuffle",
            "ridge": "best ridge", "ml": "maximum likelihood",
        }  # fmt: skip
        ends = {key: curves.end(panel, name) for key, name in names.items()}
        ends["share"] = curves.wins(panel, "MER", "serial")
        return ends["mer"] < min(ends["td"], ends["ctd"]), ends

    @judge(
        "The same, iteration by iteration.",
        "MER is below TD after the same number of iterations at {shared_td:.0%} of its epochs and below CTD at "
        "{shared_ctd:.0%} (shared step); {best_td:.0%} and {best_ctd:.0%} (own steps); at least 75 % of both "
        "counts.",
    )
    def by_iterate(panel: str) -> tuple[bool, Numbers]:
        numbers = {"td": curves.wins(panel, "MER", "serial"), "ctd": curves.wins(panel, "MER", "skip 10")}
        return min(numbers.values()) >= 0.75, numbers

    return judge.verdicts


def schematic_claims(curves: Curves) -> list[Verdict]:
    """What the caption of Figure 1 says."""
    judge = Judge("fig1")
    right, much, little = "skip right (19)", "skip too much (300)", "skip too little (3)"

    @judge(
        "CTD with the skipping parameter chosen correctly has accelerated iteration complexity while achieving the "
        "same eventual error as TD.",
        "Skipping right ends at {shared_right:.2e}, TD at {shared_td:.2e}; below TD at {shared_share:.0%} of the "
        "way (shared step). {best_right:.2e}, {best_td:.2e}, {best_share:.0%} (own steps).",
    )
    def same_error(panel: str) -> tuple[bool, Numbers]:
        end, rival, share = curves.end(panel, right), curves.end(panel, "serial"), curves.wins(panel, right, "serial")
        return share > 0.75 and end < 1.5 * rival, {"right": end, "td": rival, "share": share}

    @judge(
        "A pessimistic CTD traces the optimal CTD curve for a few iterations but stops much earlier and incurs "
        "large eventual error.",
        "Skipping too much stays within a factor {shared_traces:.2f} of skipping right and ends at "
        "{shared_much:.2e} against {shared_right:.2e} (shared step); {best_traces:.2f}, {best_much:.2e}, "
        "{best_right:.2e} (own steps).",
    )
    def stops_early(panel: str) -> tuple[bool, Numbers]:
        end, best, traces = curves.end(panel, much), curves.end(panel, right), curves.farthest(panel, much, right)
        return traces < 1.5 and end > 2 * best, {"much": end, "right": best, "traces": traces}

    @judge(
        "An optimistic CTD, although it runs for more iterations, typically does not achieve an eventual error "
        "comparable to TD.",
        "Skipping too little ends at {shared_little:.2e}, TD at {shared_td:.2e} (shared step); "
        "{best_little:.2e} and {best_td:.2e} (own steps).",
    )
    def too_little(panel: str) -> tuple[bool, Numbers]:
        end, rival = curves.end(panel, little), curves.end(panel, "serial")
        return end > 1.2 * rival, {"little": end, "td": rival}

    return judge.verdicts
