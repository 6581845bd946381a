"""What may be given as features: a function or a network of the user's, or a name."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from multireplay.buffer.foreign import as_numpy, is_foreign
from multireplay.errors import InputError
from multireplay.rl.coding import Coding, stored
from multireplay.rl.features.base import BoundFeatures, Features, Matrix, OneHot
from multireplay.rl.features.scaled import RBF, Fourier, Polynomial
from multireplay.rl.features.tiles import TileCoding
from multireplay.rl.policies import Batched, named_object
from multireplay.rl.spaces import Array, short, sizes_of

BATCH = 4096
"""Observations that a network is given at a time."""


@dataclass(frozen=True)
class Function(Features):
    """Features from a function of one observation that returns a number or a row of numbers.

    No constant is added. Where a plain function may be given as features it stands for this. It gets an observation as
    the environment gives it, a dictionary of a `Dict` space for example; what it returns may be a PyTorch tensor.

    Parameters
    ----------
    function : callable or Batched
        ``function(observation) -> row``; wrapped in `Batched`, ``function(observations) -> rows``, which is faster:
        the observations are then batched as a vector environment does it, a dictionary of arrays for example.

    Examples
    --------
    >>> import numpy as np
    >>> import multireplay as mr
    >>> record = mr.rl.collect("MountainCar-v0", "random", steps=500, seed=0)
    >>> own = mr.rl.Function(lambda state: [1.0, state[0], state[1] ** 2])
    >>> own.bind(record.observation_space, record.observations).dim
    3
    >>> fast = mr.rl.Function(mr.rl.Batched(lambda states: np.hstack([states, states**2])))
    >>> record.buffer(fast + mr.rl.Polynomial(0))["features"].shape
    (500, 5)
    """

    function: Callable[..., Any]

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InputError(f"Function needs a function of an observation, not {self.function!r}")

    def bind(self, space: Any, observations: Array) -> BoundFunction:
        return BoundFunction(Coding(space), self.function, _example(observations))


class BoundFunction(BoundFeatures):
    """The user's function, with its answers checked."""

    kind = "given"

    def __init__(self, coding: Coding, function: Callable[..., Any], example: Array) -> None:
        self.coding, self.space, self.function, self.dim = coding, coding.space, function, 0
        self.dim = self.rows(example).shape[1]

    def rows(self, observations: Array) -> Matrix:
        batched = isinstance(self.function, Batched)
        try:
            if batched:
                found = plain(self.function(self.coding.decode(observations)))
            else:
                found = [np.ravel(plain(self.function(one))) for one in self.coding.each(observations)]
        except Exception as error:
            shape = f"an array of shape {observations.shape if batched else observations.shape[1:]}"
            what = shape if self.space is self.coding.original else f"an observation of {self.coding.original}"
            raise InputError(f"the feature function raised {type(error).__name__}: {error}, for {what}") from error
        try:
            values = np.asarray(found, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError("the feature function must give as many numbers for every observation") from None
        if values.ndim == 1:
            values = values[:, None]
        if values.ndim != 2 or len(values) != len(observations) or (self.dim and values.shape[1] != self.dim):
            expected = f"({len(observations)}, {self.dim or 'd'})"
            raise InputError(f"the feature function gave an array of shape {values.shape}, not {expected}")
        bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
        if bad.size:
            raise InputError(
                f"the feature function gave {short(values[bad[0]])} for the observation {short(observations[bad[0]])}; "
                "all features must be finite"
            )
        return values


def plain(values: Any) -> Any:
    """An array of another library, such as a tensor with a gradient, as one of NumPy's; all else as it is."""
    if isinstance(values, list | tuple):
        return [plain(value) for value in values]
    return as_numpy(values) if is_foreign(values) else values


@dataclass(frozen=True)
class LastLayer(Features):
    """The inputs of a PyTorch network's last linear layer, and a constant 1 for its bias.

    What a critic's last layer is trained to do, `PolicyEvaluation` then does exactly on these features. The network
    is copied when the features are bound, so training it further does not change them.

    Parameters
    ----------
    module : torch.nn.Module
        A network that takes a batch of observations: floats as its parameters are, those of an image of bytes too, from
        0 to 255, or int64 for discrete ones. The last `torch.nn.Linear` in it is the layer meant.

    Examples
    --------
    >>> import torch
    >>> import multireplay as mr
    >>> critic = torch.nn.Sequential(torch.nn.Linear(4, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    >>> record = mr.rl.collect("CartPole-v1", "random", steps=200, seed=0)
    >>> mr.rl.LastLayer(critic).bind(record.observation_space, record.observations).dim
    33
    """

    module: Any

    def __post_init__(self) -> None:
        try:
            import torch
        except ImportError:
            raise InputError("LastLayer needs PyTorch: pip install torch") from None
        if not isinstance(self.module, torch.nn.Module):
            raise InputError(f"LastLayer needs a torch.nn.Module, not {self.module!r}")
        if _last_linear(self.module) is None:
            raise InputError("LastLayer needs a network with a torch.nn.Linear layer, and this one has none")

    def bind(self, space: Any, observations: Array) -> BoundLastLayer:
        return BoundLastLayer(stored(space), copy.deepcopy(self.module).eval(), _example(observations))

    def __repr__(self) -> str:
        return f"LastLayer({type(self.module).__name__})"


class BoundLastLayer(BoundFeatures):
    """The copied network, run without gradients."""

    kind = "last-layer"

    @property
    def names(self) -> tuple[str, ...]:
        return (*(f"unit {i}" for i in range(self.dim - 1)), "constant")

    def __init__(self, space: Any, module: Any, example: Array) -> None:
        self.space, self.module = space, module
        weights = next(module.parameters())
        self.dtype, self.device = weights.dtype, weights.device
        self.dim = self.rows(example).shape[1]

    def rows(self, observations: Array) -> Matrix:
        import torch

        caught: list[Any] = []
        hook = _last_linear(self.module).register_forward_pre_hook(lambda layer, inputs: caught.append(inputs[0]))
        discrete = sizes_of(self.space) is not None and observations.dtype.kind in "iub"
        dtype = torch.int64 if discrete else self.dtype
        try:
            with torch.no_grad():
                for start in range(0, len(observations), BATCH):
                    batch = np.ascontiguousarray(observations[start : start + BATCH])
                    self.module(torch.as_tensor(batch, device=self.device).to(dtype))
        except Exception as error:
            shape = observations.shape[1:]
            raise InputError(
                f"the network raised {type(error).__name__}: {error}, for observations of shape {shape}"
            ) from error
        finally:
            hook.remove()
        values = np.concatenate([part.double().cpu().numpy() for part in caught]) if caught else np.empty((0, 0))
        if values.ndim != 2 or len(values) != len(observations):
            raise InputError(
                f"the network's last linear layer was given an array of shape {values.shape} for {len(observations)} "
                "observations; it must be used once, on one row each"
            )
        return np.hstack([values, np.ones((len(values), 1))])


def _last_linear(module: Any) -> Any:
    from torch.nn import Linear

    layers = [layer for layer in module.modules() if isinstance(layer, Linear)]
    return layers[-1] if layers else None


def _example(observations: Array) -> Array:
    if not len(observations):
        raise InputError("the number of features is found by trying an observation, and there are none")
    return observations[:1]


@dataclass(frozen=True)
class Automatic(Features):
    """`OneHot` for discrete observations of at most 2000 kinds, `RBF` for all others."""

    def bind(self, space: Any, observations: Array) -> BoundFeatures:
        sizes = sizes_of(stored(space))
        few = sizes is not None and float(sizes[0].prod()) <= 2000
        return (OneHot() if few else RBF()).bind(space, observations)


NAMES: dict[str, Callable[..., Features]] = {
    "auto": Automatic,
    "one-hot": OneHot,
    "rbf": RBF,
    "tiles": TileCoding,
    "fourier": Fourier,
    "polynomial": Polynomial,
}


def features_from_name(name: str) -> Features:
    """The features of that name.

    Parameters
    ----------
    name : str
        "one-hot", "rbf", "tiles", "fourier", "polynomial" or "auto" (one-hot for discrete observations, RBF for
        others), with arguments in brackets where the defaults do not suit: "fourier(order=5)", "rbf(200)". Or a
        function of yours as "module:function". Several are put side by side by a plus: "rbf+polynomial(1)".

    Examples
    --------
    >>> import multireplay as mr
    >>> mr.rl.features_from_name("fourier(order=5)")
    Fourier(order=5, bounds=None)
    >>> mr.rl.features_from_name("rbf+polynomial(1)")
    RBF(centres=None, width=0.75, bounds=None) + Polynomial(degree=1, bounds=None)
    """
    return reduce(add, (_one(part.strip()) for part in name.split("+")))


def _one(name: str) -> Features:
    start, bracket, rest = name.partition("(")
    if start.strip() in NAMES:
        given, named = _arguments(name, f"f({rest}") if bracket else ([], {})
        try:
            return NAMES[start.strip()](*given, **named)
        except TypeError as error:
            raise InputError(f"the features {name!r} cannot be made: {error}") from None
    found = named_object(name, "features", f"there are {', '.join(NAMES)}")
    return found if isinstance(found, Features) else Function(found)


def _arguments(name: str, call: str) -> tuple[list[Any], dict[str, Any]]:
    """The arguments in the call "f(1, key=2)", which must be plain values."""
    try:
        found = ast.parse(call, mode="eval").body
        assert isinstance(found, ast.Call)
        named = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in found.keywords}
        return [ast.literal_eval(value) for value in found.args], named
    except (SyntaxError, ValueError, AssertionError):
        raise InputError(f"{name!r} cannot be read; write features as 'fourier(order=5)'") from None


def as_features(features: Any) -> Features:
    """A description of features from one, from a name, or from a function."""
    if isinstance(features, str):
        return features_from_name(features)
    if isinstance(features, Features):
        return features
    if callable(features) and not isinstance(features, type):
        return Function(features)
    raise InputError(f"features must be an object such as mr.rl.RBF(), a name or a function, not {features!r}")


def bound_to(features: Any, space: Any, observations: Array) -> BoundFeatures:
    """Features for these observations; those that are bound already stay as they are."""
    if isinstance(features, BoundFeatures):
        return features
    return as_features(features).bind(space, observations)
