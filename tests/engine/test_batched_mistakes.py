"""Mistakes in an operator over batches, and what cannot be run so: what is said."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from arrays_of import EVERY, device_array, strict_array, torch_array
from every_set import DIM
from in_lanes import ALL, PROBLEMS, assert_same, buffer_of, make_data, rotation, rotation_of_rows, softened

import multireplay as mr
from multireplay import sets


def refuses(operator, message, library=np.array, error=mr.OperatorError, **options):
    problem = mr.VariationalInequality(operator, dim=DIM, batched=True)
    with pytest.raises(error, match=message):
        mr.solve(problem, buffer_of(library), **{"replay": ALL, "step": 0.1, **options})


@EVERY
def test_mistakes_in_the_shape(library):
    refuses(lambda X, batch: X[0, :], r"shape \(6,\) instead of \(lanes, dim\) = \(3, 6\): one row for every", library)
    refuses(lambda X, batch: (X - batch)[:1, :], r"shape \(1, 6\) instead of \(lanes, dim\) = \(3, 6\)", library)
    refuses(
        lambda X, batch: X @ batch, r"the operator failed on X of shape \(3, 6\) and a batch of shape \(3, 6\)", library
    )
    refuses(lambda X, batch: None, "returned nothing: does it lack a return", library)
    refuses(lambda X, batch: 1.0, "a value of type float, where X and batch are", library)


def test_axes_that_are_mixed_up_are_noticed_in_three_dimensions_too():
    problem = mr.VariationalInequality(lambda X, batch: X @ batch, dim=3, batched=True)
    with pytest.raises(mr.OperatorError, match=r"X of shape \(4, 3\) and a batch of shape \(4, 3\)"):
        mr.solve(problem, mr.Buffer(samples=np.ones((20, 3))), replay=ALL, step=0.1)


@EVERY
def test_mistakes_in_the_values(library):
    def not_finite(X, batch):
        return (X - batch) / (batch - batch[:1, :])

    refuses(not_finite, r"the operator returned .*(nan|inf).* at epoch 1, step 1, sample 1 \(counting", library)

    def fails_later(X, batch):
        if X.shape[0] == 5 and float(abs(X)[0, 0]) > 0:
            raise ZeroDivisionError("by design")
        return X - batch

    refuses(
        fails_later, r"failed at epoch 2, step 2, samples 6 to 10 \(counting from 1\): ZeroDivisionError: by", library
    )

    def in_place(X, batch):
        X -= batch
        return X

    refuses(in_place, "the operator changed X in place", library)


def test_an_operator_that_leaves_the_library_or_the_device():
    torch = pytest.importorskip("torch")
    refuses(
        lambda X, batch: np.zeros(X.shape), "a value of numpy on cpu, where X and batch are torch on cpu", torch_array
    )
    refuses(lambda X, batch: torch.zeros(X.shape), "a value of torch on cpu, where X and batch are numpy on cpu")
    here = strict_array(np.zeros(DIM))
    refuses(
        lambda X, batch: X - here,
        r"arrays of array_api_strict on .*device1.*: ValueError: Arrays from two different devices .* can not be",
        device_array,
    )
    refuses(
        lambda X, batch: strict_array(np.zeros(X.shape)),
        r"a value of array_api_strict on .*CPU_DEVICE.*, where X and batch are array_api_strict on .*device1",
        device_array,
    )


def test_whole_numbers_and_gradients_are_taken_as_values():
    torch = pytest.importorskip("torch")
    weight = torch.ones(DIM, dtype=torch.float64, requires_grad=True)
    problem = mr.VariationalInequality(lambda X, batch: X * weight - batch, dim=DIM, batched=True)
    plain = mr.VariationalInequality(lambda X, batch: X - batch, dim=DIM, batched=True)
    options = {"replay": ALL, "step": 0.1}
    assert_same(mr.solve(problem, buffer_of(torch_array), **options), mr.solve(plain, buffer_of(), **options))
    signs = mr.VariationalInequality(lambda X, batch: (batch > 0) * 1, dim=DIM, batched=True)
    assert (
        mr.solve(signs, buffer_of(), replay=mr.Serial(), step=0.5, average="none").x.tolist()
        == (-0.5 * (make_data()["samples"] > 0).sum(axis=0)).tolist()
    )


def test_what_cannot_be_run_says_what_to_do():
    one_row = mr.VariationalInequality(lambda x, sample: x - sample, dim=DIM)
    with pytest.raises(
        mr.InputError, match=r"column on array_api_strict .* operator\(X, batch\), one row a lane, and give"
    ):
        mr.solve(one_row, buffer_of(device_array), replay=ALL, step=0.1)
    with pytest.raises(mr.InputError, match="backend='batched' needs an operator over batches"):
        mr.solve(one_row, buffer_of(), replay=ALL, step=0.1, backend="batched")
    with pytest.raises(mr.InputError, match=r"over a batch must take \(X, batch\)"):
        mr.VariationalInequality(rotation, dim=DIM, batched=True)
    with pytest.raises(mr.InputError, match="'compiled' or 'batched', not 'gpu'"):
        mr.solve(mr.GLM(), buffer_of(), backend="gpu")
    with pytest.raises(mr.InputError, match="backend='batched' is for solve"):
        mr.Online(mr.GLM(), capacity=8, step=0.1, backend="batched").observe(features=np.ones(2), targets=1.0)
    with pytest.raises(mr.InputError, match="precondition=2 is not for the batched engine"):
        mr.solve(mr.GLM(), buffer_of(), update=mr.VarianceReduced(precondition=2), backend="batched")
    data = make_data()
    split = mr.Buffer(features=torch_array(data["features"]), targets=data["targets"])
    with pytest.raises(
        mr.InputError, match="'features' is an array of torch on cpu and 'targets' of numpy on cpu; all"
    ):
        mr.solve(mr.GLM(), split, replay=ALL, step=0.1, backend="batched")
    mr.solve(mr.GLM(), split, replay=ALL, step=0.1)  # both can be read by NumPy

    class Diagonal(sets.Set):
        def project(self, x):
            x[:] = x.mean()

    options = {"replay": ALL, "step": 0.1, "constraint": Diagonal()}
    problem = PROBLEMS["own operator"][1]
    assert np.ptp(mr.solve(problem, buffer_of(), **options).x) == 0
    with pytest.raises(mr.InputError, match=r"Diagonal\(\) is a plain Python set"):
        mr.solve(problem, buffer_of(torch_array), **options)


def test_a_jitted_link_cannot_take_arrays_of_another_library():
    with pytest.raises(mr.OperatorError, match=r"the link softened failed on an array of torch on cpu .*whole arrays"):
        mr.solve(mr.GLM(numba.njit(softened)), buffer_of(torch_array), replay=ALL, step=0.1, backend="batched")


def test_other_uses_of_an_operator_over_batches():
    problem = PROBLEMS["own operator"][1]
    rows = make_data(64 + 126)["samples"]
    run = mr.Online(problem, capacity=64, step=0.1)
    run.observe(samples=torch_array(rows))
    expected = mr.Online(PROBLEMS["own operator"][0], capacity=64, step=0.1)
    expected.observe(samples=rows)
    assert np.allclose(run.x, expected.x, rtol=1e-12)
    again = problem.__reduce__()
    assert repr(again[0](*again[1])) == repr(problem) == "VariationalInequality(rotation_of_rows, dim=6)"
    assert again[0](*again[1]).batch_operator is rotation_of_rows


@pytest.mark.parametrize(
    ("how", "says"),
    [("raises", r"samples 1234 to 1236 \(counting from 1\): ValueError: by design"), ("nan", r"sample 1235 \(count")],
)
def test_what_goes_wrong_over_batches_is_named(how, says):
    rows = 3001
    buffer = mr.Buffer(samples=np.random.default_rng(0).standard_normal((rows, 2)))
    value = buffer["samples"][1234, 0]

    def operator(X, batch):
        if how == "raises" and (batch[:, 0] == value).any():
            raise ValueError("by design")
        return np.where(batch[:, :1] == value, np.nan, X - batch)

    problem = mr.VariationalInequality(operator, dim=2, batched=True)
    step = np.argwhere(mr.Interleaved(3).plan(rows)[0].positions.reshape(3, 1000) == 1235)[0][1] + 1
    with pytest.raises(mr.OperatorError, match=rf"epoch 1, step {step}, {says}"):
        mr.solve(problem, buffer, replay=mr.Interleaved(3), step=0.05)


def test_over_batches_a_run_that_diverges_says_so():
    buffer = mr.Buffer(samples=np.ones((600, 2)))
    problem = mr.VariationalInequality(lambda X, batch: -1e40 * X * batch, dim=2, batched=True)
    with pytest.warns(mr.DivergenceWarning):
        found = mr.solve(problem, buffer, replay=mr.Interleaved(3), step=0.1, x0=[1.0, 1.0])
    assert found.epochs[0].diverged
    assert 0 < found.epochs[0].taken < 30
