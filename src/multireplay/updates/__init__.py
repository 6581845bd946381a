"""How the record moves the iterate: one file an update."""

from multireplay.updates.base import Newton, Plain, RichardsonRomberg, Update, VarianceReduced

__all__ = ["Newton", "Plain", "RichardsonRomberg", "Update", "VarianceReduced"]
