"""Every claim that the numerical section makes of its figures, tested on their tables."""

from __future__ import annotations

from multireplay.bench.claims import Claim, Curves, Numbers, Verdict, judge


def policy_evaluation_claims(figure: str, curves: Curves) -> list[Verdict]:
    """What is said of Figure 2: (a) m = 0.9, (b) m = 0.95."""
    skip = "skip 5"

    def emulates(panel: str) -> tuple[bool, Numbers]:
        ratio = curves.farthest(panel, skip, "i.i.d.")
        return ratio < 1.5, {"ratio": ratio}

    def drops(panel: str) -> tuple[bool, Numbers]:
        close, numbers = emulates(panel)
        return not close, numbers

    def td_worse_decay(panel: str) -> tuple[bool, Numbers]:
        share = curves.wins(panel, "i.i.d.", "serial", 0.95)
        end, rival = curves.end(panel, "serial"), curves.end(panel, skip)
        return end < 1.5 * rival and share > 0.5, {"td": end, "ctd": rival, "share": share}

    def mer_better(panel: str) -> tuple[bool, Numbers]:
        share = curves.wins(panel, "MER", "serial")
        return share >= 0.75, {"share": share}

    def mer_plateau(panel: str) -> tuple[bool, Numbers]:
        numbers = {
            "mer_end": curves.end(panel, "MER"), "mer_best": curves.best(panel, "MER"), "ctd": curves.best(panel, skip),
            "td": curves.best(panel, "serial"), "iid": curves.end(panel, "i.i.d."), "lstd": curves.end(panel, "LSTD"),
        }  # fmt: skip
        return numbers["mer_end"] < min(numbers["ctd"], numbers["td"]), numbers

    def worst(panel: str) -> tuple[bool, Numbers]:
        ends = {row.method: curves.end(panel, row.method) for row in curves.rows if row.panel == panel}
        rest = max(value for name, value in ends.items() if name != "serial")
        return max(ends, key=lambda name: ends[name]) == "serial", {"td": ends["serial"], "next": rest}

    of_fast = (
        Claim(
            "For m = 0.9, owing to skipping, the CTD algorithm closely emulates an i.i.d. data stream over the "
            "30000 iterations over which it is run.",
            emulates,
            "Largest ratio of CTD's error to the i.i.d. error on the way: {shared_ratio:.2f} (shared step), "
            "{best_ratio:.2f} (own steps); below 1.5 counts as close.",
        ),
        Claim(
            "The TD algorithm achieves comparable error eventually, but the decay of its error over iterations is "
            "noticeably worse.",
            td_worse_decay,
            "TD ends at {shared_td:.2e} against CTD's {shared_ctd:.2e} (shared step), and at {best_td:.2e} against "
            "{best_ctd:.2e} (own steps); within a factor 1.5 counts as comparable. With a constant step TD's error "
            "stops falling at a bias that only a smaller step lowers. On the way the i.i.d. error is at least 5 % "
            "below TD's at {shared_share:.0%} and {best_share:.0%} of the points; more than half counts as worse.",
        ),
    )
    of_slow = Claim(
        "For m = 0.95 the fixed skipping parameter of 5 is much smaller than the effective mixing time, which leads to "
        "a marked drop in CTD performance.",
        drops,
        "Largest ratio of CTD's error to the i.i.d. error on the way: {shared_ratio:.2f} (shared step), "
        "{best_ratio:.2f} (own steps); above 1.5 counts as a marked drop.",
    )
    return judge(
        figure,
        *(of_fast if figure == "fig2a" else (of_slow,)),
        Claim(
            "The MER algorithm achieves significantly better iterate-by-iterate performance than TD.",
            mer_better,
            "MER's error is below TD's after the same number of iterations at {shared_share:.0%} of its epochs "
            "(shared step) and {best_share:.0%} (own steps); at least 75 % counts.",
        ),
        Claim(
            "MER plateaus at a smaller eventual error than CTD and TD (and closer to the i.i.d. error).",
            mer_plateau,
            "MER's last epoch ends at {shared_mer_end:.2e}, its best epoch is at {shared_mer_best:.2e}; CTD's best is "
            "{shared_ctd:.2e}, TD's {shared_td:.2e}, i.i.d. ends at {shared_iid:.2e}, LSTD at {shared_lstd:.2e} "
            "(shared step). With own steps: MER {best_mer_end:.2e} (best {best_mer_best:.2e}), CTD {best_ctd:.2e}, TD "
            "{best_td:.2e}, i.i.d. {best_iid:.2e}. MER does not plateau at a shared step: it falls while the gap is "
            "above the mixing time and rises again when its last epochs become serial.",
        ),
        Claim(
            "TD performs the worst.",
            worst,
            "TD ends at {shared_td:.2e}, the next worst at {shared_next:.2e} (shared step); {best_td:.2e} and "
            "{best_next:.2e} (own steps).",
        ),
    )


def insensitivity_claims(fast: Curves, slow: Curves) -> list[Verdict]:
    """What is said of both halves of Figure 2 together."""
    both = (("fast", fast), ("slow", slow))

    def mer_same(panel: str) -> tuple[bool, Numbers]:
        ends = {f"{name}_end": curves.end(panel, "MER") for name, curves in both}
        bests = {f"{name}_best": curves.best(panel, "MER") for name, curves in both}
        return bests["slow_best"] < 2 * bests["fast_best"], ends | bests

    def ctd_sensitive(panel: str) -> tuple[bool, Numbers]:
        mer, ctd = (slow.best(panel, name) / fast.best(panel, name) for name in ("MER", "skip 5"))
        return ctd > 1.5 and ctd > mer, {"mer": mer, "ctd": ctd}

    def tracks_iid(panel: str) -> tuple[bool, Numbers]:
        numbers = {}
        for name, curves in both:
            numbers[name] = curves.farthest(panel, "MER", "i.i.d.")
            points = curves.points(panel, "MER")
            close = [p.iterations for p in points if p.error_mean < 1.5 * curves.at(panel, "i.i.d.", p.iterations)]
            numbers[f"{name}_until"] = float(max(close, default=0))
        return max(numbers["fast"], numbers["slow"]) < 1.5, numbers

    return judge(
        "fig2a, fig2b",
        Claim(
            "The MER algorithm still performs similarly to the case when m = 0.9, showing that its performance is not "
            "as sensitive to the mixing parameter.",
            mer_same,
            "MER's best epoch: {shared_fast_best:.2e} at m = 0.9, {shared_slow_best:.2e} at m = 0.95; its last: "
            "{shared_fast_end:.2e} and {shared_slow_end:.2e} (shared step). Own steps: best {best_fast_best:.2e} and "
            "{best_slow_best:.2e}. Within a factor 2 counts as similar.",
        ),
        Claim(
            "CTD's performance is highly sensitive to the choice of skipping parameter.",
            ctd_sensitive,
            "From m = 0.9 to 0.95 with the same skip of 5, CTD's best error grows by a factor {shared_ctd:.1f}, MER's "
            "best epoch by {shared_mer:.1f} (shared step); {best_ctd:.1f} and {best_mer:.1f} (own steps).",
        ),
        Claim(
            "MER consistently approximates i.i.d. performance regardless of the mixing time.",
            tracks_iid,
            "Largest ratio of MER's to the i.i.d. error: {shared_fast:.1f} (m = 0.9) and {shared_slow:.1f} (m = 0.95) "
            "at a shared step, {best_fast:.1f} and {best_slow:.1f} with own steps. MER stays within 1.5 of the i.i.d. "
            "error up to T = {shared_fast_until:.0f} and {shared_slow_until:.0f} (shared): while its gap is above the "
            "mixing time, not regardless of it.",
        ),
    )


def logistic_claims(figure: str, curves: Curves) -> list[Verdict]:
    """What is said of Figure 3."""
    names = {
        "mer": "MER", "td": "serial", "ctd": "skip 10", "iid": "i.i.d.", "dyadic": "dyadic", "shuffle": "shuffle",
        "ridge": "best ridge", "ml": "maximum likelihood",
    }  # fmt: skip

    def better(panel: str) -> tuple[bool, Numbers]:
        ends = {key: curves.end(panel, name) for key, name in names.items()}
        ends["share"] = curves.wins(panel, "MER", "serial")
        return ends["mer"] < min(ends["td"], ends["ctd"]), ends

    def by_iterate(panel: str) -> tuple[bool, Numbers]:
        numbers = {"td": curves.wins(panel, "MER", "serial"), "ctd": curves.wins(panel, "MER", "skip 10")}
        return min(numbers.values()) >= 0.75, numbers

    return judge(
        figure,
        Claim(
            "The MER algorithm consistently achieves performance better than TD and CTD, even when the chain mixes "
            "slowly (at the end of the run).",
            better,
            "At the end: MER {shared_mer:.3f}, TD {shared_td:.3f}, CTD {shared_ctd:.3f}, i.i.d. {shared_iid:.3f}, "
            "dyadic {shared_dyadic:.3f}, shuffle {shared_shuffle:.3f} (shared step); MER {best_mer:.3f}, TD "
            "{best_td:.3f}, CTD {best_ctd:.3f}, i.i.d. {best_iid:.3f}, dyadic {best_dyadic:.3f}, shuffle "
            "{best_shuffle:.3f} (own steps). Best ridge {best_ridge:.3f}, maximum likelihood {best_ml:.3g}. An error "
            "of 1 is that of x = 0.",
        ),
        Claim(
            "The same, iteration by iteration.",
            by_iterate,
            "MER is below TD after the same number of iterations at {shared_td:.0%} of its epochs and below CTD at "
            "{shared_ctd:.0%} (shared step); {best_td:.0%} and {best_ctd:.0%} (own steps); at least 75 % of both "
            "counts.",
        ),
    )


def schematic_claims(curves: Curves) -> list[Verdict]:
    """What the caption of Figure 1 says."""
    right, much, little = "skip right (19)", "skip too much (300)", "skip too little (3)"

    def same_error(panel: str) -> tuple[bool, Numbers]:
        end, rival, share = curves.end(panel, right), curves.end(panel, "serial"), curves.wins(panel, right, "serial")
        return share > 0.75 and end < 1.5 * rival, {"right": end, "td": rival, "share": share}

    def stops_early(panel: str) -> tuple[bool, Numbers]:
        end, best, traces = curves.end(panel, much), curves.end(panel, right), curves.farthest(panel, much, right)
        return traces < 1.5 and end > 2 * best, {"much": end, "right": best, "traces": traces}

    def too_little(panel: str) -> tuple[bool, Numbers]:
        end, rival = curves.end(panel, little), curves.end(panel, "serial")
        return end > 1.2 * rival, {"little": end, "td": rival}

    return judge(
        "fig1",
        Claim(
            "CTD with the skipping parameter chosen correctly has accelerated iteration complexity while achieving the "
            "same eventual error as TD.",
            same_error,
            "Skipping right ends at {shared_right:.2e}, TD at {shared_td:.2e}; below TD at {shared_share:.0%} of the "
            "way (shared step). {best_right:.2e}, {best_td:.2e}, {best_share:.0%} (own steps).",
        ),
        Claim(
            "A pessimistic CTD traces the optimal CTD curve for a few iterations but stops much earlier and incurs "
            "large eventual error.",
            stops_early,
            "Skipping too much stays within a factor {shared_traces:.2f} of skipping right and ends at "
            "{shared_much:.2e} against {shared_right:.2e} (shared step); {best_traces:.2f}, {best_much:.2e}, "
            "{best_right:.2e} (own steps).",
        ),
        Claim(
            "An optimistic CTD, although it runs for more iterations, typically does not achieve an eventual error "
            "comparable to TD.",
            too_little,
            "Skipping too little ends at {shared_little:.2e}, TD at {shared_td:.2e} (shared step); "
            "{best_little:.2e} and {best_td:.2e} (own steps).",
        ),
    )
