"""Every claim that the numerical section makes of Figures 2 and 3, tested instance by instance in both panels.

What is in quotation marks is verbatim in the paper; all else, and every threshold, is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from multireplay.bench.figures import PANELS
from multireplay.bench.paired import NO, UNTOLD, YES, Paired, told, told_apart

HOLDS, FAILS, ONLY_IF = "holds", "does not hold", "holds only if"
WORDS = {"shared": "with one step for all", "best": "with own steps"}
CLOSE, SIMILAR, MOSTLY = 1.5, 2.0, 0.75
"""Factors up to which errors are called comparable and similar, and the share of the epochs that makes a habit."""
Numbers = dict[str, float]
Outcome = tuple[int, Numbers]
"""What a test has found in one panel, and by which numbers."""
Test = Callable[[Any, str], Outcome]


@dataclass(frozen=True)
class Verdict:
    """A claim of the paper, what was found, and the numbers it rests on."""

    figure: str
    claim: str
    verdict: str
    finding: str
    numbers: dict[str, float]


def cannot_be_told(count: int) -> str:
    return f"cannot be told from {count} instance{'s' if count != 1 else ''}"


def combine(found: Mapping[str, int], count: int) -> str:
    """One verdict from what was found in each panel, by so many instances."""
    texts = {YES: HOLDS, NO: FAILS, UNTOLD: cannot_be_told(count)}
    if len(set(found.values())) == 1:
        return texts[found["shared"]]
    if set(found.values()) == {YES, NO}:
        return f"holds only {next(WORDS[panel] for panel, outcome in found.items() if outcome == YES)}"
    return ", ".join(f"{texts[outcome]} {WORDS[panel]}" for panel, outcome in found.items())


class Judge:
    """Collects the verdicts on one figure.

    ``views`` has what the tests look at by the name of a norm. The first norm is that of the figure's caption, and the
    verdict is in it; what the others say, and their numbers, are told beside it.
    """

    def __init__(self, figure: str, views: Mapping[str, Any], count: int) -> None:
        self.figure, self.views, self.count, self.verdicts = figure, views, count, list[Verdict]()

    def __call__(self, claim: str, finding: str, counts: str = "") -> Callable[[Test], Test]:
        """Judge a claim by the test below it; `finding` is filled in with the numbers, named panel_number.

        `counts` says which of them are enough.
        """

        def judged(test: Test) -> Test:
            numbers, verdict, said = Numbers(), "", list[str]()
            for norm, view in self.views.items():
                found = {panel: test(view, panel) for panel in PANELS}
                here = {f"{p}_{name}": value for p, (_, some) in found.items() for name, value in some.items()}
                text = combine({panel: outcome for panel, (outcome, _) in found.items()}, self.count)
                if verdict:
                    said.append(f"In the {norm} norm: {text}. {finding.format(**here)}.")
                    numbers |= {f"{norm.lower()}_{name}": value for name, value in here.items()}
                    continue
                said.append(f"{finding.format(**here)}{f'; {counts}' if counts else ''}.")
                numbers, verdict = here, text
            self.verdicts.append(Verdict(self.figure, claim, verdict, " ".join(said), numbers))
            return test

        return judged


Arrays = Mapping[str, Any]
Both = tuple[Paired, Paired]
"""The curves at m = 0.9 and at m = 0.95."""


def _norms(arrays: Arrays) -> dict[str, Paired]:
    return {"Π": Paired(arrays, 2), "Euclidean": Paired(arrays, 1)}


def fast_claims(arrays: Arrays) -> list[Verdict]:
    """What is said of Figure 2a, m = 0.9."""
    views, skip = _norms(arrays), "skip 5"
    judge = Judge("fig2a", views, views["Π"].count)

    @judge(
        "“Owing to skipping, the CTD algorithm closely emulates an i.i.d. data stream over the 30000 iterations over "
        "which it is run” (m = 0.9).",
        "CTD's error is at most {shared_ratio:.2f} (shared step) and {best_ratio:.2f} (own steps) times the i.i.d. "
        "error after the same iterations",
        f"never above {CLOSE} times counts as close",
    )
    def _(curves: Paired, panel: str) -> Outcome:
        numbers = {"ratio": curves.highest_ratio(panel, skip, "i.i.d.")}
        return curves.stays_within(panel, skip, "i.i.d.", CLOSE), numbers

    @judge(
        "“The TD algorithm achieves comparable error eventually” (m = 0.9).",
        "TD ends at {shared_td:m} and CTD at {shared_ctd:m} (shared step), {best_td:m} and {best_ctd:m} (own steps)",
        f"at most {CLOSE} times CTD's counts as comparable",
    )
    def _(curves: Paired, panel: str) -> Outcome:
        numbers = {"td": curves.end(panel, "serial"), "ctd": curves.end(panel, skip)}
        return curves.ends_below(panel, "serial", skip, CLOSE), dict(numbers)

    @judge(
        "“but the decay of its error over iterations is noticeably worse” (TD's, m = 0.9).",
        "CTD's error is at least 5 % below TD's after the same iterations at {shared_share:.0%} of its points (shared "
        "step) and {best_share:.0%} (own steps)",
        "at least half counts",
    )
    def _(curves: Paired, panel: str) -> Outcome:
        outcome, share = curves.mostly_below(panel, skip, "serial", 0.5, 0.95)
        return outcome, {"share": share}

    _mer_claims(
        judge,
        skip,
        "“The MER algorithm achieves significantly better iterate-by-iterate performance than TD” (m = 0.9).",
        "“plateauing at a smaller eventual error than CTD and TD (and closer to the i.i.d. error)” (MER, m = 0.9).",
    )
    return judge.verdicts


def _mer_claims(judge: Judge, skip: str, on_the_way: str, at_the_end: str) -> None:
    """MER against TD and CTD."""

    @judge(
        on_the_way,
        "MER's error is below TD's after the same number of iterations at {shared_share:.0%} of its epochs (shared "
        "step) and {best_share:.0%} (own steps)",
        f"two standard errors below at {MOSTLY:.0%} of them or more counts",
    )
    def _(curves: Paired, panel: str) -> Outcome:
        outcome, share = curves.mostly_below(panel, "MER", "serial", MOSTLY)
        return outcome, {"share": share}

    @judge(
        at_the_end,
        "MER's last epoch ends at {shared_mer:m}, CTD at {shared_ctd:m}, TD at {shared_td:m}, i.i.d. at {shared_iid:m} "
        "(shared step); {best_mer:m}, {best_ctd:m}, {best_td:m} and {best_iid:m} (own steps). LSTD: {best_lstd:m}. One "
        "constant step for all epochs of MER (ours) ends at {shared_constant:m} and {best_constant:m}",
    )
    def _(curves: Paired, panel: str) -> Outcome:
        names = {
            "mer": "MER",
            "ctd": skip,
            "td": "serial",
            "iid": "i.i.d.",
            "constant": "MER, one constant step (ours)",
        }
        numbers = {key: curves.end(panel, name) for key, name in names.items()} | {"lstd": curves.exact("LSTD")}
        return min(curves.ends_below(panel, "MER", rival) for rival in (skip, "serial")), dict(numbers)


def _least_effective(curves: Paired, panel: str) -> Outcome:
    """Whether TD ends above what the paper compares it with."""
    rivals = {name: curves.end(panel, name) for name in ("MER", "skip 5", "i.i.d.")}
    outcome = min(curves.ends_below(panel, name, "serial") for name in rivals)
    return outcome, {"td": curves.end(panel, "serial"), "next": max(rivals.values())}


def slow_claims(arrays: Arrays) -> list[Verdict]:
    """What is said of Figure 2b, m = 0.95, and beside it what is said of MER at m = 0.9 alone."""
    views = _norms(arrays)
    judge = Judge("fig2b", views, views["Π"].count)
    judge(
        "“The TD algorithm remains the least effective in this regime.” (m = 0.95)",
        "TD ends at {shared_td:m}, the next worst of MER, CTD and i.i.d. at {shared_next:m} (shared step); {best_td:m} "
        "and {best_next:m} (own steps)",
    )(_least_effective)
    _mer_claims(
        judge,
        "skip 5",
        "Ours, the paper says it of m = 0.9 alone: MER is better than TD iterate by iterate at m = 0.95.",
        "Ours, the paper says it of m = 0.9 alone: MER ends at a smaller error than CTD and TD at m = 0.95.",
    )
    return judge.verdicts


def mixing_claims(fast: Arrays, slow: Arrays) -> list[Verdict]:
    """What is said of both halves of Figure 2 together."""
    pairs = {norm: (curves, _norms(slow)[norm]) for norm, curves in _norms(fast).items()}
    judge = Judge("fig2a, fig2b", pairs, min(curves.count for curves in pairs["Π"]))

    def grows(method: str, curves: Both, panel: str, factor: float) -> Outcome:
        """Whether a method's last error grows by more than a factor from m = 0.9 to 0.95."""
        ends = [part.ends(panel, method) for part in curves]
        numbers = {"fast": curves[0].end(panel, method), "slow": curves[1].end(panel, method)}
        return told_apart(ends[1], factor * ends[0]), dict(numbers)

    @judge(
        "“the fixed skipping parameter of 5 for CTD is much smaller than the effective mixing time, which leads to a "
        "marked drop in CTD performance” (from m = 0.9 to m = 0.95).",
        "CTD ends at {shared_fast:m} at m = 0.9 and {shared_slow:m} at m = 0.95 (shared step), {best_fast:m} and "
        "{best_slow:m} (own steps)",
        f"an error more than {CLOSE} times as large counts",
    )
    def _(curves: Both, panel: str) -> Outcome:
        return grows("skip 5", curves, panel, CLOSE)

    @judge(
        "“The MER algorithm still performs similarly to the case when m = 0.9, showing that its performance is not as "
        "sensitive to the mixing parameter.”",
        "MER's last epoch ends at {shared_fast:m} at m = 0.9 and {shared_slow:m} at m = 0.95 (shared step), "
        "{best_fast:m} and {best_slow:m} (own steps)",
        f"less than {SIMILAR:g} times as large counts as similar",
    )
    def _(curves: Both, panel: str) -> Outcome:
        outcome, numbers = grows("MER", curves, panel, SIMILAR)
        return -outcome, numbers

    @judge(
        "“CTD's performance is highly sensitive to the choice of skipping parameter”.",
        "With skips of 5, 19 and 50 CTD ends at {shared_fast_5:.2e}, {shared_fast_19:.2e} and {shared_fast_50:.2e} at "
        "m = 0.9, and at {shared_slow_5:.2e}, {shared_slow_19:.2e} and {shared_slow_50:.2e} at m = 0.95 (shared step); "
        "{best_fast_5:.2e}, {best_fast_19:.2e} and {best_fast_50:.2e}, and {best_slow_5:.2e}, {best_slow_19:.2e} and "
        "{best_slow_50:.2e} (own steps)",
        f"the worst more than {SIMILAR:g} times the best, at both m, counts",
    )
    def _(curves: Both, panel: str) -> Outcome:
        outcomes: list[int] = []
        numbers: Numbers = {}
        for name, part in zip(("fast", "slow"), curves, strict=True):
            ends = sorted((part.ends(panel, f"skip {gap}") for gap in (5, 19, 50)), key=lambda values: values.mean())
            outcomes.append(int(told(ends[-1] - SIMILAR * ends[0])))
            numbers |= {f"{name}_{gap}": float(part.end(panel, f"skip {gap}")) for gap in (5, 19, 50)}
        return min(outcomes), numbers

    @judge(
        "“MER consistently approximates i.i.d. performance regardless of the mixing time”.",
        "After any of its epochs MER's error is at most {shared_fast:.2f} (m = 0.9) and {shared_slow:.2f} (m = 0.95) "
        "times the i.i.d. error (shared step), {best_fast:.2f} and {best_slow:.2f} times (own steps). With one "
        "constant step for all epochs (ours) it is {shared_constant_fast:.0f} and {shared_constant_slow:.0f} times, "
        "and {best_constant_fast:.1f} and {best_constant_slow:.1f}",
        f"never above {CLOSE} times at both m counts",
    )
    def _(curves: Both, panel: str) -> Outcome:
        numbers = {}
        for name, part in zip(("fast", "slow"), curves, strict=True):
            numbers[name] = part.highest_ratio(panel, "MER", "i.i.d.")
            numbers[f"constant_{name}"] = part.highest_ratio(panel, "MER, one constant step (ours)", "i.i.d.")
        return min(part.stays_within(panel, "MER", "i.i.d.", CLOSE) for part in curves), numbers

    @judge(
        "“As expected, TD performs the worst for both values of m.”",
        "TD ends at {shared_fast_td:m} and {shared_slow_td:m} at m = 0.9 and 0.95, the next worst of MER, CTD and "
        "i.i.d. at {shared_fast_next:m} and {shared_slow_next:m} (shared step); {best_fast_td:m} and {best_slow_td:m}, "
        "and {best_fast_next:m} and {best_slow_next:m} (own steps)",
    )
    def _(curves: Both, panel: str) -> Outcome:
        found = {name: _least_effective(part, panel) for name, part in zip(("fast", "slow"), curves, strict=True)}
        numbers = {f"{name}_{key}": value for name, (_, some) in found.items() for key, value in some.items()}
        return min(outcome for outcome, _ in found.values()), numbers

    return judge.verdicts


def logistic_claims(figure: str, arrays: Arrays) -> list[Verdict]:
    """What is said of Figure 3, of the paper's additive noise or of Bernoulli targets beside it."""
    curves = Paired(arrays, 1)
    judge = Judge(figure, {"Euclidean": curves}, curves.count)
    exact = next(name for name in arrays if name.startswith("exact/") and name != "exact/best ridge")[len("exact/") :]
    where = "ours: with Bernoulli targets" if "bernoulli" in figure else "with additive Gaussian noise"
    words = (
        "“the MER algorithm consistently achieves performance better than TD and CTD, even when the chain mixes slowly”"
    )

    @judge(
        f"{words} (at the end of the run, {where}).",
        "At the end: MER {shared_mer:m}, TD {shared_td:m}, CTD {shared_ctd:m}, i.i.d. {shared_iid:m}, dyadic "
        "{shared_dyadic:m}, shuffle {shared_shuffle:m} (shared step); MER {best_mer:m}, TD {best_td:m}, CTD "
        "{best_ctd:m}, i.i.d. {best_iid:m}, dyadic {best_dyadic:m}, shuffle {best_shuffle:m} (own steps). Exact fits: "
        f"best ridge {{best_ridge:m}}, {exact} {{best_exact:m}}. An error of 1 is that of x = 0",
    )
    def _(curves: Paired, panel: str) -> Outcome:
        names = {
            "mer": "MER", "td": "serial", "ctd": "skip 10", "iid": "i.i.d.", "dyadic": "dyadic", "shuffle": "shuffle",
        }  # fmt: skip
        numbers = {key: curves.end(panel, name) for key, name in names.items()}
        numbers |= {"ridge": curves.exact("best ridge"), "exact": curves.exact(exact)}
        return min(curves.ends_below(panel, "MER", rival) for rival in ("serial", "skip 10")), dict(numbers)

    @judge(
        f"{words} (iteration by iteration, {where}).",
        "MER is below TD after the same number of iterations at {shared_td:.0%} of its epochs and below CTD at "
        "{shared_ctd:.0%} (shared step); {best_td:.0%} and {best_ctd:.0%} (own steps)",
        f"two standard errors below at {MOSTLY:.0%} of them or more, for both, counts",
    )
    def _(curves: Paired, panel: str) -> Outcome:
        found = {
            key: curves.mostly_below(panel, "MER", rival, MOSTLY)
            for key, rival in (("td", "serial"), ("ctd", "skip 10"))
        }
        return min(outcome for outcome, _ in found.values()), {key: share for key, (_, share) in found.items()}

    return judge.verdicts
