"""The command line from its first moment on: Ctrl-C ends it with 130 and no traceback, also while modules come in."""

import _signal  # type: ignore[import-not-found]  # both are in Python before it reads a file: the modules below take a moment
import os

_signal.signal(_signal.SIGINT, lambda *_: os._exit(130))  # until there is more to end

import signal  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402
from typing import Any  # noqa: E402

INTERRUPTED, CLOSED = 130, 128 + 13
PATIENCE = 2.0
"""Seconds that a computation which Python cannot stop may go on after it was told to."""


class Interruption:
    """What Ctrl-C does, and when it was seen last: a module that it has stopped while it came in may say anything."""

    seen = 0.0

    def __call__(self, number: int, frame: Any) -> None:
        self.seen = time.monotonic()
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        sys.exit(128 + number)  # so that what is half-written goes

    def watch(self) -> None:
        """Let another thread end the process where this one does not come to it, in a long computation of a library."""
        read, write = os.pipe()
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        threading.Thread(target=self._end, args=(read,), daemon=True).start()

    def _end(self, pipe: int) -> None:
        while number := os.read(pipe, 1):
            told = time.monotonic()
            time.sleep(PATIENCE)
            if self.seen < told - 0.5:
                os._exit(128 + number[0])


def main() -> None:
    """Run the command in ``sys.argv``."""
    stop = Interruption()
    try:
        signal.signal(signal.SIGINT, stop)
        signal.signal(signal.SIGTERM, stop)
        stop.watch()
        sys.unraisablehook = _again
        from multireplay.cli import app

        try:
            app(prog_name="multireplay")
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except (SystemExit, Exception) as end:
        if isinstance(end.__context__ if isinstance(end, SystemExit) else end, BrokenPipeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nobody reads on, as after `| head`
            sys.exit(CLOSED)
        if isinstance(end, SystemExit) or not stop.seen:
            raise
        sys.exit(INTERRUPTED)
    finally:
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))  # what is left is closing down
        exec("")  # Python ends by the signal, not with the code, if Ctrl-C has ended the last text that was executed


def _again(found: Any) -> None:
    """Ctrl-C where Python cannot stop, as while an object is being deleted: a moment later it comes once more."""
    if isinstance(found.exc_value, KeyboardInterrupt):
        threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT)).start()
    else:
        sys.__unraisablehook__(found)


if __name__ == "__main__":
    main()
