"""A fitted model as a small JSON file that a person can read, and predictions from it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from multireplay._check import Vector
from multireplay._write import save_text
from multireplay.cli.options import ModelKind, json_text, plain
from multireplay.errors import InputError

Kind = TypeVar("Kind")

FORMAT = "multireplay model"
VERSION, LATEST = 1, 2
"""Of files: what version 1 does not know, and would predict wrongly without a word, makes it 2."""


@dataclass(frozen=True, eq=False)
class Model:
    """Coefficients of features by name: "linear" predicts wᵀx + b, "poisson" exp(wᵀx + b), "logistic" the class."""

    kind: ModelKind
    target: str
    features: tuple[str, ...]
    coef: Vector
    """A row, or one for each class if there are more than two."""
    intercept: Vector
    classes: tuple[Any, ...] = ()
    """Of a logistic model; of two, the coefficients are for the second."""
    fitted: Mapping[str, Any] = field(default_factory=dict)
    """How it was fitted, for people."""
    inference: Mapping[str, Any] | None = None
    """Standard errors, intervals and what they are made of; None in files of earlier versions."""
    recipe: Any = None
    """How the columns of a file become the features (`multireplay.tables`); None: the features are its columns."""
    exposure: str | None = None
    """The column by which the expected counts of a Poisson model are multiplied."""
    softmax: bool = False
    """Whether more than two classes were fitted together, not each against the rest as in earlier versions."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a file that predictions are made from."""
        return (*self.recipe.columns, *([] if self.exposure is None else [self.exposure]))

    def predict(self, rows: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Predictions by name of the column: "prediction", and the probability of every class; of an exposure of 1."""
        scores = rows @ self.coef.T + self.intercept
        if self.kind is ModelKind.linear:
            return {"prediction": scores[:, 0]}
        if self.kind is ModelKind.poisson:
            with np.errstate(over="ignore"):
                return {"prediction": np.exp(scores[:, 0])}
        chances = softmax(scores, axis=1) if self.softmax else expit(scores)
        if len(self.classes) == 2:
            best = (scores[:, 0] > 0).astype(int)
            chances = np.hstack([1 - chances, chances])
        else:
            best = scores.argmax(axis=1)
            total = chances.sum(axis=1, keepdims=True)
            chances = np.divide(chances, total, out=np.full_like(chances, 1 / len(self.classes)), where=total > 0)
        columns = {f"probability of {name}": chances[:, place] for place, name in enumerate(self.classes)}
        return {"prediction": np.asarray(self.classes)[best], **columns}

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values; coefficients of one row are one list."""
        single = len(self.coef) == 1
        return {
            "format": FORMAT,
            "version": LATEST if self.softmax or self.exposure is not None else VERSION,
            "model": self.kind.value,
            "target": self.target,
            "features": list(self.features),
            "coef": plain(self.coef[0] if single else self.coef),
            "intercept": plain(self.intercept[0] if single else self.intercept),
            "classes": plain(self.classes) or None,
            "fitted": plain(self.fitted),
            "inference": plain(self.inference),
            "recipe": None if self.recipe is None else self.recipe.to_dict(),
            "exposure": self.exposure,
            "softmax": self.softmax,
        }

    def save(self, path: Path) -> None:
        """Write the file, which has its name only when it is complete."""
        save_text(path, json_text(self.to_dict()) + "\n")

    @classmethod
    def load(cls, path: Path) -> Model:
        """Read the file, or say what is wrong with it."""
        if not path.is_file():
            raise InputError(f"{path} does not exist")
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, UnicodeDecodeError) as error:
            raise InputError(f"{path} is not a JSON file: {error}") from None
        except RecursionError:
            raise InputError(f"{path} is no model: its lists are nested too deeply") from None
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise InputError(f"{path} is not a model that 'multireplay fit' has written")
        if found.get("version") not in (VERSION, LATEST):
            known = f"of which this multireplay knows {VERSION} and {LATEST}"
            raise InputError(f"{path} has version {found.get('version')}, {known}")
        try:
            model = cls(
                ModelKind(found["model"]),
                _of(found, "target", str),
                _texts(found, "features"),
                np.atleast_2d(np.array(found["coef"], dtype=np.float64)),
                np.atleast_1d(np.array(found["intercept"], dtype=np.float64)),
                tuple(found["classes"] or ()),
                _of(found, "fitted", dict),
                None if found.get("inference") is None else _of(found, "inference", dict),
                _recipe(found),
                found.get("exposure"),
                bool(found.get("softmax", False)),
            )
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InputError(f"{path} is damaged: {type(error).__name__} {error}") from None
        model._check(path)
        return model

    def _check(self, path: Path) -> None:
        """Raise where the parts of a file do not make a model."""
        for name, values in (("coefficients", self.coef), ("intercepts", self.intercept)):
            if not np.isfinite(values).all():
                raise InputError(f"{path} is damaged: its {name} are not all numbers")
        for label in self.classes:
            if not isinstance(label, str | int | float) or label != label:
                raise InputError(f"{path} is damaged: {label!r} cannot be a class")
        if len({str(label) for label in self.classes}) < len(self.classes):
            raise InputError(f"{path} is damaged: two of its classes are the same")
        if self.recipe.names != self.features:
            raise InputError(f"{path} is damaged: its recipe makes other features than it has coefficients for")
        dim, classes = len(self.features), len(self.classes)
        count = classes if classes > 2 else 1
        if self.coef.shape != (count, dim) or self.intercept.shape != (count,):
            raise InputError(
                f"{path} is damaged: {dim} features and {classes} classes do not go with "
                f"coefficients of shape {self.coef.shape} and intercepts of shape {self.intercept.shape}"
            )
        if (self.kind is ModelKind.logistic) != (classes >= 2):
            raise InputError(f"{path} is damaged: a {self.kind} model with {classes} classes")
        if not isinstance(self.exposure, str | None) or (self.exposure and self.kind is not ModelKind.poisson):
            raise InputError(f"{path} is damaged: a {self.kind} model with the exposure {self.exposure!r}")


def _recipe(found: Mapping[str, Any]) -> Any:
    """The recipe of a file; files of earlier versions have none, and features ``name`` or ``name[place]``."""
    from multireplay.tables import Recipe, Term
    from multireplay.tables.formula import FormulaRecipe

    names = _texts(found, "features")
    if found.get("recipe") is None:
        parts = [re.fullmatch(r"(.*)\[(\d{1,9})\]", name) for name in names]
        pairs = zip(names, parts, strict=True)
        return Recipe(tuple(Term(name) if part is None else Term(part[1], int(part[2])) for name, part in pairs))
    given = _of(found, "recipe", dict)
    return FormulaRecipe.from_dict(given, names) if "formula" in given else Recipe.from_dict(given)


def _of(found: Mapping[str, Any], name: str, kind: type[Kind]) -> Kind:
    """An entry of a file, if it is what it should be."""
    value = found[name]
    if not isinstance(value, kind):
        raise TypeError(f"{name!r} is {type(value).__name__}, not {kind.__name__}")
    return value


def _texts(found: Mapping[str, Any], name: str) -> tuple[str, ...]:
    texts = _of(found, name, list)
    if not all(isinstance(text, str) for text in texts) or len(set(texts)) < len(texts):
        raise TypeError(f"{name!r} are not texts that all differ")
    return tuple(texts)
