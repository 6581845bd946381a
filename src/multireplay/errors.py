"""Every error this package raises on purpose, so that a caller can catch them by kind."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence


class MultireplayError(Exception):
    """Base class of all errors raised on purpose by this package."""


class InputError(MultireplayError, ValueError):
    """An argument or the data cannot be used; the message names which one and why. Nothing was changed."""


class FeatureError(InputError):
    """Something is wrong with one feature, which goes by its number until somebody knows the names."""

    def __init__(self, feature: int, what: str, names: Sequence[str] | None = None) -> None:
        super().__init__(feature, what, names)
        self.feature, self.what, self.names = feature, what, names

    def __str__(self) -> str:
        called = f"{self.feature} (counting from 0)" if self.names is None else repr(self.names[self.feature])
        return f"feature {called} {self.what}"


class OperatorError(MultireplayError, RuntimeError):
    """The user's operator raised, returned the wrong shape, or returned a value that is not finite."""


class WorkersError(MultireplayError, RuntimeError):
    """Those who did the work are gone: a pool that broke, a cluster without workers, a scheduler that was restarted."""


class DivergenceWarning(UserWarning):
    """A run stopped early because its iterates grew without bound; ``result.status`` says where."""


class ConvergenceWarning(UserWarning):
    """The answer is further from the exact fit than a tenth of a standard error; ``result.status`` says how far."""


class UncertaintyWarning(UserWarning):
    """Some intervals are not to be relied on: the record has seen too little, which ``result.summary()`` marks, or its
    rows are in another order than their index.
    """


class AutocorrelationWarning(UserWarning):
    """The rows are so autocorrelated that learning them in order would have been biased; the message says how much."""


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn of something where the user's own code called this package, however deep in it this is found out."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "multireplay":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
