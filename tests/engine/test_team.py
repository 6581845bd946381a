"""Work shared among threads."""

from __future__ import annotations

import threading

import pytest

from multireplay.engine.team import Team


@pytest.mark.parametrize("size", [1, 2, 5])
def test_every_part_is_done_once_and_the_first_by_the_caller(size):
    done = []
    with Team(size) as team:
        team.share(lambda low, high: done.append((low, high, threading.current_thread())), range(0, 3 * size + 1, 3))
    assert sorted(part[:2] for part in done) == [(3 * part, 3 * part + 3) for part in range(size)]
    assert next(part[2] for part in done if part[0] == 0) is threading.current_thread()


def test_more_parts_than_threads_where_there_is_one():
    done = []
    with Team(1) as team:
        team.share(lambda low, high: done.append((low, high)), [0, 1, 2])
    assert done == [(0, 1), (1, 2)]


def test_pieces_are_cut_into_shares():
    assert Team(2).cuts(5) == [0, 2, 5]
    assert Team(4).cuts(2) == [0, 1, 2]


def test_fewer_parts_than_threads():
    done = []
    with Team(4) as team:
        team.share(lambda low, high: done.append((low, high)), [0, 7])
    assert done == [(0, 7)]


def test_an_error_in_another_thread_is_raised():
    def fail(low, high):
        if low:
            raise ValueError(f"part {low}")

    with Team(2) as team, pytest.raises(ValueError, match="part 1"):
        team.share(fail, [0, 1, 2])
