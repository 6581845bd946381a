"""Streams for River: `learn_one`, `learn_many`, `predict_one` on dictionaries of features that may come and go.

Needs the package river, which the extra 'river' has. A feature that is not in a row is 0 there; one that is new
widens all sums with zeros, which is exact: it was 0 in all rows before. Where there get to be more features than sums
are kept for, the stream goes on with a window of rows, which begins with those that are spread over it: up to 4096.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Literal

import numpy as np
import pandas as pd
from river import base

from multireplay._check import Vector
from multireplay.errors import InputError
from multireplay.problems import GLM
from multireplay.streaming.stream import Stream
from multireplay.streaming.wide import WIDEST

VECTORS = (
    *("values", "points", "judged", "next", "open", "active", "pending", "x", "point", "held"),
    *("features", "centre", "at_zero", "steady"),
)
MATRICES = ("slopes", "slope", "inverse", "second", "energies")


class _OnDictionaries:
    """What both have in common: a stream of rows whose first feature is 1, and the places of the others."""

    link = "identity"

    def __init__(self, forget: float | Literal["auto"] | None = "auto") -> None:
        self.forget = forget
        self._places: dict[Hashable, int] = {}
        self._stream: Stream | None = None

    def _problem(self) -> GLM:
        return GLM(self.link)

    def _learn(self, rows: Vector, targets: Vector) -> None:
        if self._stream is None:
            self._stream = Stream(self._problem(), forget=self.forget)
        if len(rows) == 1:
            self._stream.observe(features=rows[0], targets=float(targets[0]))
        elif len(rows):
            self._stream.observe_many(features=rows, targets=targets)

    def _know(self, names: Any) -> None:
        """Give new features a place."""
        new = sorted((name for name in names if name not in self._places), key=repr)
        if not new:
            return
        self._places |= {name: 1 + len(self._places) + at for at, name in enumerate(new)}
        if self._stream is None or not self._stream.position:
            return
        state = {name: widened(name, value, len(new)) for name, value in self._stream.state().items()}
        if len(self._places) < WIDEST or len(self._places) - len(new) >= WIDEST:
            self._stream = Stream.from_state(self._problem(), state)
            return
        self._stream = None
        kept = "learner.inner.spread.column"
        state[f"{kept}.features"] += state["learner.centre"]  # the first feature of all rows is 1
        for rows in (kept, "open.column"):
            self._learn(state[f"{rows}.features"], state[f"{rows}.targets"])

    def _row(self, x: Mapping[Hashable, Any]) -> Vector:
        row = np.zeros(1 + len(self._places))
        row[0] = 1.0
        for name, value in x.items():
            place = self._places.get(name)
            if place is not None:
                row[place] = value
        return row

    def _rows(self, X: pd.DataFrame) -> Vector:
        rows = np.zeros((len(X), 1 + len(self._places)))
        rows[:, 0] = 1.0
        for name in X.columns:
            place = self._places.get(name)
            if place is not None:
                rows[:, place] = X[name].to_numpy(dtype=np.float64)
        return rows

    def _mean(self, rows: Vector) -> Vector:
        """The mean response, that of 0 before there is a row."""
        if self._stream is None or not self._stream.position:
            return self._problem().response(np.zeros(len(rows)))
        return np.asarray(self._stream.predict(rows))


class StreamRegressor(_OnDictionaries, base.MiniBatchRegressor):
    """Linear regression on a stream, with an intercept: `multireplay.Stream` of least squares, for River.

    Parameters
    ----------
    forget
        As in `multireplay.Stream`: "auto", a half-life in rows, or None.

    Examples
    --------
    >>> from river import datasets
    >>> from multireplay.streaming.river import StreamRegressor
    >>> model = StreamRegressor()
    >>> for x, y in datasets.TrumpApproval().take(500):
    ...     guess = model.predict_one(x)
    ...     model.learn_one(x, y)
    >>> bool(abs(guess - y) < 2.0)
    True
    """

    def learn_one(self, x: dict[Hashable, Any], y: float) -> None:
        self._know(x)
        self._learn(self._row(x)[None, :], np.array([y], dtype=np.float64))

    def predict_one(self, x: dict[Hashable, Any]) -> float:
        return float(self._mean(self._row(x)[None, :])[0])

    def learn_many(self, X: pd.DataFrame, y: pd.Series) -> None:
        self._know(X.columns)
        self._learn(self._rows(X), y.to_numpy(dtype=np.float64))

    def predict_many(self, X: pd.DataFrame) -> pd.Series:
        return pd.Series(self._mean(self._rows(X)), index=X.index, dtype=np.float64)


class StreamClassifier(_OnDictionaries, base.MiniBatchClassifier):
    """Logistic regression of two classes on a stream, with an intercept: `multireplay.Stream`, for River.

    Classes are True and False (or 1 and 0), or any two labels, the first two that come; a third is an error.

    Parameters
    ----------
    forget
        As in `multireplay.Stream`: "auto", a half-life in rows, or None.

    Examples
    --------
    >>> from river import datasets
    >>> from multireplay.streaming.river import StreamClassifier
    >>> model, right = StreamClassifier(), 0
    >>> for x, y in datasets.Phishing().take(500):
    ...     right += model.predict_one(x) == y
    ...     model.learn_one(x, y)
    >>> right > 400
    True
    """

    link = "logistic"

    def __init__(self, forget: float | Literal["auto"] | None = "auto") -> None:
        super().__init__(forget)
        self._labels: tuple[Any, ...] = (None, None)
        """That of 0 and that of 1; None until they have come."""

    @property
    def _multiclass(self) -> bool:
        return False

    def _read(self, labels: Iterable[Any]) -> tuple[Vector, tuple[Any, Any]]:
        """The place of every label, and the labels that are known then: True and 1 go to the second if it is free."""
        known, places = list(self._labels), []
        for label in labels:
            if label is None or label != label:
                raise InputError(f"a class is True or False, or one of two labels, not {label!r}")
            if label not in known:
                if None not in known:
                    raise InputError(f"there are two classes, {known[0]!r} and {known[1]!r}, and {label!r} is a third")
                wanted = int(label == 1)
                known[wanted if known[wanted] is None else 1 - wanted] = label
            places.append(known.index(label))
        return np.array(places, dtype=np.float64), (known[0], known[1])

    def learn_one(self, x: dict[Hashable, Any], y: Any) -> None:
        target, labels = self._read([y])
        self._know(x)
        self._learn(self._row(x)[None, :], target)
        self._labels = labels

    def _chances(self, rows: Vector) -> dict[Any, Vector]:
        """The chance of every label: of False and True as long as there is no other."""
        one = self._mean(rows)
        off, on = (mark if label is None else label for mark, label in zip((False, True), self._labels, strict=True))
        if off == 0 and on == 1:
            return {False: 1.0 - one, True: one}
        if None in self._labels:
            return {label: np.ones(len(rows)) for label in self._labels if label is not None}
        return {off: 1.0 - one, on: one}

    def predict_proba_one(self, x: dict[Hashable, Any], **_: Any) -> dict[Any, float]:
        return {label: float(chance[0]) for label, chance in self._chances(self._row(x)[None, :]).items()}

    def learn_many(self, X: pd.DataFrame, y: pd.Series) -> None:
        targets, labels = self._read(y.tolist())
        self._know(X.columns)
        self._learn(self._rows(X), targets)
        self._labels = labels

    def predict_proba_many(self, X: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame(self._chances(self._rows(X)), index=X.index)


def widened(name: str, value: Any, extra: int) -> Any:
    """One entry of a stream's state with zeros for so many new features behind the others."""
    last = name.removeprefix("open.").rpartition(".")[2]
    if not isinstance(value, np.ndarray) or last not in (*VECTORS, *MATRICES) or value.shape == (0,):
        return value
    fill = float(value.mean()) if last == "held" else 0.0
    matrix = last in MATRICES and (last != "energies" or value.ndim == 3)
    before = value.ndim - (2 if matrix else 1)
    return np.pad(value, [(0, 0)] * before + [(0, extra)] * (value.ndim - before), constant_values=fill)
