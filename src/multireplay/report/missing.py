"""Why something is not on the page."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Missing:
    """Stands where a value would be, with a sentence on why it is not there and how to have it."""

    reason: str
