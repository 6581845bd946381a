"""How dependent a record is: autocorrelation times, effective sample sizes, and what they cost."""

from __future__ import annotations

from multireplay.diagnose.autocorrelation import integrated_autocorrelation_time
from multireplay.diagnose.diagnosis import ColumnDiagnosis, Diagnosis
from multireplay.diagnose.examine import diagnose

__all__ = ["ColumnDiagnosis", "Diagnosis", "diagnose", "integrated_autocorrelation_time"]
