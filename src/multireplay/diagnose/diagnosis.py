"""What a diagnosis holds, the numbers of every column and those of the slowest, and what it says in words."""

from __future__ import annotations

import io
import math
import textwrap
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table

from multireplay.diagnose.autocorrelation import ENOUGH_TIMES
from multireplay.diagnose.curves import LagCurve, plot
from multireplay.show.text import plain_text, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH = 90
LONGEST = 11  # letters of a feature's name on one line of the table
CLOSE_TO_ONE = 1.5  # times the variance of independent rows, or its inverse: too little to act on
_REPLAY = "replay (Multiscale, Dyadic)"


@dataclass(frozen=True, slots=True)
class ColumnDiagnosis:
    """One column of the record."""

    name: str
    width: int
    """Its number of features."""
    tau_max: float
    tau_median: float
    """Largest and median integrated autocorrelation time of the features that vary, NaN if none does."""
    worst_feature: int | None
    """The feature with the largest one, None if all are constant."""
    ess: float
    """Effective sample size of that feature, rows/tau_max; above the rows where neighbours repel each other."""
    reliable: bool
    """Whether the record is long enough for that feature, at least 50 of its autocorrelation times."""
    examined: int = 1
    constant: int = 0
    """How many features were looked at, and how many of those are constant and left out."""
    scalar: bool = False
    """Whether the column has one axis, so that its only feature goes by the column's name."""
    sparse: bool = False
    """Whether the features looked at are those with the most nonzeros."""
    worst_name: str | None = None
    """What the feature with the largest time is called, if it has a name."""
    tau_short: float | None = None
    batch: int | None = None
    """Where the slowest feature has a slow component that the sum over short lags misses: what that sum says, and how
    many rows the batches have from which `tau_max` is. None where the sum stands."""
    period: float | None = None
    cyclic_feature: int | None = None
    """Rows in a turn of the cycle of the slowest feature, or if it has none of the feature with the strongest, and
    which feature that is. None without a cycle."""
    tau_rest: float | None = None
    """Autocorrelation time of the slowest feature without its cycle, None if it has none."""
    cyclic_name: str | None = None
    """What the feature with the cycle is called, if it has a name."""

    @property
    def label(self) -> str:
        """The slowest feature by its name, or as one would index it, ``features[3]``; a scalar column by its name."""
        return self._label(self.worst_feature, self.worst_name)

    @property
    def at(self) -> str:
        """Which feature is the slowest, in a table: its name or its number, empty where there is but one, or none."""
        return "" if self.scalar or self.worst_feature is None else self.worst_name or str(self.worst_feature)

    @property
    def cycle(self) -> str:
        """The cycle in words, ``cycle of 24 rows``; empty if there is none."""
        return "" if self.period is None else f"cycle of {number(self.period)} rows"

    @property
    def cyclic_label(self) -> str:
        """The feature with the cycle, as `label` names one."""
        return self._label(self.cyclic_feature, self.cyclic_name)

    def _label(self, feature: int | None, name: str | None) -> str:
        return self.name if self.scalar or feature is None else name or f"{self.name}[{feature}]"


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
    lengths: tuple[int, ...] = field(default=(), repr=False)
    """Rows of the chains, across whose borders nothing is measured; empty where all rows are one."""
    about: tuple[str, ...] = ()
    """What to know of the rows: groups, gaps, times that are there twice, columns that are left out."""
    curves: tuple[LagCurve, ...] = field(default=(), repr=False, compare=False)
    """Autocorrelation functions of the slowest columns, slowest first, at most six."""

    @property
    def chains(self) -> int:
        """How many chains there are: groups, or what lies between gaps."""
        return len(self.lengths) or 1

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
        return sentence(self)

    @property
    def in_short(self) -> str:
        """How much the rows repeat each other, in words that need no explanation and without advice."""
        return in_short(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values for JSON, with None where a number does not exist."""
        whole = {name: _plain(getattr(self, name)) for name in ("rows", "tau", "ess", "reliable", "sentence")}
        columns = [{key: _plain(value) for key, value in asdict(column).items()} for column in self.columns]
        return {**whole, "chains": self.chains, "about": list(self.about), "columns": columns}

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the autocorrelations of the slowest columns, with matplotlib, and return the axes.

        Lags go on for several autocorrelation times and several turns of a cycle. All are drawn; of more than a
        thousand, the least and the greatest value of every few, so that no cycle is hidden between them.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.

        Examples
        --------
        >>> import numpy as np
        >>> import multireplay as mr
        >>> ax = mr.diagnose(np.random.default_rng(0).standard_normal(1000)).plot()
        >>> ax.get_xlabel()
        'lag in steps'
        """
        return plot(self, ax)

    def __str__(self) -> str:
        paragraphs = (legend(self), sentence(self), " ".join(self.about))
        return "\n\n".join([table(self), *(textwrap.fill(printable(text), WIDTH) for text in paragraphs if text)])


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def sentence(diagnosis: Diagnosis) -> str:
    """What learning from these rows in order would cost."""
    column, rows = diagnosis.slowest, diagnosis.rows
    if column is None:
        return "Everything examined is constant, so there is no dependence between rows to measure."
    kind = "column" if column.examined == column.width else "feature examined"
    tau, steps, ess = number(column.tau_max), math.ceil(column.tau_max), number(column.ess)
    subject = f"the slowest {kind} ({column.label})"
    has = f"T{subject[1:]} has"
    opening = f"{has} an autocorrelation time of"
    if column.tau_max < CLOSE_TO_ONE and not column.reliable:
        beside = f" beside its {column.cycle}" if column.tau_rest is not None else ""
        return (
            f"{rows} rows are too few, or too regular, to tell the autocorrelation time of {subject}{beside} and so "
            f"whether order matters: {_REPLAY} is the safe choice."
        )
    if column.batch is not None or column.tau_rest is not None:
        bound = "" if column.reliable else "at most "
        return (
            f"{has} {doubt(column)}; {rows} rows carry {bound}about as much information on its mean as {ess} "
            f"independent ones, learning in order with a constant step follows what is slow, and {_REPLAY} is the safe "
            "choice."
        )
    elsewhere = next((f"{other.cyclic_label} has a {other.cycle}" for other in diagnosis.columns if other.cycle), "")
    if column.tau_max < CLOSE_TO_ONE and elsewhere:
        return (
            f"{opening} {tau} steps, no more than independent rows have, but {elsewhere}: learning in order with a "
            f"constant step follows it, and {_REPLAY} is the safe choice."
        )
    if column.tau_max < 1 / CLOSE_TO_ONE:
        return (
            f"{opening} {tau} steps, less than the 1 of independent rows because neighbours offset each "
            f"other: {rows} rows carry about as much information on its mean as {ess} independent ones, and "
            "as far as the columns can tell plain SGD in order is fine."
        )
    if column.tau_max < CLOSE_TO_ONE:
        return (
            f"{opening} {tau} steps, close to the 1 of independent rows: as far as the columns can tell, "
            "order hardly matters here and plain SGD is fine."
        )
    if not column.reliable:
        longer = "longer chains, or " if diagnosis.chains > 1 else ""
        return (
            f"{opening} at least {tau} steps, a lower bound because it takes {longer}{ENOUGH_TIMES} times as many "
            f"rows or more to settle it: {rows} rows carry at most about as much information on its mean as "
            f"{ess} independent ones, and learning in order with a constant step sees the same neighbourhood "
            f"for {steps} steps or more at a time; {_REPLAY} sets such neighbours far apart, but only a "
            "longer record can say which gap would."
        )
    return (
        f"{opening} {tau} steps: {rows} rows carry about as much information on its mean as {ess} "
        "independent ones, and learning in order with a constant step sees the same neighbourhood for about "
        f"{steps} steps at a time; {_REPLAY} or a gap of at least {steps} removes most of that."
    )


def in_short(diagnosis: Diagnosis) -> str:
    """How many independent rows would tell as much as these."""
    column, rows = diagnosis.slowest, diagnosis.rows
    if column is None:
        return sentence(diagnosis)
    cycles = next((f", but {one.cyclic_label} has a {one.cycle}" for one in diagnosis.columns if one.cycle), "")
    if column.tau_max < CLOSE_TO_ONE:
        return (
            f"As far as the columns can tell, rows are all but independent{cycles}."
            if column.reliable
            else f"{rows} rows are too few, or too regular, to tell how much they repeat each other{cycles}."
        )
    cycle = f", which has a {column.cycle}," if column.tau_rest is not None else ""
    return (
        f"Rows repeat each other: on the mean of {column.label}{cycle} {rows} rows carry "
        f"{'' if column.reliable else 'at most '}about as much information as {number(column.ess)} independent ones."
    )


def doubt(column: ColumnDiagnosis) -> str:
    """What the sum over short lags cannot see in the slowest feature: a cycle, a slow component or both."""
    least = "" if column.reliable else "at least "
    whole = f"{least}{_steps(column.tau_max)}"
    rest = "" if column.tau_rest is None else f"{least}{_steps(column.tau_rest)}"
    if column.batch is None or column.tau_short is None:
        return f"a {column.cycle} and an autocorrelation time of {whole} ({rest} without the cycle, which averages out)"
    opening = f"a {column.cycle}, which averages out, and beside it a slow component" if rest else "a slow component"
    says = (
        f"{opening}: the sum over short lags says {_steps(column.tau_short)}, batches of {column.batch} rows say "
        f"{rest or whole}"
    )
    return f"{says}, which is {whole} for the cycle and the rest together" if rest else says


def _steps(value: float) -> str:
    return "1 step" if number(value) == "1" else f"{number(value)} steps"


def legend(diagnosis: Diagnosis) -> str:
    """What the entries of the table mean, as far as they occur in it."""
    parts = [f"tau: integrated autocorrelation time in steps, 1 if independent. ESS = B/tau, B = {diagnosis.rows}."]
    if diagnosis.chains > 1:
        parts.append(f"The rows are {diagnosis.chains} chains, and nothing is measured across their borders.")
    notes = [note(column) for column in diagnosis.columns]
    if any("lower bound" in entry for entry in notes):
        short = ", or chains are too short to show it" if diagnosis.chains > 1 else ""
        parts.append(f"lower bound: B is less than {ENOUGH_TIMES} tau{short}, so tau may be larger and ESS smaller.")
    if any("rough" in entry for entry in notes):
        parts.append("rough: too few rows, or too regular ones, to believe a tau below 1.")
    if any(column.batch is not None for column in diagnosis.columns):
        parts.append(
            "slow part: tau is from means of batches, because the sum over short lags misses it; a lower bound where "
            f"it lasts more than B/{ENOUGH_TIMES} rows. If such parts never end, intervals need "
            "by=mr.inference.LongMemory()."
        )
    if any(column.cycle for column in diagnosis.columns):
        parts.append("cycle: so many rows a turn; it averages out of a mean, and tau is the share of the rest.")
    sampled = [column for column in diagnosis.columns if column.examined < column.width]
    if any(column.sparse for column in sampled):
        parts.append(
            "Of sparse columns and of states the most frequent features are examined; max_features=None takes all."
        )
    if any(not column.sparse for column in sampled):
        parts.append("Features are examined at even spaces where there are many; max_features=None takes all.")
    return " ".join(parts)


def table(diagnosis: Diagnosis) -> str:
    """One line per column, in plain characters that any terminal can show."""
    grid = Table(box=box.MARKDOWN)
    grid.add_column("column", overflow="fold")
    for heading in ("features", "median tau", "worst tau", "at", "ESS", "ESS/B"):
        grid.add_column(heading, justify="right", no_wrap=True)
    named = any(column.worst_name for column in diagnosis.columns)
    grid.add_column("note", min_width=8 if named else 11)  # its longest word, where room is needed for names
    for column in diagnosis.columns:
        sampled = column.examined < column.width
        features = f"{column.examined} of {column.width}" if sampled else str(column.width)
        if column.worst_feature is None:
            cells = ("-", "constant", "-", "-", "-")
        else:
            times = (number(column.tau_median), number(column.tau_max))
            at = "\n".join(textwrap.wrap(column.at, LONGEST)) or "-"
            cells = (*times, at, number(column.ess), f"{number(100 * column.ess / diagnosis.rows)} %")
        row = (column.name, features, *cells, note(column))
        grid.add_row(*map(plain_text, row))
    out = io.StringIO()
    console = Console(file=out, width=WIDTH, color_system=None, force_terminal=False, legacy_windows=False)
    console.print(grid)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines() if line.strip())


def note(column: ColumnDiagnosis) -> str:
    """What else to know about a column, empty if nothing."""
    notes = [] if column.reliable else ["lower bound" if column.tau_max > 1 else "rough"]
    if column.batch is not None:
        notes.append("slow part")
    if column.period is not None:
        notes.append(f"cycle of {number(column.period)}")
    if 0 < column.constant < column.examined:
        notes.append(f"{column.constant} constant")
    return ", ".join(notes)


def number(value: float) -> str:
    """Three digits for small numbers, whole ones above a thousand, powers of ten beyond a billion."""
    return f"{value:.3g}" if value < 999.5 or value >= 1e9 else f"{value:.0f}"
