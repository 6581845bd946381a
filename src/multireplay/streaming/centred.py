"""Features whose mean is far from 0, such as a pressure or a date: learnt less a mean of theirs, times the constant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from multireplay._check import Vector
from multireplay.buffer.columns import Columns, row_count
from multireplay.inference.images import Images, has_part
from multireplay.problems import Problem
from multireplay.sets import WholeSpace
from multireplay.streaming.answer import Drift, LeftOpen, Told
from multireplay.streaming.batches import part_of
from multireplay.streaming.fresh import Beginning
from multireplay.streaming.learner import Learner
from multireplay.streaming.wide import WindowLearner

ROWS = 32
"""Rows from which it is seen which feature is constant, and where the others are."""
SHIFTED = ("features", "next_features")
AnyLearner = Learner | WindowLearner


class Centred:
    """A learner of rows whose features a have c times the constant feature a_k taken off, where there is one.

    That is another basis: aᵀx = (a − c a_k)ᵀx + a_k (x_k + cᵀx), so that only the coordinate of the constant differs,
    and the answer is the same but for rounding and for what holds answers back while rows are few: sums of features
    near 1000 that vary by 1 lose six digits, and a penalty on their coefficients is a million times what it should be.
    c is the mean of the first 32 rows; without a constant feature, it is 0.
    """

    def __init__(self, made: type[AnyLearner], problem: Problem, example: Columns, memory: Any) -> None:
        self._made = made, example, memory
        self.inner: AnyLearner = made(problem, example, memory)
        self.problem, self.dim = problem, problem.dim(example)
        self.centre: Vector | None = None
        self.constant = 0
        self.first: list[tuple[Columns, float]] = []
        """Blocks, each with its stamp, until c is known."""

    @property
    def rows(self) -> int:
        """Rows of all full blocks."""
        return self.inner.rows

    @property
    def block(self) -> int:
        """Rows of the next block."""
        return self.inner.block

    @property
    def drift(self) -> Drift:
        """What was noticed of drift."""
        return self.inner.drift

    def add(self, block: Columns, stamp: float) -> None:
        """Take in a full block; `stamp` is its last row's number or time."""
        self.inner.add(self._shifted(block), stamp)
        if self.centre is None:
            self.first.append(({name: column.copy() for name, column in block.items()}, stamp))
            if self.rows >= ROWS:
                self._begin()

    def _begin(self) -> None:
        """Find c, and learn the rows so far anew."""
        features = np.concatenate([block["features"] for block, _ in self.first])
        steady = (np.ptp(features, axis=0) == 0) & (features[0] != 0)
        steady &= self.problem.penalty_diagonal(self.dim) == 0
        self.centre = np.zeros(self.dim)
        if steady.any():
            self.constant = int(steady.argmax())
            self.centre = features.mean(axis=0) / features[0, self.constant]
            self.centre[steady] = 0.0
        if self.centre.any():
            made, example, memory = self._made
            self.inner = made(self.problem, example, memory)
            for block, stamp in self.first:
                self.inner.add(self._shifted(block), stamp)
        self.first = []

    def _shifted(self, block: Columns) -> Columns:
        centre = self.centre
        if centre is None or not centre.any():
            return block
        shifted = {name: block[name] for name in SHIFTED if name in block}
        return {**block, **{name: a - np.outer(a[:, self.constant], centre) for name, a in shifted.items()}}

    @property
    def basis(self) -> Vector:
        """The matrix that makes answers for the rows as they come of those for the shifted ones."""
        found = np.eye(self.dim)
        if self.centre is not None:
            found[self.constant] -= self.centre
        return found

    def answer(self, tail: Columns) -> Told:
        """The answer of everything, with the rows of `tail`."""
        told = self.inner.answer(self._shifted(tail))
        return told._replace(x=self.basis @ told.x)

    def known(self, x: Vector, tail: Columns) -> LeftOpen:
        """What is left open of an answer. Scores, and so effective sample sizes, are those of the shifted features."""
        found = self.inner.known((2 * np.eye(self.dim) - self.basis) @ x, self._shifted(tail))
        images, source = found.images, found.source
        if source is not None and source.images is not None:
            again = source.images
            source = replace(source, images=lambda: self._turned(again()))
        return LeftOpen(None if images is None else self._turned(images), source, found.why_not)

    def _turned(self, images: Images) -> Images:
        """What images say of answers for the rows as they come."""
        basis, through, unknown = self.basis.T, images.through, images.unknown
        if unknown is not None:  # where terms cancel, a coordinate has no part in it
            unknown = np.array([np.where(has_part(one[None], self.basis), one @ basis, 0.0) for one in unknown])
        return replace(
            images,
            values=images.values @ basis,
            through=None if through is None else lambda scores: through(scores) @ basis,
            off=None if images.off is None else images.off @ basis,
            unknown=unknown,
        )

    def start(self) -> Beginning:
        """What predictions begin with."""
        return self.inner.start()._replace(shifted=self._shifted, basis=self.basis)

    def state(self) -> dict[str, Any]:
        """All of it as arrays and numbers, in one flat dictionary."""
        found = {f"inner.{name}": value for name, value in self.inner.state().items()}
        if self.centre is not None:
            return {**found, "centre": self.centre, "constant": self.constant}
        names = self.first[0][0] if self.first else ()
        rows = {f"first.column.{name}": np.concatenate([block[name] for block, _ in self.first]) for name in names}
        lengths = np.array([row_count(block) for block, _ in self.first], dtype=np.int64)
        return {**found, **rows, "first.lengths": lengths, "first.stamps": np.array([stamp for _, stamp in self.first])}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state`."""
        self.inner.restore(part_of(state, "inner"))
        if "centre" in state:
            self.centre, self.constant = state["centre"].copy(), int(state["constant"])
            return
        cuts, stamps = np.cumsum(state["first.lengths"])[:-1], state["first.stamps"].tolist()
        columns = {name: np.split(rows, cuts) for name, rows in part_of(part_of(state, "first"), "column").items()}
        self.first = [
            ({name: parts[at].copy() for name, parts in columns.items()}, stamp) for at, stamp in enumerate(stamps)
        ]


def learner_of(made: type[AnyLearner], problem: Problem, example: Columns, memory: Any) -> AnyLearner | Centred:
    """A learner of rows as they come, or centred where that changes nothing that is asked of it."""
    features = example.get("features")
    plain = isinstance(problem.constraint, WholeSpace) and problem.by_feature
    if plain and isinstance(features, np.ndarray) and features.ndim == 2 and features.shape[1] == problem.dim(example):
        return Centred(made, problem, example, memory)
    return made(problem, example, memory)
