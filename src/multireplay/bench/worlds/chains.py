"""Policy evaluation on finite chains, whose projected Bellman equation is solved exactly."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from multireplay._check import Vector
from multireplay.bench.world import LENGTHS, Listing, World, simulated_world
from multireplay.simulate import MarkovRewardProcess, paper_mrp


def chain_world(process: MarkovRewardProcess, length: int) -> World:
    """Records of a finite Markov reward process."""
    weighted = process.features.T * process.stationary
    jacobian = weighted @ (process.features - process.gamma * process.transitions @ process.features)
    time = relaxation_time(process.transitions) + 0.5  # a transition shares a state with the next one
    return simulated_world(process, length, np.asarray(jacobian), time)


def relaxation_time(transitions: Vector) -> float:
    """−1/log|λ₂| of the chain's second largest eigenvalue modulus; 0 for an independent chain."""
    second = float(np.sort(np.abs(np.linalg.eigvals(transitions)))[-2]) if len(transitions) > 1 else 0.0
    return -1 / np.log(second) if second > 1e-12 else 0.0


def misspecified(m: float) -> MarkovRewardProcess:
    """The paper's chain with 4 Gaussian features and Gaussian rewards: the value function is far from their span."""
    chain = paper_mrp(m)
    rng = np.random.default_rng(2024)
    states = len(chain.rewards)
    features = rng.standard_normal((states, 4))
    return MarkovRewardProcess(chain.transitions, features, rng.standard_normal(states), 0.8)


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


def random_mdp(features: int) -> MarkovRewardProcess:
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
    return MarkovRewardProcess(transitions, psi, (policy * rewards).sum(axis=1), 0.95)


def walk() -> MarkovRewardProcess:
    """A reflecting random walk on 50 places with 10 radial features; reward is the place, from 0 to 1, γ = .95."""
    places = 50
    transitions = np.zeros((places, places))
    for place in range(places):
        transitions[place, max(0, place - 1)] += 0.5
        transitions[place, min(places - 1, place + 1)] += 0.5
    centers = np.linspace(0, places - 1, 10)
    width = centers[1]
    psi = np.exp(-((np.arange(places)[:, None] - centers) ** 2) / (2 * width**2))
    return MarkovRewardProcess(transitions, psi, np.linspace(0, 1, places), 0.95)


def _listed(name: str, suite: str, process: Callable[[], MarkovRewardProcess], seconds: float = 0.8) -> Listing:
    return Listing(name, suite, lambda size, cache: chain_world(process(), LENGTHS[size]), seconds)


WORLDS = (
    *(_listed(f"paper MRP m={m:g}", "paper", partial(paper_mrp, m)) for m in (0.5, 0.9, 0.95, 0.99)),
    _listed("Boyan chain", "classic", boyan_chain),
    _listed("random MDP, 20 features", "classic", partial(random_mdp, 20), 2.0),
    _listed("reflecting walk, RBF", "classic", walk),
    *(_listed(f"misspecified m={m:g}", "hard", partial(misspecified, m)) for m in (0.9, 0.99)),
    _listed("random MDP, 200 features", "hard", partial(random_mdp, 200), 12.0),
)
