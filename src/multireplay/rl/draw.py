"""Pictures of a value function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import binary_dilation

from multireplay.errors import InputError
from multireplay.rl.spaces import Array, as_vectors, limits_of, sizes_of, width_of
from multireplay.show.plotting import BLACK, BLUE, SKY, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from multireplay.rl.evaluate import ValueEstimate

CELLS = 80
"""Cells of a heat map along either side."""
UNVISITED = "0.88"
LOOKED_AT = 1024
"""Observations from which it is seen over which numbers the value moves."""


def plot_value(found: ValueEstimate, ax: Axes | None, dims: Any, names: Any) -> Axes:
    """See `ValueEstimate.plot`."""
    width = width_of(found.features.space)
    chosen = _as_dims(dims, width)
    labels = _as_names(names, chosen, width)
    ax = new_axes(ax)
    if sizes_of(found.features.space) is not None and width == 1:
        _bars(found, ax)
    elif len(chosen) == 1:
        _line(found, ax, chosen[0])
    else:
        _heat_map(found, ax, (chosen[0], chosen[1]))
        ax.set_ylabel(labels[1])
    ax.set_xlabel(labels[0])
    held = "; the other numbers at their median" if len(chosen) < width else ""
    ax.set_title(f"{found.trajectory.name}, γ = {found.gamma:g}{held}", fontsize="medium", loc="left")
    return ax


def telling_dims(found: ValueEstimate) -> tuple[int, int] | None:
    """The two numbers of an observation over which the value moves most, the others at their median.

    None where an observation has at most two, and a picture shows all.
    """
    seen = as_vectors(found.trajectory.observations)
    if seen.shape[1] <= 2:
        return None
    some = seen[:: max(1, len(seen) // LOOKED_AT)]
    moved = [float(found.values(_slice(found, {dim: column})).std()) for dim, column in enumerate(some.T)]
    first, second = sorted(np.argsort(moved)[-2:].tolist())
    return first, second


def _bars(found: ValueEstimate, ax: Axes) -> None:
    low, high = limits_of(found.features.space)
    states = np.arange(int(low[0]), int(high[0]) + 1)
    visited = np.isin(states, found.trajectory.observations)
    values = found.values(states)
    ax.bar(states[visited], values[visited], color=BLUE, width=0.8)
    if not visited.all():
        none = np.zeros(np.count_nonzero(~visited))
        ax.plot(states[~visited], none, "x", color="0.5", markersize=4, label="no step taken from it")
        ax.legend(frameon=False)
    ax.axhline(0, color=BLACK, linewidth=0.8)
    ax.set_ylabel("value")


def _line(found: ValueEstimate, ax: Axes, dim: int) -> None:
    seen = as_vectors(found.trajectory.observations)[:, dim]
    grid = np.linspace(seen.min(), seen.max(), 400)
    ax.plot(grid, found.values(_slice(found, {dim: grid})), color=BLUE)
    counts, edges = np.histogram(seen, bins=60)
    below = ax.twinx()
    below.bar(edges[:-1], counts, width=np.diff(edges), align="edge", color=SKY, alpha=0.25)
    below.set(ylim=(0, 4 * counts.max()), yticks=[], ylabel="visits")
    ax.set_ylabel("value")
    ax.set_zorder(below.get_zorder() + 1)
    ax.patch.set_visible(False)


def _heat_map(found: ValueEstimate, ax: Axes, dims: tuple[int, int]) -> None:
    seen = as_vectors(found.trajectory.observations)[:, dims]
    edges = [_edges(column) for column in seen.T]
    centres = [(edge[1:] + edge[:-1]) / 2 for edge in edges]
    across, up = np.meshgrid(*centres)
    values = found.values(_slice(found, {dims[0]: across.ravel(), dims[1]: up.ravel()})).reshape(across.shape)
    visits = np.histogram2d(seen[:, 0], seen[:, 1], bins=edges)[0].T
    visited = binary_dilation(visits > 0, iterations=2)  # the neighbours of a state that was seen are known too
    ax.set_facecolor(UNVISITED)
    mesh = ax.pcolormesh(*edges, np.ma.masked_array(values, ~visited), cmap="viridis", rasterized=True)
    ax.figure.colorbar(mesh, ax=ax, label="value")
    ax.plot([], [], "s", color=UNVISITED, label="not visited")
    ax.legend(loc="upper left", bbox_to_anchor=(0, -0.12), frameon=False, fontsize="small", handletextpad=0.2)


def _edges(column: NDArray[np.float64]) -> NDArray[np.float64]:
    low, high = float(column.min()), float(column.max())
    spare = 0.02 * (high - low) or 0.5
    return np.linspace(low - spare, high + spare, CELLS + 1)


def _slice(found: ValueEstimate, moving: dict[int, NDArray[np.float64]]) -> Array:
    """Observations with some numbers moving and the rest at their median in the record."""
    space = found.features.space
    middle = np.median(as_vectors(found.trajectory.observations), axis=0)
    rows = np.tile(middle, (len(next(iter(moving.values()))), 1))
    for dim, values in moving.items():
        rows[:, dim] = values
    if sizes_of(space) is not None:
        rows = np.round(rows).astype(np.int64)
    return rows.reshape(len(rows), *space.shape)


def _as_dims(dims: Any, width: int) -> tuple[int, ...]:
    if dims is None:
        if width > 2:
            raise InputError(
                f"an observation has {width} numbers, and a picture shows two: plot(dims=(0, 1)) draws over those "
                "two, with the others at their median"
            )
        return tuple(range(width))
    chosen = tuple(dims) if isinstance(dims, Sequence) else (dims,)
    fine = all(isinstance(dim, int | np.integer) and 0 <= dim < width for dim in chosen)
    if not fine or len(chosen) not in (1, 2) or len(set(chosen)) < len(chosen):
        raise InputError(f"dims must be one or two different whole numbers from 0 to {width - 1}, not {dims!r}")
    return tuple(int(dim) for dim in chosen)


def _as_names(names: Any, chosen: tuple[int, ...], width: int) -> list[str]:
    if names is None:
        return ["observation" if width == 1 else f"observation[{dim}]" for dim in chosen]
    given = [names] if isinstance(names, str) else list(names)
    if len(given) == width:
        return [str(given[dim]) for dim in chosen]
    if len(given) == len(chosen):
        return [str(name) for name in given]
    raise InputError(f"names must have a name for each of the {width} numbers of an observation, not {names!r}")
