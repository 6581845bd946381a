"""Sums elsewhere: on a Dask cluster or any pool of processes, with the same bits as here."""

from multireplay.spread.record import SpreadRecord, spread_over
from multireplay.spread.workers import Workers, as_workers

__all__ = ["SpreadRecord", "Workers", "as_workers", "spread_over"]
