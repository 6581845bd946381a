"""How all tests run: compiled loops are cached beside the sources, plots need no screen, first examples may be slow."""

from __future__ import annotations

import importlib.util
import os
import signal
import threading
from pathlib import Path

from hypothesis import settings

os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(__file__).parent / ".numba_cache"))
os.environ.setdefault("MPLBACKEND", "Agg")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it in the background, where tests send it

settings.register_profile("patient", deadline=None)  # the first example of a test may have to compile a loop
settings.load_profile("patient")

if importlib.util.find_spec("torchrl") is None:  # its doctests need it
    collect_ignore_glob = ["src/multireplay/torchrl/*"]
