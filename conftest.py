"""Compiled loops are cached by the contents of the sources: Numba would miss a change in a function they call."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

ROOT = Path(__file__).parent
SOURCES = sorted((ROOT / "src").rglob("*.py"))
digest = hashlib.sha256(b"".join(path.read_bytes() for path in SOURCES)).hexdigest()[:16]
os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".numba_cache" / digest))
os.environ.setdefault("MPLBACKEND", "Agg")
