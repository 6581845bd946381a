"""Problems: what is solved. Each names the columns it reads and evaluates its operator on one sample."""

from multireplay.problems.base import Problem
from multireplay.problems.glm import GLM
from multireplay.problems.multinomial import Multinomial
from multireplay.problems.policy_evaluation import PolicyEvaluation
from multireplay.problems.variational_inequality import VariationalInequality

__all__ = ["GLM", "Multinomial", "PolicyEvaluation", "Problem", "VariationalInequality"]
