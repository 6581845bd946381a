"""How the record moves the iterate: one file an update."""

from multireplay.updates.base import Found, Needs, Unsuitable, Update
from multireplay.updates.exact import Exact
from multireplay.updates.newton import Newton
from multireplay.updates.plain import Plain
from multireplay.updates.richardson_romberg import RichardsonRomberg
from multireplay.updates.variance_reduced import VarianceReduced

__all__ = [
    "Exact", "Found", "Needs", "Newton", "Plain", "RichardsonRomberg", "Unsuitable", "Update", "VarianceReduced",
]  # fmt: skip
