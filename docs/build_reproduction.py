"""Write docs/reproduction.md and its pictures from a finished ``multireplay reproduce all``.

Usage: python docs/build_reproduction.py [out/paper]
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from multireplay.bench.figures import CAPS, FIGURES, RULES
from multireplay.bench.reproduction import READING, run_of, tables_of
from multireplay.bench.table import Curves, read

HERE = Path(__file__).parent

TITLES = {
    "fig1": "Figure 1, illustrated (ours): skipping right, too much, too little",
    "fig2a": "Figure 2a: policy evaluation, m = 0.9",
    "fig2b": "Figure 2b: policy evaluation, m = 0.95",
    "fig3a": "Figure 3a: logistic regression, d_L = 400",
    "fig3b": "Figure 3b: logistic regression, d_L = 500",
    "fig3a-bernoulli": "Beside Figure 3a (ours): d_L = 400, Bernoulli targets",
    "fig3b-bernoulli": "Beside Figure 3b (ours): d_L = 500, Bernoulli targets",
    "theory": "Theorem 1",
    "tracking": "Theorem 2 and Corollaries 2 and 4",
}

OPENING = """# The paper's numerical section, run again

`multireplay reproduce all` runs every experiment of the paper's numerical section, adds what it leaves out (uniform
replay, shuffling, dyadic order, and the exact fit as a line), and tests each of its claims. This page is written from
its output by `make reproduction`; the numbers behind the pictures are in `out/paper/*.csv`, all curves by instance in
`out/paper/*.npz`.

{reading}
A verdict is one of: holds, does not hold, holds only with one step for all or with own steps (the two panels below),
cannot be told from so many instances. The thresholds (what counts as close, similar, most) are ours and stated with
each verdict.

## In plain words

{words}

## What the paper says and what is ours

- **Steps.** The paper does not say which steps its experiments took. *MER* here has a step of its own in every epoch,
  η_k = min(cap, c·log T_k/T_k): the index is Algorithm 1's, the shape Theorem 1's. Every other method has one constant
  step. *MER, one constant step* is ours: the same step in all epochs, which is not the paper's algorithm.
- **Two panels.** Left, one step for all methods, which is MER's cap; only MER's c is tuned. Right, every method has its
  own constant step of a grid, MER its own c and cap. Whatever is tuned has the least mean error at the end of the run,
  in the figure's norm, on {tuning} other instances (logistic regression: {few}).
- **Norms.** Figure 2 and its verdicts are in ‖·‖_Π, the norm of its caption, ‖θ‖²_Π = Σ_s π(s)(φ(s)ᵀθ)²; the Euclidean
  norm is beside it. Figure 3 is in the Euclidean norm. All errors are divided by that of the start.
- **Figure 2.** m, γ = 0.8, 30 states, d = 16, 150000 samples, a skip of 5, averaged iterates and i.i.d. curves from the
  stationary law are the paper's. θ_0 = 0 and the skips of 19 and 50 are ours.
- **Figure 3.** d, d_L, n, the matrix A, the burn-in, a skip of 10, the last iterate and the model y = f(aᵀx*) + v are
  the paper's. Ours: v is Gaussian with standard deviation {noise:g}, x* is uniform on the sphere ‖x*‖ = {radius:g},
  x_0 = 0, and A, x* and the record are new for every instance. Beside it, ours, are Bernoulli targets of the same mean.
- **Figure 1** is a schematic in the paper, without data: it has an illustration here and no verdict.
- **Instances.** The paper has 50. Here as in the table: an instance of Figure 3 takes some ten seconds, most of them
  for the exact fits.

{settings}

Lines in the pictures are means over the instances, bands go from the 10 % to the 90 % quantile.

## Verdicts

| figure | claim | verdict |
|---|---|---|
{table}
"""


def settings_of(out: Path) -> list[str]:
    """A row a figure: instances, steps that were tried, and what was chosen."""
    lines = ["| figure | instances | grid of steps | shared step | MER's c, shared cap | MER's own c and cap |"]
    lines += ["|---|--:|---|--:|--:|--:|"]
    for name, figure in FIGURES.items():
        run = run_of(out / f"{name}.csv")
        shared, own = (run["chosen"][RULES[panel]] for panel in ("shared", "best"))
        grid = f"{figure.grid[0]:.3g} to {figure.grid[-1]:.3g} by halves"
        cells = name, run["instances"], grid, f"{figure.shared_step:.3g}", f"{shared[0]:.3g}"
        lines.append(f"| {' | '.join(map(str, cells))} | {own[0]:.3g}, {own[1]:.3g} |")
    ratios = {kind: FIGURES[name].ratios for kind, name in (("Figures 1 and 2", "fig2a"), ("Figure 3", "fig3a"))}
    text = "; ".join(f"{values[0]:g} to {values[-1]:g} by doubling ({kind})" for kind, values in ratios.items())
    return [
        *lines,
        "",
        f"MER's c over its cap is one of {text}; its own cap one of the {CAPS} largest steps of the grid.",
    ]


class Found:
    """The verdicts of the run, asked by words of the claim."""

    def __init__(self, out: Path) -> None:
        self.out, self.verdicts = out, json.loads((out / "claims.json").read_text(encoding="utf-8"))

    def one(self, figure: str, words: str) -> dict[str, Any]:
        (found,) = (v for v in self.verdicts if v["figure"] == figure and words in v["claim"])
        return dict(found)

    def ends(self, name: str, panel: str, *methods: str) -> str:
        """The last errors of methods, in the norm of the figure."""
        rows = read(self.out / f"{name}.csv")
        if FIGURES[name].weighted:
            rows = [row._replace(error_mean=row.error_weighted_mean) for row in rows]
        return ", ".join(f"{method} {Curves(rows).end(panel, method):.2g}" for method in methods)


def plain_words(found: Found) -> list[str]:
    """What the run shows: the main claims in short with their verdicts, and the numbers."""

    def bullet(short: str, figure: str, words: str, told: str) -> str:
        entry = found.one(figure, words)
        return f"- **{short}: {entry['verdict']}.** {told.format(**entry['numbers'])}"

    both, more = "fig2a, fig2b", ("uniform", "shuffle", "dyadic", "i.i.d.", "LSTD")
    constant = "MER, one constant step (ours)"
    lines = [
        bullet(
            "MER follows the i.i.d. curve whatever the mixing time", both, "regardless of the mixing time",
            "After any of its epochs its error is at most {shared_fast:.2f} (m = 0.9) and {shared_slow:.2f} (m = 0.95) "
            "times the i.i.d. error at one step, {best_fast:.2f} and {best_slow:.2f} times at own steps; in the "
            "Euclidean norm {euclidean_shared_fast:.2f} and {euclidean_shared_slow:.2f}, and "
            "{euclidean_best_fast:.2f} and {euclidean_best_slow:.2f} times. With one constant step for all epochs, "
            "which is ours, it is {shared_constant_fast:.0f} and {shared_constant_slow:.0f} times at one step.",
        ),
        bullet(
            "MER is better than serial TD after the same number of iterations (m = 0.9)", "fig2a",
            "iterate-by-iterate",
            "It is below at {shared_share:.0%} of its epochs at one step and at {best_share:.0%} at own steps.",
        ),
        bullet(
            "MER ends below serial TD and CTD (m = 0.9)", "fig2a", "plateauing",
            "It ends at {shared_mer:.2g} against {shared_td:.2g} and {shared_ctd:.2g} at one step, at {best_mer:.2g} "
            "against {best_td:.2g} and {best_ctd:.2g} at own steps.",
        ),
        bullet(
            "CTD depends on the skip", both, "highly sensitive",
            "With skips of 5, 19 and 50 it ends at {shared_slow_5:.2g}, {shared_slow_19:.2g} and {shared_slow_50:.2g} "
            "(m = 0.95, one step), {best_slow_5:.2g}, {best_slow_19:.2g} and {best_slow_50:.2g} (own steps).",
        ),
        "- **What the paper does not compare with** ends, at m = 0.95 and one step, at: "
        f"{found.ends('fig2b', 'shared', *more)}; {found.ends('fig2b', 'shared', 'MER', constant)}. At own "
        f"steps: {found.ends('fig2b', 'best', *more)}; {found.ends('fig2b', 'best', 'MER', constant)}.",
    ]  # fmt: skip
    for name in ("fig3a", "fig3b", "fig3a-bernoulli", "fig3b-bernoulli"):
        kind = f"{'Bernoulli' if 'bernoulli' in name else 'additive noise'}, d_L = {1000 * FIGURES[name].mixing:.0f}"
        lines.append(
            bullet(
                f"In the logistic example MER ends below TD and CTD ({kind})", name, "at the end of the run",
                "MER {shared_mer:.3f}, TD {shared_td:.3f}, CTD {shared_ctd:.3f} at one step; {best_mer:.3f}, "
                "{best_td:.3f}, {best_ctd:.3f} at own steps; best ridge {best_ridge:.3f}; 1 is not to move at all.",
            )
        )  # fmt: skip
    theorems = ", ".join(f"{v['claim'].split(':')[0]} {v['verdict']}" for v in found.verdicts if _is_theorem(v))
    usable = found.one("theory", "can be used")
    lines.append(
        f"- **Theorems, where they can be checked:** {theorems}. Their steps can be used: {usable['verdict']}."
    )
    return lines


def _is_theorem(verdict: dict[str, Any]) -> bool:
    return bool(verdict["claim"].startswith(("Theorem", "Corollary")))


def main(out: Path) -> None:
    old = set(TITLES) - {path.stem for path in tables_of(out)}
    if old:
        raise SystemExit(f"not there, or of other code: {', '.join(sorted(old))}. First: multireplay reproduce all")
    found = Found(out)
    figures = HERE / "figures"
    figures.mkdir(exist_ok=True)
    rows = (" | ".join(v[name].replace("|", "\\|") for name in ("figure", "claim", "verdict")) for v in found.verdicts)
    logistic = FIGURES["fig3a"]
    parts = [
        OPENING.format(
            reading=READING,
            words="\n".join(plain_words(found)),
            tuning=FIGURES["fig2a"].tuning["full"],
            few=logistic.tuning["full"],
            noise=logistic.noise,  # type: ignore[attr-defined]
            radius=logistic.radius,  # type: ignore[attr-defined]
            settings="\n".join(settings_of(out)),
            table="\n".join(f"| {row} |" for row in rows),
        )
    ]
    for name, title in TITLES.items():
        parts.append(f"## {title}\n")
        beside_it = sorted(out.glob(f"{name}-euclidean.png")) if name != "fig1" else []
        for picture in [out / f"{name}.png", *beside_it]:
            shutil.copy(picture, figures / picture.name)
            beside = ", Euclidean norm" if picture.stem != name else ""
            parts.append(f"![{title}{beside}](figures/{picture.name})\n")
        parts += [
            f"{verdict['claim']} **{verdict['verdict'].capitalize()}.** {verdict['finding']}\n"
            for verdict in found.verdicts
            if verdict["figure"].split(",")[0] == name
        ]
    (HERE / "reproduction.md").write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parent / "out" / "paper")
