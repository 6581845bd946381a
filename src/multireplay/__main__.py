"""The command line from its first moment on: Ctrl-C ends it with 130 and no traceback, also while modules come in."""

import os
import signal
import sys
import threading
from typing import Any

INTERRUPTED = 130


class Interruption:
    """What Ctrl-C does, and whether it was pressed: a module that it has stopped while it came in may say anything."""

    seen = False

    def __call__(self, number: int, frame: Any) -> None:
        self.seen = True
        raise KeyboardInterrupt


def main() -> None:
    """Run the command in ``sys.argv``."""
    stop = Interruption()
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # so that what is half-written goes
    sys.unraisablehook = _again
    try:
        from multireplay.cli import app

        app(prog_name="multireplay")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except Exception:
        if not stop.seen:
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
