"""Updates: how one sample moves the iterate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from multireplay._check import whole_number
from multireplay.errors import InputError


class Update:
    """How one sample moves the iterate; see `Plain`, `VarianceReduced`, `RichardsonRomberg` and `Newton`."""


@dataclass(frozen=True)
class Plain(Update):
    """x ← Proj_X(x − η F̃(x, ξ)), the paper's step (Eq. MER_update).

    Examples
    --------
    >>> import multireplay as mr
    >>> mr.Plain()
    Plain()
    """


@dataclass(frozen=True)
class VarianceReduced(Update):
    """Rounds of x ← Proj_X(x − η(F̃(x, ξ) − F̃(x̃, ξ) + F̂(x̃))), after one plain pass (Johnson and Zhang 2013).

    A round takes two passes over the record: one in order, for the record's own mean operator F̂ at the anchor x̃,
    and one in the order of the replay scheme; the average of its second half is the next anchor. The rounds converge
    to the exact fit (the root of F̂, or the solution of its variational inequality on the feasible set) at O(d) a
    step, also where the operator is not linear, because what a constant step leaves over vanishes with F̃(x, ξ) −
    F̃(x̃, ξ).

    The order matters: in serial order the same rounds can diverge, because neighbours push the same way; dyadic and
    shuffled order do not have that, unless the record has a period that dyadic order is in step with (2, 4, 8, … rows
    in a record of a large power of two). Where no order was asked for, a round that leaves a residual which it should
    have removed is run again in shuffled order. It is noticed only where the residual is beyond its standard error, and
    where the curvature is not known (more than 1024 coordinates, operators of one's own) only if the round removed next
    to nothing. The plain pass before the rounds is not guarded.

    Parameters
    ----------
    rounds : int or "auto"
        Number of rounds. "auto" begins with the plain pass and the mean operator at its end, stops if that is well
        below its own standard error under dependence (from batch means; beyond it more passes fit noise), takes one
        round otherwise, and a second one if the first was still on its way at its end.
    precondition : int, "auto" or None
        Rank of the preconditioner: the leading directions of the features, found in a prefix of 4096 samples in
        dyadic order, are shortened to the length of the next one, a change of variables that costs O(rank · d) a step
        and is undone in the answer. "auto" chooses among 0, 1, 2, 4, 8 and 16 by how much longer a step it allows.
        Only for policy evaluation and GLMs on the whole space: it does not commute with a projection.

    Examples
    --------
    >>> import multireplay as mr
    >>> process = mr.simulate.paper_mrp(m=0.95)
    >>> buffer = process.buffer(length=2**15, seed=0)
    >>> exact = process.problem.fit_exactly(buffer)
    >>> for update in (mr.Plain(), mr.VarianceReduced()):
    ...     result = mr.solve(process.problem, buffer, update=update)
    ...     print(result.passes, f"{abs(result.x - exact).max():.0e}")
    1.0 1e-01
    3.0 6e-03
    """

    rounds: int | Literal["auto"] = "auto"
    precondition: int | Literal["auto"] | None = "auto"

    def __post_init__(self) -> None:
        if self.rounds != "auto":
            object.__setattr__(self, "rounds", whole_number("rounds", self.rounds, least=1))
        if self.precondition not in ("auto", None):
            object.__setattr__(self, "precondition", whole_number("precondition", self.precondition, least=1))


@dataclass(frozen=True)
class RichardsonRomberg(Update):
    """Two plain runs, at the step η and at 2η, combined as 2x_η − x_2η: the bias of order η cancels, the noise grows.

    For operators that are not linear, or orders that are nearly serial, where a constant step leaves a bias of its
    own order. It does not respect a constraint, and is refused with one.

    Examples
    --------
    >>> import multireplay as mr
    >>> mr.RichardsonRomberg()
    RichardsonRomberg()
    """


@dataclass(frozen=True)
class Newton(Update):
    """A coarse epoch solved exactly, then x ← x − J⁻¹F̂(x) in passes over the whole record, with the epoch's Jacobian J.

    The coarse epoch has 2^13 samples, one in each of as many equal stretches of the record, as in MER's epoch 13, so
    that they are nearly independent whatever the mixing time; it is doubled up to a quarter of the record while its
    two halves disagree about J. Each correction takes one pass in order at O(d) a row and shrinks the distance to the
    exact fit by about √(d/2^13); corrections that do not shrink are combined by Anderson's acceleration. They end when
    the next one is expected to be below a tenth of its own standard error under dependence (from 32 batch means).

    J costs O(d²) a sample of the coarse epoch, and d² numbers of memory: for d beyond about 1000 `VarianceReduced` is
    better. It needs a problem whose Jacobian is known (`PolicyEvaluation`, `GLM` with a built-in link) on the whole
    space, at least 4 rows a coordinate, and features none of which is missing from the coarse epoch or a combination of
    the others. On records no longer than the coarse epoch a ridge makes up for all of the latter.

    Parameters
    ----------
    corrections : int or "auto"
        Number of passes over the record. "auto" is as many as it takes, at most 5; usually 2.

    Examples
    --------
    >>> import multireplay as mr
    >>> process = mr.simulate.paper_mrp(m=0.95)
    >>> buffer = process.buffer(length=2**16, seed=0)
    >>> exact = process.problem.fit_exactly(buffer)
    >>> for corrections in (1, 2, 3):
    ...     result = mr.solve(process.problem, buffer, update=mr.Newton(corrections))
    ...     print(result.passes, f"{abs(result.x - exact).max():.0e}")
    1.125 2e-02
    2.125 2e-03
    3.125 2e-04
    """

    corrections: int | Literal["auto"] = "auto"

    def __post_init__(self) -> None:
        if self.corrections != "auto":
            object.__setattr__(self, "corrections", whole_number("corrections", self.corrections, least=1))


def as_update(update: Update | None, passes: int | None) -> Update:
    """The update by steps that was asked for, directly or by a number of passes; variance reduction by default."""
    if update is not None and not isinstance(update, Update):
        known = "mr.Plain(), mr.VarianceReduced(), mr.RichardsonRomberg() or mr.Newton()"
        raise InputError(f"update must be {known}, not {update!r}")
    if update is not None:
        return update
    if passes is None:
        return VarianceReduced()
    return VarianceReduced(rounds=(passes - 1) // 2) if passes >= 3 else Plain()


def as_passes(passes: object, update: Update | None) -> int | None:
    """The number of passes asked for, or an error."""
    if passes is None:
        return None
    if update is not None:
        raise InputError("give update=... or passes=..., not both")
    return whole_number("passes", passes, least=1)
