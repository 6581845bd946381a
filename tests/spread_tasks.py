"""Pools for tests of sums elsewhere: one that sends every task through pickle, and tasks that kill their own worker."""

from __future__ import annotations

import os
import pickle
import random
import signal
import threading
from concurrent.futures import Executor, Future
from pathlib import Path


class Posted(Executor):
    """Does everything here, but as if it had been sent; knows what was sent, and how many bytes came and went."""

    def __init__(self, workers=2):
        self._max_workers, self.sent, self.bytes = workers, [], [0, 0]

    def submit(self, function, task):
        future, packed = Future(), pickle.dumps((function, task))
        self.sent.append(task)
        try:
            function, task = pickle.loads(packed)
            found = pickle.dumps(function(task))
        except BaseException as error:
            future.set_exception(error)
            return future
        self.bytes[0] += len(packed)
        self.bytes[1] += len(found)
        future.set_result(pickle.loads(found))
        return future


class Deadly:
    """A task whose worker is killed while it is at it, at a random moment; the second time it is done."""

    def __init__(self, task, mark, within=0.02):
        self.task, self.mark, self.within = task, str(mark), within

    def __call__(self):
        try:
            Path(self.mark).touch(exist_ok=False)
        except FileExistsError:
            return self.task()
        after = random.uniform(0, self.within)
        threading.Timer(after, os.kill, (os.getpid(), signal.SIGKILL)).start()
        while True:
            self.task()


def kind_of(task):
    """What a task is: taking rows, or which sum."""
    return type(getattr(task, "block_sum", task)).__name__
