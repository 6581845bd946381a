"""Positions of every replay scheme."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import bit_reversed

import multireplay as mr
from multireplay.replay.base import BLOCK
from multireplay.replay.multiscale import scale

LENGTHS = st.integers(1, 5000)
ONE_PASS = [mr.Serial(), mr.Dyadic(), mr.Shuffle(3)]
ALL = [*ONE_PASS, mr.Uniform(3), mr.Skip(1), mr.Reverse(7, 2), mr.Multiscale()]


@given(length=st.integers(2, 5000), scheme=st.sampled_from(ALL))
def test_positions_are_in_range_and_as_many_as_planned(length, scheme):
    for epoch in scheme.plan(length):
        positions = epoch.positions
        assert len(positions) == epoch.length
        assert positions.min() >= 1
        assert positions.max() <= length
        assert positions.dtype == np.int64


@given(length=LENGTHS, scheme=st.sampled_from(ONE_PASS))
def test_one_pass_schemes_use_every_sample_once(length, scheme):
    (epoch,) = scheme.plan(length)
    assert np.array_equal(np.sort(epoch.positions), np.arange(1, length + 1))


@given(length=st.integers(2, 5000))
def test_multiscale_positions(length):
    plan = mr.Multiscale().plan(length)
    assert [epoch.k for epoch in plan] == list(range(1, math.floor(math.log2(length)) + 1))
    for epoch in plan:
        steps = range(1, 2**epoch.k + 1)
        assert epoch.positions.tolist() == [(t * length) // 2**epoch.k for t in steps]
        assert epoch.gap == length / 2**epoch.k
        assert len(set(epoch.positions.tolist())) == epoch.length
        if length % 2**epoch.k == 0:  # the paper's own case
            gap = length // 2**epoch.k
            assert epoch.positions.tolist() == [t * gap for t in steps]


@given(length=st.integers(2, 5000))
def test_dyadic_prefixes_are_the_epochs_of_multiscale(length):
    order = mr.Dyadic().plan(length)[0].positions
    for epoch in mr.Multiscale().plan(length):
        assert set(order[: epoch.length].tolist()) == set(epoch.positions.tolist())


@pytest.mark.parametrize("bits", range(1, 11))
def test_dyadic_is_bit_reversal_on_powers_of_two(bits):
    order = mr.Dyadic().plan(2**bits)[0].positions
    assert order.tolist() == [i or 2**bits for i in bit_reversed(bits)]


@given(length=st.integers(2, 3000))
def test_dyadic_prefixes_are_spread_out(length):
    order = mr.Dyadic().plan(length)[0].positions
    for k in range(1, length.bit_length()):
        prefix = np.sort(order[: 2**k])
        assert np.diff(prefix).min() >= length // 2**k


@given(length=LENGTHS, gap=st.integers(1, 5000))
def test_skip(length, gap):
    if gap > length:
        with pytest.raises(mr.InputError, match=f"gap {gap} is larger than the buffer of {length}"):
            mr.Skip(gap).plan(length)
    else:
        (epoch,) = mr.Skip(gap).plan(length)
        assert epoch.positions.tolist() == list(range(gap, length + 1, gap))
        assert epoch.gap == gap


@given(length=LENGTHS, block=st.integers(1, 60), gap=st.integers(0, 20))
def test_reverse_against_slices(length, block, gap):
    if gap > length:
        return
    record = list(range(1, length + 1))
    expected = []
    for start in range(0, length, block + gap):
        expected += record[start : start + block][::-1]
    (epoch,) = mr.Reverse(block, gap).plan(length)
    assert epoch.positions.tolist() == expected


@given(length=LENGTHS, seed=st.integers(0, 2**32))
def test_random_schemes_repeat_with_their_seed(length, seed):
    for scheme in (mr.Uniform, mr.Shuffle):
        assert np.array_equal(scheme(seed).plan(length)[0].positions, scheme(seed).plan(length)[0].positions)


def test_random_schemes_differ_between_seeds_and_cover():
    assert not np.array_equal(mr.Uniform(0).plan(1000)[0].positions, mr.Uniform(1).plan(1000)[0].positions)
    assert not np.array_equal(mr.Shuffle(0).plan(1000)[0].positions, mr.Shuffle(1).plan(1000)[0].positions)
    counts = np.bincount(mr.Uniform(0).plan(10**6)[0].positions - 1, minlength=10**6)
    assert abs((counts == 0).mean() - np.exp(-1)) < 0.005  # draws with replacement leave out a share of 1/e


@pytest.mark.parametrize("scheme", ALL, ids=repr)
@settings(deadline=None)
@given(size=st.integers(1, 300))
def test_blocks_do_not_depend_on_their_size(scheme, size):
    for epoch in scheme.plan(1000):
        assert np.array_equal(np.concatenate(list(epoch.blocks(size))), epoch.positions)


def test_a_plan_is_lazy_and_exact_for_huge_buffers():
    length = 2**46 - 12345
    epoch = scale(45, length)
    for first in (0, 2**44 + 17, 2**45 - BLOCK):
        found = epoch.block(first, BLOCK)
        expected = [(t * length) // 2**45 for t in range(first + 1, first + BLOCK + 1)]
        assert found.tolist() == expected


def test_too_long_is_refused():
    with pytest.raises(mr.InputError, match="more than the"):
        mr.Serial().plan(2**46 + 1)
    with pytest.raises(mr.InputError, match=r"at most 2\^31"):
        mr.Dyadic().plan(2**40)


@pytest.mark.parametrize("scheme", ALL, ids=repr)
def test_pickle_and_compare(scheme):
    assert pickle.loads(pickle.dumps(scheme)) == scheme


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mr.Skip(0), "gap must be a whole number of at least 1, not 0"),
        (lambda: mr.Skip(2.5), "gap must be a whole number of at least 1, not 2.5"),
        (lambda: mr.Skip(True), "gap must be a whole number"),
        (lambda: mr.Skip(None), "gap must be a whole number of at least 1, not None"),
        (lambda: mr.Multiscale(epochs=0), "epochs must be a whole number of at least 1"),
        (lambda: mr.Multiscale(epochs=9).plan(100), "a buffer of 100 samples has at most 6 epochs"),
        (lambda: mr.Multiscale().plan(1), "at least 2 samples"),
        (lambda: mr.Uniform(-1), "seed must be a whole number of at least 0"),
        (lambda: mr.Reverse(0), "block must be"),
        (lambda: mr.Reverse(4, gap=11).plan(10), "gap 11 is larger than the buffer of 10"),
        (lambda: mr.Serial().plan(0), "the number of samples must be a whole number of at least 1, not 0"),
        (lambda: mr.Dyadic().plan(8.5), "the number of samples must be a whole number"),
        (lambda: mr.Multiscale(phases=0), "phases must be a whole number of at least 1"),
    ],
)
def test_errors(make, message):
    with pytest.raises(mr.InputError, match=message):
        make()


@given(length=st.integers(2, 3000), phases=st.one_of(st.integers(1, 40), st.just("all")), sweep=st.booleans())
def test_phases_use_the_samples_they_say(length, phases, sweep):
    for epoch in mr.Multiscale(phases=phases, sweep=sweep).plan(length):
        gap = length // 2**epoch.k
        count = gap if phases == "all" else min(phases, gap)
        positions = epoch.positions
        assert epoch.steps == count * 2**epoch.k == len(positions)
        assert epoch.chains == (1 if sweep else count)
        assert len(set(positions.tolist())) == len(positions)
        assert positions.min() >= 1
        assert positions.max() == length
        by_chain = positions.reshape(count, 2**epoch.k)
        offsets = by_chain[0] - by_chain
        assert (offsets == [[j * gap // count] for j in range(count)]).all()
        if phases == "all" and length % 2**epoch.k == 0:
            assert len(positions) == length


@given(length=st.integers(1, 5000), gap=st.integers(1, 5000))
def test_interleaved_positions(length, gap):
    gap = min(gap, length)
    (epoch,) = mr.Interleaved(gap).plan(length)
    positions = epoch.positions.reshape(gap, length // gap)
    assert positions.min() >= 1
    assert positions.max() == length
    assert len(np.unique(positions)) == positions.size > length - 2 * gap
    assert (np.diff(positions, axis=1) >= gap).all()


@given(length=st.integers(1, 2**20))
def test_interleaved_default_gap(length):
    (epoch,) = mr.Interleaved().plan(length)
    assert 1 <= epoch.chains <= min(length, 1024)
    if length >= 2**18:
        assert 2**12 <= epoch.length <= 2**15


def test_interleaved_bad_gaps():
    with pytest.raises(mr.InputError, match="gap must be a whole number of at least 1"):
        mr.Interleaved(0)
    with pytest.raises(mr.InputError, match="gap 11 is larger than the buffer of 10 samples"):
        mr.Interleaved(11).plan(10)
