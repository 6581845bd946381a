"""Compiled loops are cached by the sources that have any: Numba would miss a change in a function they call."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from hypothesis import settings

ROOT = Path(__file__).parent
SOURCES = [path.read_bytes() for path in sorted((ROOT / "src").rglob("*.py"))]
COMPILED = [text for text in SOURCES if b"numba" in text or b"_jit" in text or b"overload" in text]
digest = hashlib.sha256(b"".join(COMPILED)).hexdigest()[:16]
os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".numba_cache" / digest))
os.environ.setdefault("MPLBACKEND", "Agg")

settings.register_profile("patient", deadline=None)  # the first example of a test may have to compile a loop
settings.load_profile("patient")
