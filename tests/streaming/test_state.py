"""A state says of which problem it is, and another one is refused."""

from __future__ import annotations

import numpy as np
import pytest

import multireplay as mr
from multireplay.errors import InputError


class Own(mr.GLM):
    """A problem of one's own."""


def problems():
    boxes = [mr.sets.Box(np.zeros(2), np.full(2, end)) for end in (1.0, 2.0)]
    found = [mr.GLM(), mr.GLM(ridge=1), mr.GLM("logistic"), mr.PolicyEvaluation(0.5), mr.PolicyEvaluation(0.9)]
    return [*found, *(mr.GLM(constraint=box) for box in boxes), mr.PolicyEvaluation(0.5, table=np.eye(3)), Own()]


@pytest.mark.parametrize("number", range(9))
def test_a_state_is_of_one_problem(number):
    state = mr.Stream(problems()[number]).state()
    for other, problem in enumerate(problems()):
        if other == number:
            assert mr.Stream.from_state(problem, state).position == 0
            continue
        with pytest.raises(InputError, match="this state is of a"):
            mr.Stream.from_state(problem, state)


def test_a_state_that_is_none():
    state = mr.Stream(mr.GLM()).state()
    for strange in ({}, None, [], {"format": state["format"]}, {k: v for k, v in state.items() if k != "held"}):
        with pytest.raises(InputError, match=r"this is no (whole )?state of a stream"):
            mr.Stream.from_state(mr.GLM(), strange)
    with pytest.raises(InputError, match="ridge was 0"):
        mr.Stream.from_state(mr.GLM(ridge=2), state)
