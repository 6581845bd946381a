"""Finite Markov reward processes: trajectories, independent draws, and the exact answer."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from multireplay._check import Positions, Vector, number_in, whole_number
from multireplay._jit import jit
from multireplay.buffer.buffer import Buffer
from multireplay.errors import InputError
from multireplay.problems import PolicyEvaluation
from multireplay.theory.chain import ExactConstants, exact_constants, finite_array, stationary_law, transition_matrix


class MarkovRewardProcess:
    """A finite chain with transition matrix P, features Ψ (a row a state), rewards r(s) and discount γ.

    Parameters
    ----------
    transitions, features, rewards : arrays of shape (S, S), (S, d) and (S,)
        P, whose rows sum to 1, ψ(s) and r(s).
    gamma : float
        Discount factor in [0, 1).

    Attributes
    ----------
    problem, solution
        What to solve from its buffers, and θ̄, what that converges to on an endless record.

    Examples
    --------
    >>> import numpy as np
    >>> from multireplay import simulate
    >>> P = np.array([[0.9, 0.1], [0.3, 0.7]])
    >>> process = simulate.MarkovRewardProcess(P, np.eye(2), [1.0, 0.0], gamma=0.5)
    >>> process.solution.round(4)
    array([1.8571, 0.4286])
    >>> process.buffer(length=1000, seed=0)
    Buffer(1000 rows: features (1000, 2) float64, next_features (1000, 2) float64, rewards (1000,) float64)
    """

    def __init__(self, transitions: Any, features: Any, rewards: Any, gamma: float) -> None:
        self.transitions = transition_matrix("transitions", transitions)
        self.features = finite_array("features", features, 2)
        self.rewards = finite_array("rewards", rewards, 1)
        for name, array in (("features", self.features), ("rewards", self.rewards)):
            if len(array) != len(self.transitions):
                raise InputError(f"{name} has {len(array)} rows, but the chain has {len(self.transitions)} states")
        self.gamma = number_in("gamma", gamma, 0, 1)  # a chain that goes on for ever has no value at 1
        self.problem = PolicyEvaluation(self.gamma)
        self._cumulative = np.cumsum(self.transitions, axis=1)
        self._cumulative[:, -1] = 1.0

    @cached_property
    def stationary(self) -> Vector:
        """The stationary law π."""
        return stationary_law(self.transitions)

    @cached_property
    def weight(self) -> Vector:
        """Q = Ψᵀ Π Ψ, the matrix of the norm ‖Ψθ‖_Π."""
        return np.asarray((self.features * self.stationary[:, None]).T @ self.features)

    @cached_property
    def solution(self) -> Vector:
        """θ̄, the solution of the projected Bellman equation (Eq. projected_bellman_matrix)."""
        weighted = self.features.T * self.stationary
        expected_next = self.transitions @ self.features
        matrix = weighted @ (self.features - self.gamma * expected_next)
        return np.asarray(np.linalg.solve(matrix, weighted @ self.rewards), dtype=np.float64)

    @cached_property
    def exact(self) -> ExactConstants:
        """The constants of Theorem 1, computed from the chain itself."""
        return exact_constants(self.transitions, self.features, self.rewards, self.gamma)

    def states(self, length: int, seed: Any) -> Positions:
        """A trajectory s_1, …, s_length started from the stationary law."""
        length = whole_number("length", length, least=1)
        rng = np.random.default_rng(seed)
        first = rng.choice(len(self.stationary), p=self.stationary)
        return _walk(self._cumulative, first, rng.random(length - 1))

    def buffer(self, length: int, seed: Any) -> Buffer:
        """`length` consecutive transitions of one trajectory."""
        states = self.states(whole_number("length", length, least=1) + 1, seed)
        return self._buffer(states[:-1], states[1:])

    def independent_buffer(self, length: int, seed: Any) -> Buffer:
        """`length` independent transitions with s from the stationary law: what no one has, for comparison."""
        length = whole_number("length", length, least=1)
        rng = np.random.default_rng(seed)
        states = rng.choice(len(self.stationary), size=length, p=self.stationary)
        return self._buffer(states, _jump(self._cumulative, states, rng.random(length)))

    def _buffer(self, states: Positions, successors: Positions) -> Buffer:
        features = self.features
        return Buffer(features=features[states], next_features=features[successors], rewards=self.rewards[states])

    def __repr__(self) -> str:
        states, dim = self.features.shape
        return f"MarkovRewardProcess({states} states, {dim} features, gamma={self.gamma:g})"


@jit
def _walk(cumulative: Vector, first: int, uniforms: Vector) -> Positions:
    states = np.empty(len(uniforms) + 1, dtype=np.int64)
    states[0] = first
    for t in range(len(uniforms)):
        states[t + 1] = np.searchsorted(cumulative[states[t]], uniforms[t], side="right")
    return states


@jit
def _jump(cumulative: Vector, states: Positions, uniforms: Vector) -> Positions:
    successors = np.empty_like(states)
    for t in range(len(states)):
        successors[t] = np.searchsorted(cumulative[states[t]], uniforms[t], side="right")
    return successors


def paper_mrp(m: float, states: int = 30, dim: int = 16, gamma: float = 0.8) -> MarkovRewardProcess:
    """The Markov reward process of the paper's numerical section.

    The chain stays with probability (2m − 1)/m and otherwise goes to any other state alike, so that the stationary
    law is uniform and the mixing time of order m/(1 − m). Features are ψ(s) = e_{min(s, d)}, rewards r(s) = 1 for s ≥
    d, with states counted from 1.

    Parameters
    ----------
    m : float
        In [1/2, 1): larger is slower.
    states, dim, gamma
        |S|, d and γ; the paper's values by default.

    Examples
    --------
    >>> from multireplay import simulate
    >>> process = simulate.paper_mrp(m=0.9)
    >>> process.solution[[0, -1]].round(3)
    array([0.787, 4.213])
    """
    m = number_in("m", m, 0.5, 1)
    states = whole_number("states", states, least=2)
    dim = whole_number("dim", dim, least=1)
    if dim > states:
        raise InputError(f"dim must be at most the number of states, {states}, not {dim}")
    stay, leave = (2 * m - 1) / m, (1 - m) / ((states - 1) * m)
    transitions = np.full((states, states), leave)
    np.fill_diagonal(transitions, stay)
    features = np.zeros((states, dim))
    features[np.arange(states), np.minimum(np.arange(states), dim - 1)] = 1.0
    rewards = (np.arange(1, states + 1) >= dim).astype(np.float64)
    return MarkovRewardProcess(transitions, features, rewards, gamma)
