"""What a user's operator does with the arrays it is given and gives back: copied, or found out and refused."""

from __future__ import annotations

import numba
import numpy as np
import pytest

import multireplay as mr

ROWS = 1024
SAMPLES = 5.0 + np.random.default_rng(6).standard_normal((ROWS, 2))
HOWS = [
    {"step": 0.05},
    {"step": 0.05, "replay": mr.Multiscale()},
    {"step": 0.05, "replay": mr.Interleaved(4)},
    {"step": 0.05, "update": mr.VarianceReduced(rounds=2)},
]
OWN = np.zeros(2)


def difference(x, sample):
    return x - sample


def reuses(x, sample):
    np.subtract(x, sample, out=OWN)
    return OWN


def changes_x(x, sample):
    x -= sample
    return x


def changes_x_and_writes(x, sample, out):
    x -= sample
    out[:] = x


def spoils_x(x, sample, out):
    out[:] = x - sample
    x[:] = 1e6


@pytest.mark.parametrize("how", HOWS, ids=lambda how: str(how.get("replay", how.get("update", "default"))))
@pytest.mark.parametrize("operator", [reuses, changes_x, changes_x_and_writes, spoils_x])
def test_a_plain_operator_may_reuse_its_array_or_change_x(operator, how):
    wanted = mr.solve(mr.VariationalInequality(difference, 2), mr.Buffer(samples=SAMPLES), **how)
    found = mr.solve(mr.VariationalInequality(operator, 2), mr.Buffer(samples=SAMPLES), **how)
    for epoch, other in zip(wanted.epochs, found.epochs, strict=True):
        assert np.array_equal(epoch.answer, other.answer)
    assert np.abs(found.x - SAMPLES.mean(axis=0)).max() < 0.6


@pytest.mark.parametrize("operator", [reuses, changes_x, changes_x_and_writes, spoils_x])
def test_the_mean_of_a_plain_operator_leaves_x_alone(operator):
    x = np.array([1.0, 2.0])
    mean = mr.VariationalInequality(operator, 2).mean_operator(x, {"samples": SAMPLES})
    assert np.allclose(mean, x - SAMPLES.mean(axis=0))
    assert x.tolist() == [1.0, 2.0]


def test_a_view_of_x_is_copied():
    found = mr.solve(
        mr.VariationalInequality(lambda x, sample: x[:], 2), mr.Buffer(samples=SAMPLES), step=0.5, x0=[4, 8]
    )
    assert np.abs(found.x).max() < 1e-6


def test_a_sample_cannot_be_changed():
    def spoils(x, sample):
        sample -= 1
        return x - sample

    samples = SAMPLES.copy()
    with pytest.raises(mr.OperatorError, match="the operator changed the sample in place"):
        mr.solve(mr.VariationalInequality(spoils, 2), mr.Buffer(samples=samples), step=0.1)
    assert np.array_equal(samples, SAMPLES)


def test_a_jitted_operator_that_changes_x_or_the_sample_is_refused_before_the_run():
    def shrinks(x, sample, out):  # which changes nothing at 0
        for j in range(2):
            x[j] *= 0.5
            out[j] = x[j] - sample[j]

    def sometimes(x, sample, out):
        for j in range(2):
            out[j] = x[j] - sample[j]
        if sample[0] > 4.0:
            sample[1] = 0.0

    for operator, words in ((shrinks, "changed x in place"), (sometimes, "changed the sample in place")):
        problem = mr.VariationalInequality(numba.njit(operator), 2)
        with pytest.raises(mr.OperatorError, match=words):
            mr.solve(problem, mr.Buffer(samples=SAMPLES.copy()), step=0.1)


@numba.njit
def late(x, sample, out):
    """An operator that changes x on one row in a thousand, which `probe` does not come by."""
    for j in range(2):
        out[j] = x[j] - sample[j]
    if sample[1] > 1e3:
        x[0], x[1] = x[1], x[0]


@pytest.mark.parametrize("how", [{}, {"replay": mr.Serial()}, {"replay": mr.Interleaved(4)}], ids=str)
def test_a_jitted_operator_that_changes_x_late_is_refused(how):
    samples = np.random.default_rng(0).standard_normal((4000, 2))
    samples[1000::1000, 1] = 2e3
    with pytest.raises(mr.OperatorError, match="the operator changed x in place; it must write into out"):
        mr.solve(mr.VariationalInequality(late, 2), mr.Buffer(samples=samples), step=0.1, **how)


def test_iterates_in_single_precision_are_watched_too():
    samples = np.random.default_rng(0).standard_normal((4000, 2)).astype(np.float32)
    problem = mr.VariationalInequality(late, 2)
    mr.solve(problem, mr.Buffer(samples=samples), step=0.1, replay=mr.Serial(), precision="float32")
    samples[1000, 1] = 2e3
    with pytest.raises(mr.OperatorError, match="the operator changed x in place; it must write into out"):
        mr.solve(problem, mr.Buffer(samples=samples), step=0.1, replay=mr.Serial(), precision="float32")


class Batched:
    """Operators over batches, with an array of their own."""

    own = np.zeros(0)
    calls = 0

    def reuses(self, X, batch):
        if self.own.shape != X.shape:
            self.own = np.zeros(X.shape)
        return np.subtract(X, batch, out=self.own)

    def changes_later(self, X, batch):
        self.calls += 1
        if self.calls < 4:
            return X - batch
        X -= batch
        return X

    def spoils_later(self, X, batch):
        self.calls += 1
        if self.calls > 3:
            batch += 1
        return X - batch


@pytest.mark.parametrize("how", HOWS, ids=lambda how: str(how.get("replay", how.get("update", "default"))))
def test_an_operator_over_batches_may_reuse_its_array(how):
    runs = [
        mr.solve(mr.VariationalInequality(operator, 2, batched=True), mr.Buffer(samples=SAMPLES), **how).x
        for operator in (difference, Batched().reuses)
    ]
    assert np.array_equal(*runs)


@pytest.mark.parametrize("name", ["changes_later", "spoils_later"])
def test_an_operator_over_batches_that_changes_its_arrays_is_found_out_whenever_it_does(name):
    samples, problem = SAMPLES.copy(), mr.VariationalInequality(getattr(Batched(), name), 2, batched=True)
    with pytest.raises(mr.OperatorError, match=r"step \d+.*the operator changed X or batch in place"):
        mr.solve(problem, mr.Buffer(samples=samples), replay=mr.Interleaved(16), step=0.1)
    assert np.array_equal(samples, SAMPLES)


def test_so_it_is_in_pytorch():
    torch = pytest.importorskip("torch")
    problem = mr.VariationalInequality(Batched().changes_later, 2, batched=True)
    with pytest.raises(mr.OperatorError, match="the operator changed X in place"):
        mr.solve(problem, mr.Buffer(samples=torch.as_tensor(SAMPLES)), replay=mr.Interleaved(16), step=0.1)
