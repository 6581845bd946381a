"""Write docs/comparison.md and its picture from a finished ``multireplay compare``.

Usage: python docs/build_comparison.py [out/compare]
"""

from __future__ import annotations

import csv
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).parent

OPENING = """# The bench: mr.solve against every rival

`multireplay compare` runs problems × methods on the same records and reports each method's mean squared error as a
ratio to that of the exact fit (LSTD, maximum likelihood, or the best ridge where maximum likelihood overfits) on the
same record. Step sizes are tuned on other seeds than those reported. This page is written from its output by `make
comparison`; all numbers are from one run, of {seeds} seeds a problem.

![Ratio to the exact fit's error](figures/compare.png)

## What was kept, what was dropped

- **Kept, as the default of `mr.solve` where an exact fit in one pass costs more: Newton corrections** (`mr.Newton`).
  MER's epoch 13, 2^13
  samples spread evenly over the record and so nearly independent whatever the mixing time, is solved exactly; then
  one or two passes over the whole record, in order and at O(d) a row, correct that fit with the epoch's Jacobian. It is
  at the exact fit on every unconstrained problem here but the paper's logistic one (held out, below), the
  ill-conditioned ones included, and knows its own standard errors. Where the two halves of the epoch disagree
  completely about the Jacobian (the wide Mountain Car) the epoch is the whole record, which is the exact fit itself;
  `passes=1` counts corrections, and the coarse epoch comes on top.
  It costs O(d²) for each sample of the epoch, and d² numbers of memory.
- **Kept, as the default elsewhere** (operators of one's own, very many coordinates): a plain
  dyadic pass, then one or two **rounds of variance reduction** in dyadic order (`mr.VarianceReduced`), with a
  preconditioner of small rank where a few directions of the features are much longer than the rest. It is O(d) a step
  throughout.
- **Kept, as schemes: shuffling once** is as good as dyadic order at one pass and a tuned step; dyadic needs no random
  numbers and its prefixes are spread over the record. **MER on all phases** reads the
  record strictly in order; by MER's own rule the last epoch answers, which has one phase, so that its rows are MER's.
- **MER is run by its own rule of steps**, min(0.5/L, c·log T_k/T_k) in epoch k: Algorithm 1 gives every epoch a step,
  Theorem 1 its shape. c is what `mr.solve` takes from the record by itself, and the tuned c is from other seeds. One
  constant step for all epochs is our ablation, in a row of its own: there the last epochs, which are nearly serial,
  are worse than those before.
- **Kept, as an option: Richardson–Romberg.** It lowers the bias of a constant step where the link is not linear, for
  one more pass; variance reduction does more with two.
- **Dropped from the library: operator extrapolation** (FTD, `Extrapolated`). It speeds up the deterministic error,
  which is not what is left after a pass over a dependent record; with skipping it uses few of the samples. It stays
  in the bench as a rival, and so do VRTD, VRFTD, CTD with decaying steps and the multilevel gradient (MAG), each from
  its own definition.
- **Held out**: where a GLM has fewer than 20 rows a coordinate (the paper's logistic example), `mr.solve` lets step
  sizes and updates compete on a held-out block at the end of the record, because there the exact fit overfits and a
  small residual is no virtue.

Where the choice can fail: at one constant step the residual chooses between MER's epochs, and it weighs directions
by their curvature, so that on an ill-conditioned problem the smallest need not be that of the smallest error;
the rule that stops the rounds looks at the curvature of 4096 samples, and not at all beyond 1024 coordinates; Newton
corrections know only the directions that the coarse epoch shows, and are not used where it lacks one; the held-out
block is the end of the record, and a record that drifts will mislead it.

"""


def main(out: Path) -> None:
    figures = HERE / "figures"
    figures.mkdir(exist_ok=True)
    shutil.copy(out / "compare.png", figures / "compare.png")
    body = (out / "compare.md").read_text(encoding="utf-8").split("\n", 1)[1].strip()
    with (out / "compare.csv").open(encoding="utf-8") as file:
        seeds = next(csv.DictReader(file))["seeds"]
    opening = OPENING.replace("{seeds}", seeds)
    (HERE / "comparison.md").write_text(opening + "## The numbers\n\n" + body + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parent / "out" / "compare")
