"""Linear algebra on one thread: the tests run one process a core, and threads that wait for one another take longer."""

from __future__ import annotations

import os

for library in ("OPENBLAS", "MKL", "OMP"):  # read as the library is loaded, here and in the processes of tests
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")
