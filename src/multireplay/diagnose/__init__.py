"""How dependent a record is: autocorrelation times, effective sample sizes, and what they cost."""

from __future__ import annotations

from multireplay.diagnose.autocorrelation import integrated_autocorrelation_time
from multireplay.diagnose.examine import diagnose
from multireplay.diagnose.report import ColumnDiagnosis, Diagnosis

__all__ = ["ColumnDiagnosis", "Diagnosis", "diagnose", "integrated_autocorrelation_time"]
