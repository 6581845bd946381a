"""The paper's numerical section again: every figure, every claim."""

from multireplay.reproduce.bounds import Bounds
from multireplay.reproduce.figures import FIGURES
from multireplay.reproduce.following import Following
from multireplay.reproduce.runner import Experiment, reproduce, total_cost
from multireplay.reproduce.verdicts import write_claims

EXPERIMENTS: dict[str, Experiment] = {**FIGURES, "tracking": Following(), "theory": Bounds()}

__all__ = ["EXPERIMENTS", "Experiment", "reproduce", "total_cost", "write_claims"]
