"""The bench: algorithms for dependent records compared, the paper's numerical section again, and a demonstration."""

from multireplay.bench.comparison import compare
from multireplay.bench.reproduction import EXPERIMENTS, reproduce, write_claims
from multireplay.bench.runner import Experiment
from multireplay.bench.worlds import SUITES

__all__ = ["EXPERIMENTS", "SUITES", "Experiment", "compare", "reproduce", "write_claims"]
