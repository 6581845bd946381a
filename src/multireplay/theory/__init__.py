"""The paper's theory as functions: constants, step sizes, theorems and corollaries, with their known faults.

One function per statement, the statement's label in its docstring. Where a printed statement is faulty, every
function gives the form that holds, and with ``printed=True`` the paper's own; the docstring says what differs.
"""

from __future__ import annotations

from .bounds import (
    Bound,
    ComplexityOrder,
    Iterations,
    complexity_order,
    iterations_for,
    provable_share,
    step_is_covered,
    theorem_1,
)
from .chain import ExactConstants, exact_constants, stationary_law
from .constants import Constants
from .glm import corollary_1, corollary_2, glm_constants
from .policy_evaluation import D_theta, corollary_3, corollary_4, policy_evaluation_constants
from .tracking import beta_for, max_step, theorem_2

__all__ = [
    "Bound", "ComplexityOrder", "Constants", "D_theta", "ExactConstants", "Iterations", "beta_for", "complexity_order",
    "corollary_1", "corollary_2", "corollary_3", "corollary_4", "exact_constants", "glm_constants", "iterations_for",
    "max_step", "policy_evaluation_constants", "provable_share", "stationary_law", "step_is_covered", "theorem_1",
    "theorem_2",
]  # fmt: skip
