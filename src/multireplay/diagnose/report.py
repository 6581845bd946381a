"""What a diagnosis holds: the numbers of every column and those of the slowest."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from multireplay.diagnose import text


@dataclass(frozen=True, slots=True)
class ColumnDiagnosis:
    """One column of the record.

    Attributes
    ----------
    name, width
        The column and its number of features.
    tau_max, tau_median
        Largest and median integrated autocorrelation time of the features that vary, NaN if none does.
    worst_feature
        The feature with the largest one, None if all are constant.
    ess
        Effective sample size of that feature, rows/tau_max; above the rows where neighbours repel each other.
    reliable
        Whether the record is long enough for that feature, at least 50 of its autocorrelation times.
    examined, constant
        How many features were looked at, and how many of those are constant and left out.
    scalar, sparse
        Whether the column has one axis, so that its only feature goes by the column's name; whether the features looked
        at are those with the most nonzeros.
    """

    name: str
    width: int
    tau_max: float
    tau_median: float
    worst_feature: int | None
    ess: float
    reliable: bool
    examined: int = 1
    constant: int = 0
    scalar: bool = False
    sparse: bool = False

    @property
    def label(self) -> str:
        """The slowest feature as one would index it, ``features[3]``; the name alone for a scalar column."""
        return self.name if self.scalar or self.worst_feature is None else f"{self.name}[{self.worst_feature}]"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """How dependent a record is, column by column; see `multireplay.diagnose`.

    Examples
    --------
    >>> column = ColumnDiagnosis("features", 8, 18.6, 2.5, 3, 150_000 / 18.6, True, examined=8)
    >>> d = Diagnosis(150_000, (column,))
    >>> d.tau, round(d.ess)
    (18.6, 8065)
    >>> d.sentence[:75]
    'The slowest column (features[3]) has an autocorrelation time of 18.6 steps:'
    """

    rows: int
    columns: tuple[ColumnDiagnosis, ...]

    @property
    def slowest(self) -> ColumnDiagnosis | None:
        """The column with the largest autocorrelation time, None if every column is constant."""
        varying = [column for column in self.columns if column.worst_feature is not None]
        return max(varying, key=lambda column: column.tau_max, default=None)

    @property
    def tau(self) -> float:
        """Autocorrelation time of the slowest column, NaN if every column is constant."""
        return math.nan if self.slowest is None else self.slowest.tau_max

    @property
    def ess(self) -> float:
        """Effective sample size of the slowest column, the smallest of all; NaN if every one is constant."""
        return math.nan if self.slowest is None else self.slowest.ess

    @property
    def reliable(self) -> bool:
        """Whether the record is long enough for every autocorrelation time in it."""
        return all(column.reliable for column in self.columns)

    @property
    def sentence(self) -> str:
        """What learning from these rows in order would cost, in one sentence."""
        return text.sentence(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values for JSON, with None where a number does not exist."""
        columns = [{key: _plain(value) for key, value in asdict(column).items()} for column in self.columns]
        return {
            "rows": self.rows,
            "tau": _plain(self.tau),
            "ess": _plain(self.ess),
            "reliable": self.reliable,
            "sentence": self.sentence,
            "columns": columns,
        }

    def __str__(self) -> str:
        return text.page(self)


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value
