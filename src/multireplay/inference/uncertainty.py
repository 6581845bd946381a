"""What the record leaves open of an answer: standard errors, intervals, tests, and when not to rely on them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from multireplay._check import Vector, number_in
from multireplay.errors import InputError, UncertaintyWarning, warn
from multireplay.inference.doubts import ALONE, CROWD, NAMED, NEVER, PENALTY, mark_of, note_of
from multireplay.inference.images import Images, has_part
from multireplay.inference.left_out import HELD
from multireplay.inference.longrun import BatchMeans, LongRun, Spread, WaldTest
from multireplay.inference.sight import RecordAt, Sight
from multireplay.inference.summary import Summary, coefficient_row, coefficient_rows

FEW = 30.0
"""With fewer effective samples, or independent visits of its feature, a coordinate's interval is marked. An estimate of
such a number is right to a factor of about two, and below 15 intervals begin to be too short."""
CROWDED = 0.15
"""And all intervals are, where more features than this are active at once for each independent row: the fit takes slow
noise for its own, and effective sample sizes at it are too large."""
CONCENTRATED, MANY = 2.0, 16
"""And where one or two of the batches (of so many at least) tell nearly all of a coordinate, however its feature is
coded: (Σ v²)²/Σ v⁴ of their images v, which is about 10 where 32 are alike."""


class Uncertainty:
    """How well the record knows an answer, under dependence.

    Made by ``result.uncertainty``. `mapped` gives that of linear functions of the answer, such as coefficients in
    other units.

    Attributes
    ----------
    x, names : ndarray, tuple of str
        The answer, and the names of its coordinates.
    images : Images or None
        What is known of the batches of the record; None where there are no standard errors.
    why_not : str
        Why there are none, in one sentence; empty where there are.
    notes : tuple of str
        What holds for all intervals.

    Examples
    --------
    >>> import numpy as np
    >>> import multireplay as mr
    >>> A = np.random.default_rng(0).standard_normal((4096, 2))
    >>> y = A @ [1.0, 0.0] + np.random.default_rng(1).standard_normal(4096)
    >>> found = mr.solve(mr.GLM(), mr.Buffer(features=A, targets=y)).uncertainty
    >>> found.standard_error.round(3), found.doubts, found.why_not
    (array([0.014, 0.021]), {}, '')
    """

    def __init__(
        self,
        x: Vector,
        names: Sequence[str],
        images: Images | None,
        source: RecordAt | None = None,
        why_not: str = "",
        notes: Sequence[str] = (),
    ) -> None:
        self.x, self.names, self.images, self.source = x, tuple(names), images, source
        self.why_not, self.notes = why_not, tuple(notes)
        self._matrix: Any = None
        self._shift: Any = 0.0
        self._whole: Uncertainty = self

    def mapped(self, matrix: Any, names: Sequence[str], shift: Any = 0.0) -> Uncertainty:
        """The uncertainty of ``matrix @ x + shift``.

        Each has the effective sample size of the coordinates that it is made of: their harmonic mean, by their parts in
        its variance. The matrix may be sparse.

        Examples
        --------
        >>> import numpy as np
        >>> import multireplay as mr
        >>> A = np.random.default_rng(0).standard_normal((4096, 2))
        >>> found = mr.solve(mr.GLM(), mr.Buffer(features=A, targets=A[:, 0] + A[:, 1] ** 3)).uncertainty
        >>> both = found.mapped([[100.0, 0.0], [1.0, 1.0]], ["in percent", "sum"])
        >>> bool(np.isclose(both.standard_error[0], 100 * found.standard_error[0]))
        True
        """
        rows = csr_array(matrix) if hasattr(matrix, "tocsr") else _functionals(matrix, len(self.x))
        found = Uncertainty(rows @ self.x + shift, names, self.images, self.source, self.why_not, self.notes)
        found._matrix, found._whole = rows if self._matrix is None else rows @ self._matrix, self._whole
        found._shift = rows @ np.broadcast_to(self._shift, len(self.x)) + shift
        return found

    def at(self, x: Vector) -> Vector:
        """What the same functions are of another answer to the problem: coefficients in the same units.

        Examples
        --------
        >>> import numpy as np
        >>> import multireplay as mr
        >>> buffer = mr.Buffer(features=np.eye(2)[[0, 1, 0, 1]], targets=[1.0, 2.0, 1.0, 2.0])
        >>> found = mr.solve(mr.GLM(), buffer).uncertainty.mapped([[100.0, 0.0]], ["in percent"], shift=1.0)
        >>> found.at(np.array([0.5, 0.0]))
        array([51.])
        """
        return x if self._matrix is None else np.asarray(self._matrix @ x + self._shift)

    @cached_property
    def standard_error(self) -> Vector | None:
        """Of every coordinate, by batch means; infinite where the record says nothing, NaN on the boundary of a set."""
        return None if self.images is None else self._spread(None, None)[0]

    def interval(self, level: float = 0.95, *, of: Any = None, by: LongRun | None = None) -> Vector:
        """Intervals that contain the truth with that probability, of shape (k, 2): see `Result.interval`."""
        self._warn(_functionals(of, len(self.x)))
        return self.ends(level, of=of, by=by)

    def ends(self, level: float, *, of: Any = None, by: LongRun | None = None) -> Vector:
        """The ends of `interval`, for those who say themselves what is doubtful."""
        level, rows = number_in("level", level, 0, 1, low_open=True), _functionals(of, len(self.x))
        error, spread = self._spread(rows, by)
        centre, half = self._centre(rows), spread.quantile(level) * error
        return np.column_stack([centre - half, centre + half])

    def covariance(self, by: LongRun | None = None) -> Vector:
        """The covariances of all coordinates, of shape (d, d): see `Result.covariance`."""
        found = _estimator(by).covariance(self.pieces(None, by))
        error = self._marked(None, np.ones(len(self.x)))
        found[np.isnan(error)] = found[:, np.isnan(error)] = 0.0
        found[np.isinf(error)] = found[:, np.isinf(error)] = np.nan
        return found

    def test(self, R: Any, r: Any = 0.0, by: LongRun | None = None) -> WaldTest:
        """Wald's test that R x = r: see `Result.test`."""
        rows = _functionals(R, len(self.x))
        assert rows is not None
        target = np.broadcast_to(np.asarray(r, dtype=np.float64), (len(rows),))
        self._warn(rows)
        values = self.pieces(rows, by)
        bad = ~np.isfinite(self._marked(rows, np.ones(len(rows))))
        if bad.any():
            lost = (rows[bad] != 0).any(axis=0) & ~np.isfinite(self._marked(None, np.ones(len(self.x))))
            some = ", ".join(self.names[i] for i in lost.nonzero()[0][:NAMED])
            raise InputError(f"R speaks of what the record does not know, or a set holds where it is: {some}")
        return _estimator(by).wald(values, self._centre(rows) - target)

    @cached_property
    def effective(self) -> Vector | None:
        """The effective sample size of the score of every coordinate: rows that were independent would do as well.

        The variance of a row's score over that of the mean score under dependence. None where it cannot be known: the
        record is not there any more.
        """
        if self._matrix is not None:
            return self._of_parts(self._whole.effective)
        sight, images = self._sight, self.images
        return None if sight is None or images is None else np.asarray(sight.effective / images.stretch**2)

    @property
    def visits(self) -> Vector | None:
        """Independent visits of the feature of every coordinate; infinite where all rows show it alike."""
        if self._matrix is not None:
            return self._of_parts(self._whole.visits)
        return None if self._sight is None else self._sight.visits

    def _of_parts(self, counts: Vector | None) -> Vector | None:
        """Such numbers of functions of coordinates: the harmonic mean of theirs, by their parts in the variance."""
        if counts is None or self.images is None:
            return None
        variance = self.images.variance
        parts = self._matrix * self._matrix * np.maximum(variance, 1e-30 * variance.max() or 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            found = parts.sum(axis=1) / (parts @ (1 / np.maximum(counts, 1e-9)))
        return np.asarray(np.nan_to_num(found, nan=np.inf, posinf=np.inf))

    @property
    def crowded(self) -> float:
        """Features that are active at once for each independent row, see `Sight`; 0 where not known."""
        sight = self._whole._sight
        return 0.0 if sight is None else sight.crowded

    @property
    def slow(self) -> bool:
        """Whether memory may be longer than batches can show, see `Sight`."""
        return self._sight is not None and self._sight.slow

    @cached_property
    def _sight(self) -> Sight | None:
        if self.images is None or self.source is None or self.source.record is None:
            return None
        return self.source.sight(self.images, CROWDED if self.images.left_out else HELD)

    @cached_property
    def doubts(self) -> dict[int, str]:
        """Coordinates whose intervals are not to be relied on, each with the reason."""
        effective, visits, found = self.effective, self.visits, self._alone()
        if effective is None or visits is None:
            return found
        for i in (np.minimum(effective, visits) < FEW).nonzero()[0]:
            less = min((visits[i], "independent visit"), (effective[i], "effective sample"))
            found[int(i)] = mark_of(*less) if visits[i] > 1e-3 else NEVER
        lost = None if self.images is None else self.images.lost
        if lost is not None and lost.any():
            part = lost if self._matrix is None else abs(self._matrix) @ lost > 0
            found |= {int(i): found.get(int(i), CROWD) for i in np.flatnonzero(part)}
        if (sight := self._whole._sight) is not None and sight.events < FEW:
            found = {i: found.get(i, mark_of(sight.events, "event", " of a rare outcome")) for i in range(len(self.x))}
        if self.crowded > CROWDED:
            found = dict.fromkeys(range(len(self.x)), CROWD) | found
        if self.images is not None and self.images.held is not None:
            part = has_part(self.images.held, self._matrix).nonzero()[0].tolist()
            found |= {i: PENALTY for i in part if found.get(i, NEVER) == NEVER}
        return dict(sorted(found.items()))

    def _alone(self) -> dict[int, str]:
        """Coordinates of which one or two batches tell nearly all."""
        if self.images is None or len(self.images.values) < MANY:
            return {}
        squares = np.square(self.pieces())
        total, fourth = np.add.reduce(squares), np.add.reduce(squares * squares)
        return dict.fromkeys((total * total < CONCENTRATED * fourth).nonzero()[0].tolist(), ALONE)

    def doubt_note(self) -> str:
        """The doubts in one short sentence with names and reasons; empty if there are none."""
        return note_of(self.names, self.doubts)

    def summary(self, level: float = 0.95, by: LongRun | None = None, made: Sequence[str] = ()) -> Summary:
        """The table of all coordinates, with sentences on how the fit was made below it: see `Result.summary`."""
        level, lines = number_in("level", level, 0, 1, low_open=True), list(made)
        if self.images is None:
            blank = [coefficient_row(name, value) for name, value in zip(self.names, self.x, strict=True)]
            return Summary(blank, level, (*lines, f"No standard errors: {self.why_not}."))
        doubts, effective = self.doubts, self.effective  # first: the variance is kept by the way
        error, spread = self._spread(None, by)
        if by is not None and effective is not None:  # what another estimator says of the variance, in rows
            with np.errstate(divide="ignore", invalid="ignore"):
                told = effective * (np.asarray(self.standard_error) / error) ** 2
            effective = np.minimum(np.nan_to_num(told, nan=np.inf), self.images.rows.sum())
        columns = self.names, self.x.copy(), self._centre(None).copy(), error, spread, effective, doubts
        how = f"Standard errors under dependence: {by or BatchMeans()!r}"
        notes = [*self.notes, *([self.doubt_note()] if doubts else [])]
        if effective is None:
            notes.append("the record was left behind, so that nobody knows whether it has seen enough for this")
        below = (*lines, f"{how}.", *(f"Note: {note}." for note in notes))
        self._warn()
        rows = partial(coefficient_rows, columns, level)  # when read: the law of others may hold all pieces
        return Summary(rows if by is None else rows(), level, below)

    def _warn(self, rows: Any = None) -> None:
        """Warn of doubts, or of these functions of coordinates where some have part in a doubtful one."""
        if not self.doubts:
            return
        if rows is None:
            return warn(self.doubt_note(), UncertaintyWarning)
        seen = [i for i, mark in self.doubts.items() if mark != PENALTY]
        some = (np.abs(rows[:, seen]) > 0).any(axis=1)
        if self.images is not None and self.images.held is not None:
            some |= has_part(self.images.held, self._rows(rows))
        if part := int(some.sum()):
            of = "it has" if len(rows) == 1 else f"{part} of {len(rows)} have"
            warn(f"{self.doubt_note()}, and {of} part in that", UncertaintyWarning)

    def pieces(self, rows: Any = None, by: LongRun | None = None) -> Vector:
        """The numbers of every piece of the record whose mean is minus the error of these functionals, or of all."""
        if self.images is None:
            raise InputError(f"there are no standard errors here: {self.why_not}")
        values = self.images.values
        if by is not None and by.pieces != BatchMeans.pieces:
            values = self._whole._pieces(by.pieces)
        rows = self._rows(rows)
        return values if rows is None else np.asarray(values @ rows.T)

    def image_of(self, directions: Vector | None) -> Vector | None:
        """Directions in what was learnt, a row each (as `Images` has them), as these coordinates move along them."""
        return directions if directions is None or self._matrix is None else np.asarray(directions @ self._matrix.T)

    def images_of(self, scores: Vector) -> Vector:
        """What other scores of the record at x, a row each, say of this answer: J⁻¹ of each, as `images` has them.

        An error where there are no standard errors, or J and the record were left behind in pickling.
        """
        images, source = self.images, self.source
        if images is None:
            raise InputError(f"there are no standard errors here: {self.why_not}")
        if images.through is None:
            if source is None or source.record is None or source.images is None:
                raise InputError("the inverse of the Jacobian was left behind, and so was the record")
            images = source.images()
        found = images.of(scores)
        return found if self._matrix is None else np.asarray(found @ self._matrix.T)

    def _pieces(self, count: int) -> Vector:
        """Images of so many pieces, kept for the next question."""
        source = self.source
        if source is None or source.record is None or self.images is None:
            raise InputError("only BatchMeans() can be had here: the others read the record, and it was left behind")
        found: dict[int, Vector] = self.__dict__.setdefault("_kept_pieces", {})
        if count not in found:
            found[count] = self.images_of(source.scores(count))
        return found[count]

    def _rows(self, rows: Vector | None) -> Vector | None:
        if self._matrix is None:
            return rows
        return self._matrix if rows is None else np.asarray(rows @ self._matrix)

    def _centre(self, rows: Vector | None) -> Vector:
        """What intervals of these functionals are around: x, without what curvature has moved it by."""
        off = None if self.images is None else self.images.off
        centre = self.x if off is None else self.x - (off if self._matrix is None else self._matrix @ off)
        return centre if rows is None else np.asarray(rows @ centre)

    def _marked(self, rows: Vector | None, error: Vector) -> Vector:
        assert self.images is not None
        return self.images.marked(self._rows(rows), error)

    def _spread(self, rows: Vector | None, by: LongRun | None) -> tuple[Vector, Spread]:
        """Standard errors of these functionals, and the law of their ratios."""
        estimator, values, images = _estimator(by), self.pieces(rows, by), self.images
        kept = images.variance if by is None and images is not None and values is images.values else None
        found = estimator.spread(values) if kept is None else BatchMeans().spread(values, kept)
        return self._marked(rows, np.sqrt(found.variance)), found

    def __repr__(self) -> str:
        return f"Uncertainty({len(self.x)} coordinates{f': {self.why_not}' if self.why_not else ''})"


def _estimator(by: LongRun | None) -> LongRun:
    """What was asked for, `BatchMeans` by default."""
    if by is not None and not isinstance(by, LongRun):
        raise InputError(f"by must be an estimator from mr.inference such as NeweyWest(), not {by!r}")
    return BatchMeans() if by is None else by


def _functionals(of: Any, dim: int) -> Any:
    """Linear functionals as rows, checked; None stays None."""
    if of is None:
        return None
    rows: Any = of if hasattr(of, "tocsr") else np.asarray(of, dtype=np.float64)
    rows = rows.toarray() if hasattr(rows, "toarray") else np.atleast_2d(rows)
    if rows.ndim != 2 or rows.shape[1] != dim:
        raise InputError(f"linear functions of x need {dim} numbers a row, but their shape is {np.shape(of)}")
    if not np.isfinite(rows).all():
        raise InputError("linear functions of x need finite numbers")
    return rows
