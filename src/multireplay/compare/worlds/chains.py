"""Policy evaluation on finite chains, whose projected Bellman equation is solved exactly."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from multireplay._check import Vector
from multireplay.compare.worlds.base import LENGTHS, Entry, World, fit
from multireplay.reproduce.worlds import Size
from multireplay.simulate import MarkovRewardProcess, paper_mrp


def chain_world(process: MarkovRewardProcess, size: Size) -> World:
    """Records of a finite Markov reward process."""
    weighted = process.features.T * process.stationary
    jacobian = weighted @ (process.features - process.gamma * process.transitions @ process.features)
    return World(
        problem=process.problem,
        record=partial(process.buffer, LENGTHS[size]),
        solution=process.solution,
        weight=process.weight,
        jacobian=np.asarray(jacobian),
        time=relaxation_time(process.transitions) + 0.5,  # a transition shares a state with the next one
        exact=fit(process.problem),
    )


def relaxation_time(transitions: Vector) -> float:
    """−1/log|λ₂| of the chain's second largest eigenvalue modulus; 0 for an independent chain."""
    second = float(np.sort(np.abs(np.linalg.eigvals(transitions)))[-2]) if len(transitions) > 1 else 0.0
    return -1 / np.log(second) if second > 1e-12 else 0.0


def paper(m: float, size: Size, cache: Path) -> World:
    """The Markov reward process of the paper's numerical section."""
    return chain_world(paper_mrp(m), size)


def misspecified(m: float, size: Size, cache: Path) -> World:
    """The paper's chain with 4 Gaussian features and Gaussian rewards: the value function is far from their span."""
    chain = paper_mrp(m)
    rng = np.random.default_rng(2024)
    states = len(chain.rewards)
    features = rng.standard_normal((states, 4))
    return chain_world(MarkovRewardProcess(chain.transitions, features, rng.standard_normal(states), 0.8), size)


def boyan_features(states: int, dim: int = 4) -> Vector:
    """Features of Boyan's chain: linear interpolation between `dim` corners evenly spaced along the chain.

    With 13 states this is Boyan's own table: (1, 0, 0, 0), (.75, .25, 0, 0), (.5, .5, 0, 0), … from the start of the
    chain, (0, 0, 0, 1) at its end.
    """
    place = np.arange(states) * (dim - 1) / (states - 1)
    return np.asarray(np.maximum(0.0, 1 - np.abs(place[:, None] - np.arange(dim))))


def boyan_chain(states: int = 14, gamma: float = 0.95) -> MarkovRewardProcess:
    """Boyan's chain (2002), made continuing: from its end the chain starts again.

    State 0 is the start. One or two states further with equal chance and reward −3; from the last but one to the
    last with reward −2; from the last back to the start with reward 0.
    """
    last = states - 1
    transitions = np.zeros((states, states))
    for state in range(last - 1):
        transitions[state, state + 1] = transitions[state, state + 2] = 0.5
    transitions[last - 1, last] = transitions[last, 0] = 1.0
    rewards = np.full(states, -3.0)
    rewards[last - 1], rewards[last] = -2.0, 0.0
    return MarkovRewardProcess(transitions, boyan_features(states), rewards, gamma)


def boyan(size: Size, cache: Path) -> World:
    """Boyan's chain with 14 states and 4 features."""
    return chain_world(boyan_chain(), size)


def random_mdp(features: int, size: Size, cache: Path) -> World:
    """400 states and 10 actions under a random policy; uniform random features in [0, 1] plus a constant, γ = .95.

    As in Dann, Neumann and Peters (2014): transition probabilities and policy are uniform random numbers, normalized.
    It mixes at once but is badly conditioned, since all features have a large common mean.
    """
    rng = np.random.default_rng(7)
    states, actions = 400, 10
    moves = rng.random((states, actions, states)) + 1e-5
    moves /= moves.sum(axis=2, keepdims=True)
    policy = rng.random((states, actions)) + 1e-5
    policy /= policy.sum(axis=1, keepdims=True)
    rewards = rng.random((states, actions))
    transitions = np.einsum("sa,sat->st", policy, moves)
    psi = np.hstack([rng.random((states, features)), np.ones((states, 1))])
    return chain_world(MarkovRewardProcess(transitions, psi, (policy * rewards).sum(axis=1), 0.95), size)


def walk(size: Size, cache: Path) -> World:
    """A reflecting random walk on 50 places with 10 radial features; reward is the place, from 0 to 1, γ = .95."""
    places = 50
    transitions = np.zeros((places, places))
    for place in range(places):
        transitions[place, max(0, place - 1)] += 0.5
        transitions[place, min(places - 1, place + 1)] += 0.5
    centers = np.linspace(0, places - 1, 10)
    width = centers[1]
    psi = np.exp(-((np.arange(places)[:, None] - centers) ** 2) / (2 * width**2))
    return chain_world(MarkovRewardProcess(transitions, psi, np.linspace(0, 1, places), 0.95), size)


ENTRIES = (
    *(Entry(f"paper MRP m={m:g}", "paper", partial(paper, m), 0.8) for m in (0.5, 0.9, 0.95, 0.99)),
    Entry("Boyan chain", "classic", boyan, 0.8),
    Entry("random MDP, 20 features", "classic", partial(random_mdp, 20), 2.0),
    Entry("reflecting walk, RBF", "classic", walk, 0.8),
    *(Entry(f"misspecified m={m:g}", "hard", partial(misspecified, m), 0.8) for m in (0.9, 0.99)),
    Entry("random MDP, 200 features", "hard", partial(random_mdp, 200), 12.0),
)
