"""--on and --workers: who does the work of a command."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from multireplay.errors import InputError

On = Annotated[
    str | None,
    typer.Option(
        help="Read and work on the Dask cluster with this scheduler, such as tcp://10.0.0.1:8786. It is trusted with "
        "the data, and its workers need multireplay and the same path."
    ),
]
LocalWorkers = Annotated[
    int | None,
    typer.Option(
        "--workers", min=1, help="Read and work in so many processes on this machine, a Dask cluster for the while."
    ),
]
NO_DASK = "--on and --workers need Dask: pip install 'multireplay[dask]'"
SECONDS = 10
"""That a scheduler may take to answer."""
QUIET = 50
"""The level of what Dask logs that is not a person's business: all of it."""


@contextmanager
def mute() -> Iterator[None]:
    """Processes that are started meanwhile never write to the terminal.

    Ctrl-C reaches all processes there, and workers would print where they were: this process says that it has ended.
    """
    before, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
        os.close(nowhere)


@contextmanager
def workers_of(on: str | None, workers: int | None) -> Iterator[Any]:
    """A client of the cluster at an address, or of one of so many processes here; None where neither is asked for."""
    if on is None and workers is None:
        yield None
        return
    if on is not None and workers is not None:
        raise InputError("give --on or --workers, not both")
    try:
        from distributed import Client, LocalCluster
        from distributed.deploy.spec import close_clusters
    except ImportError:
        raise InputError(NO_DASK) from None
    if on is None:
        here = {"dashboard_address": ":0", "host": "127.0.0.1", "silence_logs": QUIET}
        with ExitStack() as stack:
            with mute():
                try:
                    cluster = stack.enter_context(LocalCluster(n_workers=workers, threads_per_worker=1, **here))
                except KeyboardInterrupt:
                    atexit.unregister(close_clusters)  # which would complain of one that is half started
                    raise
            yield stack.enter_context(Client(cluster))
        return
    try:
        client = Client(on, timeout=SECONDS)
    except (OSError, TimeoutError, ValueError) as error:
        raise InputError(f"there is no Dask scheduler at {on}: {error}") from None
    with client:
        yield client


def new_folder(out: Path | None) -> Path:
    """Where predictions in parts go, which must not be there."""
    if out is None:
        raise InputError("--on and --workers write predictions to a folder: give its name with --out")
    if out.exists():
        raise InputError(f"--out {out} is there already: give the name of a new folder")
    return out
