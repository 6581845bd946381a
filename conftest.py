"""Compiled loops are cached by the contents of the sources that have any: Numba misses a change in what they call."""

from __future__ import annotations

import hashlib
import importlib.util
import os
from pathlib import Path

ROOT = Path(__file__).parent
SOURCES = [path.read_bytes() for path in sorted((ROOT / "src").rglob("*.py"))]
COMPILED = [text for text in SOURCES if b"numba" in text or b"_jit" in text or b"overload" in text]
digest = hashlib.sha256(b"".join(COMPILED)).hexdigest()[:16]
os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".numba_cache" / digest))
os.environ.setdefault("MPLBACKEND", "Agg")

if importlib.util.find_spec("torchrl") is None:  # its doctests need it
    collect_ignore_glob = ["src/multireplay/torchrl/*"]
