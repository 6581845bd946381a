"""Who does the work: a Dask client or a pool of processes. Tasks go out, what they give comes back in their order."""

from __future__ import annotations

import concurrent.futures
import os
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import BrokenExecutor, Executor
from contextlib import suppress
from itertools import islice
from pickle import PicklingError
from typing import Any, TypeVar

from multireplay.errors import InputError, WorkersError

T = TypeVar("T")
Task = Callable[[], T]
"""Something that can be sent: all that it needs is in it, and it can be done twice."""

LOOK, PATIENCE = 2.0, 60.0
"""Seconds after which it is asked whether anybody is at work, and that nobody may be."""
AHEAD = 4
"""Tasks that are under way for each worker, done ones that wait for others among them."""


class Workers:
    """An executor of the standard library's kind, whoever made it: processes, threads, loky, MPI; None: this thread."""

    def __init__(self, on: Any) -> None:
        self.on = on

    @property
    def count(self) -> int:
        """How many tasks can be worked on at a time."""
        return int(getattr(self.on, "_max_workers", None) or os.cpu_count() or 1)

    def map(self, tasks: Iterable[Task[T]]) -> Generator[T, None, None]:
        """What each task gives, in their order; those under way are called off when this ends early.

        If nobody takes tasks any more, as when a result is asked for something after its pool was shut down, they are
        done in this thread.
        """
        remaining, waiting = iter(tasks), deque[Any]()
        for task in remaining:
            begun = self._begun(task)
            if begun is None:
                yield perform(task)
                yield from map(perform, remaining)
                return
            waiting.append(begun)
            break
        ahead = max(8, AHEAD * self.count)
        try:
            while True:
                waiting.extend(map(self._submit, islice(remaining, ahead - len(waiting))))
                if not waiting:
                    return
                yield self._result(waiting[0])
                waiting.popleft()
        finally:
            self._call_off(list(waiting))

    def see(self, path: str) -> bool:
        """Whether all workers have this path, as far as that can be asked; else their tasks say so."""
        return True

    def _begun(self, task: Task[T]) -> Any:
        """The first task under way; None if it is not taken."""
        try:
            return None if self.on is None else self._submit(task)
        except BrokenExecutor as error:
            raise self._broken() from error
        except RuntimeError:  # shut down
            return None

    def _submit(self, task: Task[T]) -> Any:
        return self.on.submit(perform, task)

    def _call_off(self, futures: list[Any]) -> None:
        for future in futures:
            future.cancel()

    def _result(self, future: Any) -> Any:
        try:
            return future.result()
        except BrokenExecutor as error:
            raise self._broken() from error
        except concurrent.futures.CancelledError as error:
            raise WorkersError(f"tasks of this run were cancelled: {type(self.on).__name__} was shut down") from error
        except (PicklingError, AttributeError) as error:
            if isinstance(error, AttributeError) and "local object" not in str(error):
                raise
            raise InputError(
                f"{type(self.on).__name__} cannot send the problem to other processes ({error}): write its functions "
                "in a module, or use a Dask client, which can send them"
            ) from error

    def _broken(self) -> WorkersError:
        return WorkersError(
            f"a process of {type(self.on).__name__} died (killed, or out of memory), and with it the pool: make a "
            "new one and repeat the call; checkpoint=... goes on from where it was"
        )


class DaskWorkers(Workers):
    """The workers of a Dask cluster: what a dead one was at is done again by another."""

    @property
    def count(self) -> int:
        return 1 if self.on.status == "closed" else max(1, sum(self._asked().values()))

    def see(self, path: str) -> bool:
        return all(self.on.run(os.path.exists, path).values())

    def _asked(self) -> dict[str, int]:
        try:
            found: dict[str, int] = self.on.nthreads()
        except (OSError, TimeoutError, RuntimeError, ValueError) as error:
            raise self._lost() from error
        return found

    def _begun(self, task: Task[T]) -> Any:
        return None if self.on.status == "closed" else self._submit(task)

    def _submit(self, task: Task[T]) -> Any:
        return self.on.submit(perform, task, pure=False)

    def _call_off(self, futures: list[Any]) -> None:
        if not futures or self.on.status != "running":
            return
        with suppress(OSError, RuntimeError, TimeoutError, ValueError):  # the scheduler is gone, and they with it
            self.on.cancel(futures, force=True, reason="the run of multireplay ended", msg=False)

    def _result(self, future: Any) -> Any:
        from distributed import KilledWorker

        since = None
        while True:
            try:
                return future.result(timeout=LOOK)
            except KilledWorker as error:
                raise WorkersError(
                    "workers died again and again at the same rows, as they do when they are out of memory: give "
                    f"them more, or open the record with less (memory=...). Dask says: {error}"
                ) from error
            except concurrent.futures.CancelledError as error:
                raise self._lost() from error
            except TimeoutError:
                if future.status == "error":  # raised by the task itself
                    raise
            now = time.monotonic()
            since = None if self._asked() else since or now
            if since is not None and now - since > PATIENCE:
                raise WorkersError(f"all workers of the Dask cluster are gone, for {PATIENCE:.0f} seconds by now")

    def _lost(self) -> WorkersError:
        return WorkersError(
            "the Dask scheduler is gone, or was restarted, and with it the tasks of this run: connect another client "
            "and repeat the call; checkpoint=... goes on from where it was"
        )


def as_workers(on: Any) -> Workers:
    """Those of a `dask.distributed.Client` or an `concurrent.futures.Executor`; None: this thread."""
    if on is None:
        return Workers(None)
    if type(on).__module__.partition(".")[0] == "distributed" and hasattr(on, "nthreads"):
        if on.asynchronous:
            raise InputError("on=... needs a Dask client that is not asynchronous: Client(...), outside of async code")
        return DaskWorkers(on)
    if isinstance(on, Executor) or callable(getattr(on, "submit", None)):
        return Workers(on)
    raise InputError(f"on must be a dask.distributed.Client or a concurrent.futures.Executor, not {on!r}")


def perform(task: Task[T]) -> T:
    """What is sent: a function of this package, and a task of it."""
    return task()
