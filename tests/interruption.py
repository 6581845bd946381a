"""Ctrl-C at a given place."""

from __future__ import annotations


def interrupting(loop, at):
    """The function or method, with Ctrl-C as it comes back for the at-th time."""
    calls = []

    def interrupted(*arguments):
        loop(*arguments)
        calls.append(None)
        if len(calls) == at:
            raise KeyboardInterrupt

    return interrupted
