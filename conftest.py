"""How all tests run: compiled loops are cached beside the sources, plots need no screen, first examples may be slow."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from hypothesis import settings

os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(__file__).parent / ".numba_cache"))
os.environ.setdefault("MPLBACKEND", "Agg")

settings.register_profile("patient", deadline=None)  # the first example of a test may have to compile a loop
settings.load_profile("patient")

if importlib.util.find_spec("torchrl") is None:  # its doctests need it
    collect_ignore_glob = ["src/multireplay/torchrl/*"]
