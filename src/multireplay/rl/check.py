"""The Monte Carlo check: returns of fresh rollouts beside what the estimate says of the states they pass.

A difference has three reasons: the estimate is wrong, its record was short, or the rollouts were few. Only the first is
to be called by its name, so that the errors of both are in the standard error (`multireplay.rl.sampling`), and what
chance does is drawn from the episodes of the record and the rollouts together (`multireplay.rl.chance`): where one
rollout in a hundred sees a reward, a hundred rollouts say little, and nothing of it if none of them did.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from multireplay._check import Vector
from multireplay.errors import InputError
from multireplay.rl.chance import FAR, errors_of
from multireplay.rl.collect import Collection, run
from multireplay.rl.sampling import Reference
from multireplay.rl.seen import START, Seen, Subject
from multireplay.rl.spaces import Array, gymnasium, sizes_of, without_time_limit
from multireplay.rl.trajectory import Trajectory
from multireplay.show.text import TextTable

LEFT_OVER = 1e-3
"""A rollout is cut where rewards weigh less than this share of the first one."""
LONGEST = 20_000
"""Steps after which a rollout is cut at the latest."""
CLOSE = 0.01
"""A difference below this share of the value is no matter, however sure it is."""
SAME = 1e-9
"""Values that differ by no more than this share of their size are one."""
MARGIN = 0.05
"""Values may be this share of what is possible beyond it before they are called wrong."""


@dataclass(frozen=True)
class Agreement:
    """Estimate and Monte Carlo on one group of states.

    Attributes
    ----------
    states, count : str, int
        Which states, and how many of them were passed.
    estimate, monte_carlo : float
        The mean of the estimate, and of the returns, over them.
    error : float
        Standard error of their difference: of the returns, where states of one rollout count as dependent, and of the
        estimate, whose record was of finite length.
    own_error : float
        The estimate's part of it: the standard error of its mean over these states. NaN where it is not known.
    limit : float
        The difference that chance exceeds once in 370 times: three standard errors, or more where few episodes carry
        the return.
    """

    states: str
    count: int
    estimate: float
    monte_carlo: float
    error: float
    own_error: float
    limit: float

    @property
    def difference(self) -> float:
        """Estimate minus Monte Carlo."""
        return self.estimate - self.monte_carlo

    @property
    def errors_apart(self) -> float:
        """The difference in standard errors."""
        rounding = 1e-9 * max(abs(self.estimate), abs(self.monte_carlo), 1e-300)
        return 0.0 if abs(self.difference) <= rounding else abs(self.difference) / max(self.error, rounding)

    @property
    def far(self) -> bool:
        """Whether the difference is beyond what chance does, and 1 % of the value."""
        size = max(abs(self.estimate), abs(self.monte_carlo))
        return abs(self.difference) > max(self.limit, CLOSE * size)


@dataclass(frozen=True, eq=False, repr=False)
class Check:
    """Fresh rollouts of the policy beside the estimate; ``print`` it.

    Attributes
    ----------
    groups : tuple of Agreement
        The start states, then the states passed on the way in three groups by the estimate, low to high, with as many
        steps of the record in each.
    unreached : tuple of str
        Groups whose values no rollout tested, since none got there or none was seen to its end.
    observations, estimates, returns : ndarray
        The start states, their estimated values, and the discounted returns of the rollouts from there.
    rollouts, horizon : int
        Number of rollouts, and steps after which one was cut; the rest was filled in with the estimate.
    filled : int
        Rollouts that were cut without terminating where the rest still weighs more than 0.1 %.
    unsolved : bool
        Whether an estimate that is far off would not be, were it the exact fit of its record.
    spread : float
        Standard deviation of the returns from all states that were passed.
    notes : tuple of str
        What else is to be said: states that no rollout reached or the record does not know, impossible values.
    """

    groups: tuple[Agreement, ...]
    unreached: tuple[str, ...]
    observations: Array
    estimates: Vector
    returns: Vector
    rollouts: int
    horizon: int
    filled: int
    unsolved: bool
    spread: float
    notes: tuple[str, ...]

    @property
    def start(self) -> Agreement:
        """The agreement at the start states; NaN where the record does not know them."""
        nothing = (math.nan,) * 5
        return next((one for one in self.groups if one.states == START), Agreement(START, 0, *nothing))

    def table(self) -> TextTable:
        """One row a group of states."""
        rows = [
            {
                "states": group.states,
                "number": group.count,
                "estimate": _with_error(group.estimate, group.own_error),
                "Monte Carlo": _with_error(group.monte_carlo, _rest(group.error, group.own_error)),
                "difference": f"{group.difference:.2g}",
                "in s.e.": f"{group.errors_apart:.1f}",
            }
            for group in self.groups
        ]
        nothing = {"number": 0, "estimate": "", "Monte Carlo": "no rollout got there", "difference": "", "in s.e.": ""}
        return TextTable(rows + [{"states": states, **nothing} for states in self.unreached])

    @property
    def sentence(self) -> str:
        """What it means."""
        text = f"Monte Carlo: {self.rollouts} fresh rollouts without the time limit, at most {self.horizon} steps each."
        far = [group for group in self.groups if group.far]
        if far:
            text += (
                f" The estimate is further away than chance explains for the states "
                f"{', '.join(group.states for group in far)}: by {max(group.errors_apart for group in far):.2g} "
                "standard errors, its own included."
            )
            if any(abs(group.difference) > self.spread for group in far):
                text += " That is more than returns vary at all: the estimate is wrong, and one number would be better."
            if self.unsolved:
                text += " The exact fit of the record is not as far away: the solver is not done."
            else:
                text += (
                    " The features cannot show the value there; see whether the difference matters to you, and if so "
                    "take other or more features."
                )
        elif self.groups:
            text += (
                f" The estimate agrees with it wherever rollouts got to: it is within {FAR:.0f} standard errors, or a "
                f"little more where few episodes carry the return, or {CLOSE:.0%}."
            )
        if self.unreached:
            text += f" No rollout got there, or was seen to its end, for the states {', '.join(self.unreached)}."
        if self.filled:
            text += (
                f" {self.filled} rollouts were cut before they ended, by the environment itself or after "
                f"{self.horizon} steps, and filled in with the estimate, which makes the check weaker."
            )
        return " ".join((text, *self.notes))

    def __str__(self) -> str:
        return f"{self.table()}\n{self.sentence}"

    def __repr__(self) -> str:
        start = self.start
        return (
            f"Check(start states: estimate {start.estimate:.4g}, Monte Carlo {start.monte_carlo:.4g} ± "
            f"{start.error:.2g}, {self.rollouts} rollouts)"
        )


def monte_carlo(env: Any, policy: Any, subject: Subject, rollouts: int, seed: int) -> Check:
    """Let the policy act from fresh starts, and compare the returns with what the estimate says."""
    horizon = horizon_of(subject.gamma)
    endless = gymnasium().wrappers.TimeLimit(without_time_limit(env), max_episode_steps=horizon)
    collection = Collection(endless, rollouts * horizon, episodes=rollouts)
    return compare(run(endless, policy, seed, collection), subject, horizon)


def horizon_of(gamma: float) -> int:
    """Steps after which what is left weighs next to nothing; without a discount, as many as there is patience for."""
    if gamma in (0, 1):
        return LONGEST if gamma else 1
    return min(LONGEST, max(1, math.ceil(math.log(LEFT_OVER) / math.log(gamma))))


def compare(rollouts: Trajectory, subject: Subject, horizon: int) -> Check:
    """The check from rollouts that are there."""
    seen = Seen(rollouts, subject)
    seen.only_early(rollouts, subject.gamma)
    if len(seen.first) < 2:
        raise InputError("a Monte Carlo check needs at least two rollouts, for a standard error")
    before = None if subject.record is None else Seen(subject.record, subject)
    source, rows = (seen, seen.trusted) if before is None else (before, slice(None))
    edges = _thirds(source.estimates[rows])
    found, unreached, own = [], [], _own_errors(seen, edges, _thirds(source.expected[rows]), subject.exact)
    unsolved = False
    for name, rows in seen.groups(edges).items():
        parts = [seen.totals(rows)] + ([] if before is None else [before.totals(before.groups(edges)[name])])
        if rows.size and sum(part.reached for part in parts) > 1:
            error, limit = errors_of(parts, own[name])
            means = float(seen.estimates[rows].mean()), float(seen.returns[rows].mean())
            found.append(Agreement(name, len(rows), *means, error, own[name], limit))
            unsolved |= found[-1].far and abs(float(seen.gaps[rows].mean())) < limit
        else:
            unreached.append(name)
    early = rollouts.truncated[rollouts.ends] & (seen.weights[seen.first] > LEFT_OVER * 1.01)
    return Check(
        groups=tuple(found),
        unreached=tuple(unreached),
        observations=seen.observations[seen.first],
        estimates=seen.estimates[seen.first],
        returns=seen.returns[seen.first],
        rollouts=len(seen.first),
        horizon=horizon,
        filled=int(early.sum()),
        unsolved=unsolved,
        spread=float(seen.returns[seen.trusted].std()) if seen.trusted.size else 0.0,
        notes=tuple(_notes(seen, before, rollouts.observation_space)),
    )


def _thirds(values: Vector) -> Vector:
    """What cuts values into three groups as large as each other; nothing where they are all the same."""
    several = values.size and np.ptp(values) > SAME * np.abs(values).max()
    return np.unique(np.quantile(values, [1 / 3, 2 / 3])) if several else np.zeros(0)


def _own_errors(seen: Seen, edges: Vector, fitted: Vector, exact: Reference | None) -> dict[str, float]:
    """The estimate's own standard error in every group, NaN where it is not known."""
    groups = {name: seen.observations[rows] for name, rows in seen.groups(edges).items()}
    if exact is None:
        return dict.fromkeys(groups, math.nan)
    found = {name: exact.error(states) if len(states) else math.nan for name, states in groups.items()}
    if len(groups) > 1 and len(fitted) == len(edges) and seen.trusted.size:
        errors = exact.errors_by_value(seen.observations[seen.trusted], fitted)
        chosen = dict(zip(list(groups)[1:], errors, strict=True))
        found |= {name: float(np.fmax(error, found[name])) for name, error in chosen.items()}
    return found


def _notes(seen: Seen, before: Seen | None, space: Any) -> Iterator[str]:
    """States that only one of rollouts and record has been to, where states can be counted."""
    strange = int((~seen.known).sum())
    if strange:
        yield (
            f"{100 * strange / len(seen.known):.2g} % of the steps were from states that the record has no step from: "
            "their value is not known, and not compared."
        )
    if before is not None and sizes_of(space) is not None:
        visited, tested = (
            set(map(str, np.unique(one, axis=0).tolist()))
            for one in (before.observations, seen.observations[seen.trusted])
        )
        missed = len(visited - tested)
        if missed:
            yield f"No rollout got to {missed} of the record's {len(visited)} states: their values are not checked."


def impossible(values: Vector, rewards: Vector, gamma: float) -> str:
    """A sentence where values are not what rewards of that size can add up to; empty where they are."""
    low, high = (
        end and (end / (1 - gamma) if gamma < 1 else math.copysign(math.inf, end))
        for end in (min(float(rewards.min()), 0.0), max(float(rewards.max()), 0.0))
    )
    margin = MARGIN * (high - low if gamma < 1 else np.abs(values).max())
    outside = (values < low - margin) | (values > high + margin)
    if not outside.any():
        return ""
    beyond = max(low - values.min(), values.max() - high)
    bad = outside.mean() > MARGIN or beyond > 10 * margin
    return (
        f"{'The estimate is wrong: on' if bad else 'On'} {100 * outside.mean():.2g} % of the record's steps it is what "
        f"rewards from {rewards.min():.4g} to {rewards.max():.4g} cannot add up to at gamma {gamma:g}, which is "
        f"{low:.4g} to {high:.4g}; it goes from {values.min():.4g} to {values.max():.4g}."
    )


def _with_error(value: float, error: float) -> str:
    return f"{value:.4g}" if math.isnan(error) else f"{value:.4g} ± {error:.2g}"


def _rest(error: float, own: float) -> float:
    """The part of a standard error that is not the estimate's own."""
    return error if math.isnan(own) else math.sqrt(max(0.0, error**2 - own**2))
