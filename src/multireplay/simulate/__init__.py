"""Worlds with known answers: dependent records to learn from, independent ones to compare with."""

from multireplay.simulate.autoregressive import AutoregressiveLogistic
from multireplay.simulate.markov_reward_process import MarkovRewardProcess, paper_mrp
from multireplay.simulate.simplex_game import SimplexGame

__all__ = ["AutoregressiveLogistic", "MarkovRewardProcess", "SimplexGame", "paper_mrp"]
