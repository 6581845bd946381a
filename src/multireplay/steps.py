"""Step sizes: a constant, one an epoch, Theorem 1's, the decaying schedule of TD and CTD, and a cap on any of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multireplay._check import Vector, positive
from multireplay.errors import InputError

if TYPE_CHECKING:
    from multireplay.theory import Constants


class Schedule(ABC):
    """A rule for the step sizes of an epoch."""

    @property
    def by_scale(self) -> bool:
        """Whether it is for epochs of T_k = 2^k steps, those of `multireplay.Multiscale`, and for no others."""
        return False

    @abstractmethod
    def values(self, k: int, first: int, count: int) -> Vector:
        """Step sizes of steps first + 1, …, first + count of epoch k."""


@dataclass(frozen=True)
class Constant(Schedule):
    """One step size throughout.

    Examples
    --------
    >>> import multireplay as mr
    >>> mr.steps.Constant(0.5).values(k=3, first=0, count=2)
    array([0.5, 0.5])
    """

    value: float

    def __post_init__(self) -> None:
        if type(self.value) is not float or not 0 < self.value < np.inf:
            object.__setattr__(self, "value", positive("step", self.value))

    def values(self, k: int, first: int, count: int) -> Vector:
        return np.full(count, self.value)


@dataclass(frozen=True)
class PerEpoch(Schedule):
    """MER's own rule: η_k = min{cap, c·log T_k/T_k} with T_k = 2^k, constant within epoch k.

    Algorithm 1 gives every epoch a step of its own, and Theorem 1 (Eq. step_size) its shape: a cap, then a fall as
    log T_k/T_k, with c = p_k/μ. Here c and the cap are numbers. It is for the epochs of `multireplay.Multiscale` and
    `multireplay.Online`, and refused in orders whose epochs are of another length, such as `multireplay.Serial`.

    Parameters
    ----------
    c, cap : float
        Factor of log T_k/T_k, and the largest step.

    Examples
    --------
    >>> import multireplay as mr
    >>> rule = mr.steps.PerEpoch(c=400, cap=0.5)
    >>> [round(float(rule.values(k, first=0, count=1)[0]), 4) for k in (10, 14, 17)]
    [0.5, 0.2369, 0.036]
    """

    c: float
    cap: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "c", positive("c", self.c))
        object.__setattr__(self, "cap", positive("cap", self.cap))

    @property
    def by_scale(self) -> bool:
        return True

    def values(self, k: int, first: int, count: int) -> Vector:
        return np.full(count, min(self.cap, self.c * k * np.log(2) / 2.0**k))


@dataclass(frozen=True)
class Theorem1(Schedule):
    """The paper's η_k = min{3μ/(16(ζ² + 16L̄²)), p_k log T_k/(μT_k)} (Eq. step_size), constant within epoch k.

    Like `PerEpoch` it is for epochs of T_k = 2^k steps alone.

    Parameters
    ----------
    constants, printed : multireplay.theory.Constants, bool
        The constants of the problem, and whether to take their step size as printed, an error where it is not positive.

    Examples
    --------
    >>> import multireplay as mr
    >>> c = mr.theory.Constants(mu=1, L=1, L1=1, sigma=1, zeta=1, C_M=1, C_P=1, rho=0.5, D=1)
    >>> mr.steps.Theorem1(c).values(k=12, first=0, count=1)
    array([0.00222565])
    """

    constants: Constants
    printed: bool = False

    def __post_init__(self) -> None:
        if not callable(getattr(self.constants, "step_size", None)):
            kind = type(self.constants).__name__
            raise InputError(
                f"constants must be multireplay.theory.Constants, not {kind}; for a process: process.exact.constants"
            )

    @property
    def by_scale(self) -> bool:
        return True

    def values(self, k: int, first: int, count: int) -> Vector:
        value = self.constants.step_size(k, printed=self.printed)
        if not value > 0:
            raise InputError(
                f"Theorem 1's printed step size in epoch {k} is {value:g}, because p_k is not positive there; "
                "Theorem1(constants) without printed=True uses the safe form"
            )
        return np.full(count, value)


@dataclass(frozen=True)
class Decaying(Schedule):
    """η_t = 2/(μ(t + t0 − 1)): the decaying schedule of TD and CTD (Kotsalis, Lan and Li 2022).

    Parameters
    ----------
    mu, t0 : float
        Modulus of strong monotonicity, and offset, at least 1; their theory takes it of order (L/μ)².

    Examples
    --------
    >>> import multireplay as mr
    >>> mr.steps.Decaying(mu=0.5, t0=10).values(k=1, first=0, count=3)
    array([0.4       , 0.36363636, 0.33333333])
    """

    mu: float
    t0: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", positive("mu", self.mu))
        if not self.t0 >= 1:
            raise InputError(f"t0 must be at least 1, not {self.t0!r}")

    def values(self, k: int, first: int, count: int) -> Vector:
        t = np.arange(first + 1, first + count + 1)
        return np.asarray(2 / (self.mu * (t + self.t0 - 1)))


@dataclass(frozen=True)
class Capped(Schedule):
    """min{cap, η_t} of another schedule.

    Examples
    --------
    >>> import multireplay as mr
    >>> mr.steps.Capped(mr.steps.Decaying(mu=1), cap=0.8).values(k=1, first=0, count=3)
    array([0.8       , 0.8       , 0.66666667])
    """

    schedule: Schedule
    cap: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "cap", positive("cap", self.cap))

    @property
    def by_scale(self) -> bool:
        return self.schedule.by_scale

    def values(self, k: int, first: int, count: int) -> Vector:
        return np.minimum(self.cap, self.schedule.values(k, first, count))


@dataclass(frozen=True)
class Doubled(Schedule):
    """Twice the steps of another schedule.

    Examples
    --------
    >>> import multireplay as mr
    >>> mr.steps.Doubled(mr.steps.Constant(0.25)).values(k=1, first=0, count=2)
    array([0.5, 0.5])
    """

    schedule: Schedule

    @property
    def by_scale(self) -> bool:
        return self.schedule.by_scale

    def values(self, k: int, first: int, count: int) -> Vector:
        return 2 * self.schedule.values(k, first, count)
