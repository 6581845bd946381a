"""What `solve` does with its arguments, and what it says when something is wrong."""

from __future__ import annotations

import warnings

import numba
import numpy as np
import pytest

import multireplay as mr


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((500, 3))
    return mr.Buffer(features=A, targets=A @ [1.0, -1.0, 0.5] + 0.1 * rng.standard_normal(500))


def vi(operator, rows=20, **options):
    rng = np.random.default_rng(0)
    return mr.VariationalInequality(operator, dim=2, **options), mr.Buffer(samples=rng.standard_normal((rows, 2)))


def test_default_is_close_to_the_exact_fit(data):
    exact = mr.GLM().fit_exactly(data)
    for update, said in ((None, "exact fit"), (mr.Newton(), "Newton correction"), (mr.VarianceReduced(8), "automatic")):
        result = mr.solve(mr.GLM(), data, update=update)
        assert (np.abs(result.x - exact) < 0.1 * result.standard_error).all()
        assert result.converged
        assert result.status.code == "finished"
        assert said in str(result.status)


def test_the_arguments_are_not_changed(data):
    x0 = np.array([0.1, 0.2, 0.3])
    before = data["features"].copy()
    mr.solve(mr.GLM(), data, x0=x0)
    assert x0.tolist() == [0.1, 0.2, 0.3]
    assert np.array_equal(before, data["features"])


def test_every_epoch_restarts(data):
    result = mr.solve(mr.GLM(), data, replay=mr.Multiscale(), step=0.01, x0=[5.0, 5.0, 5.0], track=[5.0, 5.0, 5.0])
    first_moves = [epoch.curve.last[0] for epoch in result.epochs]
    assert max(first_moves) < 1.0  # after one step all are still near x0
    assert [epoch.curve.initial for epoch in result.epochs] == [0.0] * len(result.epochs)


@pytest.mark.parametrize("average", [0.1, 0.5, 7 / 8, 1.0])
def test_tail_average_is_the_mean_of_the_last_iterates(data, average):
    iterates = [
        mr.solve(mr.GLM(), mr.Buffer(features=data["features"][:n], targets=data["targets"][:n]),
                 replay=mr.Serial(), step=0.05, average="none").x
        for n in range(1, 41)
    ]  # fmt: skip
    part = mr.Buffer(features=data["features"][:40], targets=data["targets"][:40])
    found = mr.solve(mr.GLM(), part, replay=mr.Serial(), step=0.05, average=average).x
    assert np.allclose(found, np.mean(iterates[-int(np.ceil(average * 40)) :], axis=0), rtol=1e-12)


def test_weighted_average_gives_iterate_t_the_weight_t(data):
    part = data[:40]
    iterates = [mr.solve(mr.GLM(), data[:n], replay=mr.Serial(), step=0.05, average="none").x for n in range(1, 41)]
    expected = np.average(iterates, axis=0, weights=np.arange(1, 41))
    for replay in (mr.Serial(), mr.Multiscale(phases=1)):
        found = mr.solve(mr.GLM(), part, replay=replay, step=0.05, average="weighted")
        if replay == mr.Serial():
            assert np.allclose(found.x, expected, rtol=1e-12)
        else:
            apart = mr.solve(mr.GLM(), part, replay=replay, step=0.05, average="weighted", backend="python")
            assert np.allclose(found.epochs[3].average, apart.epochs[3].average, rtol=1e-12)


def test_track_records_both_norms_where_asked(data):
    weight = np.diag([1.0, 2.0, 3.0])
    star = np.array([1.0, -1.0, 0.5])
    track = mr.Track(star, at=[10, 1, 10, 900], weight=weight)
    curve = mr.solve(mr.GLM(), data, replay=mr.Serial(), step=0.05, track=track, average="none").epochs[0].curve
    assert curve.iterations.tolist() == [1, 10]
    at_ten = mr.solve(
        mr.GLM(), mr.Buffer(features=data["features"][:10], targets=data["targets"][:10]), replay=mr.Serial(),
        step=0.05, average="none",
    )  # fmt: skip
    gap, mean_gap = at_ten.x - star, at_ten.epochs[0].average - star
    assert np.isclose(curve.last[1], gap @ gap)
    assert np.isclose(curve.last_weighted[1], gap @ weight @ gap)
    assert np.isclose(curve.average[1], mean_gap @ mean_gap)
    assert np.isclose(curve.average_weighted[1], mean_gap @ weight @ mean_gap)
    assert curve.initial == star @ star


def test_a_plain_set_of_the_users_own(data):
    class Diagonal(mr.sets.Set):
        def project(self, x):
            x[:] = x.mean()

    for options in ({}, {"step": 0.1}):
        assert np.ptp(mr.solve(mr.GLM(), data, constraint=Diagonal(), **options).x) < 1e-12
    with pytest.raises(mr.InputError, match=r"backend='compiled' cannot be used: Diagonal\(\) is a plain Python set"):
        mr.solve(mr.GLM(), data, constraint=Diagonal(), backend="compiled", step=0.1)


def test_one_sample_is_enough():
    buffer = mr.Buffer(features=[[2.0]], targets=[4.0])
    assert mr.solve(mr.GLM(), buffer).x.tolist() == [2.0]
    assert mr.solve(mr.GLM(), buffer, update=mr.Plain()).x.tolist() == [1.0]  # step 0.5/4: half of the way to 2


@pytest.mark.parametrize("backend", ["python", "compiled"])
def test_divergence_stops_and_says_so(data, backend):
    with pytest.warns(mr.DivergenceWarning, match="Diverged in 1 of 1 epochs, first at step"):
        result = mr.solve(mr.GLM(), data, step=100.0, backend=backend)
    assert not result.status.ok
    assert result.status.code == "diverged"
    assert "Try step='auto' (here 0.0" in str(result.status)
    assert np.isfinite(result.x).all()
    assert result.epochs[0].diverged
    assert "diverged at step" in str(result.table())


def test_the_answer_comes_from_an_epoch_that_did_not_diverge():
    buffer = mr.Buffer(features=[[1e60], [1.0], [1e60], [1.0]], targets=np.ones(4))  # epoch 1 reads samples 2 and 4
    with pytest.warns(
        mr.DivergenceWarning, match=r"Diverged in 1 of 2 epochs.*the answer is that of epoch 1, which may only"
    ):
        result = mr.solve(mr.GLM(), buffer, replay=mr.Multiscale(), step=0.1, average="none")
    assert [epoch.diverged for epoch in result.epochs] == [False, True]
    assert np.allclose(result.x, 0.19)


def test_of_several_steps_one_that_is_too_large_takes_nothing_from_the_answer_of_another():
    rng = np.random.default_rng(3)
    A = rng.standard_normal((4000, 3))
    buffer = mr.Buffer(features=A, targets=rng.poisson(np.exp(A @ [0.5, -0.5, 0.2])) * 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = mr.solve(mr.GLM("exp"), buffer, step=(0.5, 0.01))
    assert result.status.code == "ran"
    assert "0.5 was too large a step, and diverged" in str(result.status)
    assert np.abs(result.x - [0.5, -0.5, 0.2]).max() < 0.1
    assert (result.standard_error < 0.1).all()


def test_overflow_of_the_exp_link_is_divergence_and_not_nan():
    buffer = mr.Buffer(features=np.full((20, 1), 50.0), targets=np.full(20, 5.0))
    with pytest.warns(mr.DivergenceWarning):
        result = mr.solve(mr.GLM("exp"), buffer, step=1.0)
    assert np.isfinite(result.x).all()


@pytest.mark.parametrize("jit", [lambda f: f, numba.njit], ids=["plain", "jitted"])
class TestUserOperators:
    def test_raises(self, jit):
        def operator(x, sample):
            if sample[0] > 0.6:
                raise ValueError("too hot")
            return x - sample

        problem, buffer = vi(jit(operator))
        first = int(np.flatnonzero(buffer["samples"][:, 0] > 0.6)[0]) + 1
        message = f"failed at epoch 1, step {first}, sample {first} .*: ValueError: too hot"
        with pytest.raises(mr.OperatorError, match=message):
            mr.solve(problem, buffer, replay=mr.Serial(), step=0.1)

    def test_wrong_shape(self, jit):
        def operator(x, sample):
            return np.zeros(3)

        problem, buffer = vi(jit(operator))
        with pytest.raises(mr.OperatorError, match=r"returned an array of shape \(3,\) instead of \(2,\)"):
            mr.solve(problem, buffer, step=0.1)

    def test_not_a_number(self, jit):
        def operator(x, sample):
            return np.sqrt(sample + 0.9)

        problem, buffer = vi(jit(operator))
        with pytest.raises(mr.OperatorError, match=r"returned \[.*nan.*\] at epoch 1, step \d+, sample \d+"):
            mr.solve(problem, buffer, replay=mr.Serial(), step=0.1)

    def test_forgets_to_write(self, jit):
        def operator(x, sample, out):
            out[0] = x[0] - sample[0]

        problem, buffer = vi(jit(operator))
        with pytest.raises(mr.OperatorError, match="must be finite and set"):
            mr.solve(problem, buffer, step=0.1)

    def test_diverges(self, jit):
        def operator(x, sample):
            return 100.0 * x - sample

        problem, buffer = vi(jit(operator), rows=200)
        with pytest.warns(mr.DivergenceWarning):
            assert mr.solve(problem, buffer, step=1.0).status.code == "diverged"


def test_a_plain_operator_cannot_be_compiled():
    problem, buffer = vi(lambda x, sample: x - sample)
    with pytest.raises(mr.InputError, match="calls a plain Python function"):
        mr.solve(problem, buffer, step=0.1, backend="compiled")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"step": 0}, "step must be a positive number.*not 0"),
        ({"step": -0.1}, "step must be a positive number.*not -0.1"),
        ({"step": float("nan")}, "step must be a positive number"),
        ({"step": "fast"}, "a schedule from mr.steps or 'auto', not 'fast'"),
        ({"average": 0.0}, r"average must be 'none', 'full', 'weighted' or a fraction in \(0, 1\], not 0.0"),
        ({"average": "tail"}, "average must be"),
        ({"x0": [1.0]}, r"x0 has shape \(1,\), but x has 3 coordinates"),
        ({"x0": [1.0, np.nan, 0]}, "x0 must be finite"),
        ({"x0": [3.0, 4.0, 0.0], "constraint": mr.sets.Ball(1.0)}, r"x0 is not in Ball\(.*the closest point"),
        ({"backend": "gpu"}, "backend must be 'auto', 'python', 'compiled' or 'batched'"),
        ({"replay": mr.Skip(501)}, "gap 501 is larger than the buffer of 500"),
        ({"replay": "serial"}, "replay must be a replay scheme"),
        ({"track": [1.0]}, "track has 1 numbers, but x has 3"),
        ({"constraint": mr.sets.Box([0, 0], [1, 1])}, "Box"),
    ],
)
def test_bad_arguments(data, options, message):
    with pytest.raises(mr.InputError, match=message):
        mr.solve(mr.GLM(), data, **options)


def test_bad_problem_and_buffer(data):
    with pytest.raises(mr.InputError, match="problem must be a multireplay problem"):
        mr.solve("glm", data)
    with pytest.raises(mr.InputError, match="buffer must be a multireplay Buffer, not dict"):
        mr.solve(mr.GLM(), {"features": 1})


def test_auto_step_needs_something_to_go_by():
    problem, buffer = vi(lambda x, sample: x - sample)
    with pytest.raises(mr.InputError, match="step='auto' needs a Lipschitz constant"):
        mr.solve(problem, buffer, update=mr.Plain())
    known = vi(lambda x, sample: x - sample, lipschitz=2.0)[0]
    assert mr.solve(known, buffer, update=mr.Plain()).epochs[0].step == 0.25
    assert np.allclose(mr.solve(problem, buffer).x, buffer["samples"].mean(axis=0))  # takes no steps, and needs none
    with pytest.raises(mr.InputError, match="every feature in the buffer is 0"):
        mr.solve(mr.GLM(), mr.Buffer(features=np.zeros((3, 1)), targets=np.zeros(3)), update=mr.Plain())


@pytest.mark.parametrize(
    ("track", "message"),
    [
        ({"solution": [[1.0]]}, "one vector"),
        ({"solution": [1.0], "at": [0]}, "whole numbers of steps"),
        ({"solution": [1.0], "at": []}, "whole numbers"),
        ({"solution": [1.0], "weight": [1.0]}, r"weight needs shape \(1, 1\)"),
    ],
)
def test_bad_track(track, message):
    with pytest.raises(mr.InputError, match=message):
        mr.Track(**track)


def test_progress_bar_goes_to_standard_error(data, capsys):
    for update in (None, mr.VarianceReduced()):
        mr.solve(mr.GLM(), data, update=update, progress=True)
        captured = capsys.readouterr()
        assert captured.out == ""
        assert "500/500" in captured.err


def test_growth_far_below_overflow_is_divergence(data):
    short = mr.Buffer(features=data["features"][:60], targets=data["targets"][:60])
    for backend in ("python", "compiled"):
        with pytest.warns(mr.DivergenceWarning):
            assert not mr.solve(mr.GLM(), short, step=3.0, backend=backend).status.ok


@pytest.mark.parametrize("backend", ["python", "compiled"])
def test_an_overflow_in_the_last_step_is_not_returned(backend):
    buffer = mr.Buffer(features=[[1e10]], targets=[1e10])
    with pytest.warns(mr.DivergenceWarning):
        result = mr.solve(mr.GLM(), buffer, step=1e300, backend=backend)
    assert result.x.tolist() == [0.0]


def test_float32_rows_give_the_same_numbers_on_both_engines():
    rng = np.random.default_rng(0)
    F = rng.standard_normal((501, 5)).astype(np.float32)
    buffer = mr.Buffer(features=F[:-1], next_features=F[1:], rewards=F[:-1, 0], targets=F[:-1, 1])
    for problem in (mr.GLM(), mr.PolicyEvaluation(0.5)):
        slow, fast = (mr.solve(problem, buffer, step=0.05, backend=b).epochs[0].last for b in ("python", "compiled"))
        assert np.allclose(slow, fast, rtol=1e-10, atol=1e-10)
    huge = mr.Buffer(features=np.full((20, 2), 1e20, dtype=np.float32), targets=np.ones(20))
    with pytest.warns(mr.ConvergenceWarning):
        assert mr.solve(mr.GLM(), huge, step=1e-42).status.code == "not converged"
    result = mr.solve(mr.GLM(), huge)
    assert np.allclose(result.x, 5e-21, rtol=1e-7)
    assert result.free == ((0, 1),)


@pytest.mark.parametrize("values", [np.full(1, 0.1), np.zeros((2, 2))])
def test_a_schedule_of_the_wrong_shape(data, values):
    class Wrong(mr.steps.Schedule):
        def values(self, k, first, count):
            return values if count > 1 else np.full(1, 0.1)

    with pytest.raises(mr.InputError, match="the step schedule gave an array of shape"):
        mr.solve(mr.GLM(), data, step=Wrong())


def test_a_link_that_is_not_a_number_is_named_and_not_called_divergence(data):
    with pytest.raises(mr.OperatorError, match=r"returned \[nan nan nan\] at epoch 1, step 1, sample 500"):
        mr.solve(mr.GLM(lambda z: np.nan), data, step=0.1)


def test_the_table_shows_the_error_at_the_end_whatever_was_tracked(data):
    star = [1.0, -1.0, 0.5]
    result = mr.solve(mr.GLM(), data, step=0.05, update=mr.Plain(), track=mr.Track(star, at=[1, 4]))
    expected = np.sum((result.epochs[0].last - star) ** 2)
    assert result.table().rows[0]["‖last − x*‖²"] == f"{expected:.3e}"
    none = mr.solve(mr.GLM(), data, step=0.05, update=mr.Plain(), track=mr.Track(star, at=[10_000]))
    assert none.plot().lines[0].get_xdata().tolist() == [500]


def test_tracking_every_step_is_exact(data):
    curve = mr.solve(mr.GLM(), data, step=0.05, track=mr.Track([0.0] * 3, at=range(1, 501))).epochs[0].curve
    assert curve.iterations.tolist() == list(range(1, 501))


def test_features_of_very_different_size_are_warned_of(data):
    uneven = mr.Buffer(features=data["features"] * [1.0, 1.0, 1000.0], targets=data["targets"])
    with pytest.warns(UserWarning, match=r"differ in size by a factor of \d+.*Standardize"):
        mr.solve(mr.GLM(), uneven, update=mr.VarianceReduced())


def test_newton_corrections_do_not_mind_the_units_of_a_feature(data):
    units = np.array([1.0, 1e-3, 1e6])
    uneven = mr.Buffer(features=data["features"] * units, targets=data["targets"])
    assert np.allclose(mr.solve(mr.GLM(), uneven).x * units, mr.solve(mr.GLM(), data).x, rtol=1e-8)


def test_results_are_copies_and_have_a_short_repr(data):
    result = mr.solve(mr.GLM(), data)
    result.x[:] = 7.0
    assert not np.allclose(result.epochs[0].average, 7.0)
    assert len(repr(result)) < 400
    assert len(repr(result.epochs)) < 200
    assert result != mr.solve(mr.GLM(), data)  # and no comparison of arrays is tried


@pytest.mark.parametrize("constraint", ["ball", mr.sets.Simplex, lambda x: x])
def test_bad_constraints(data, constraint):
    with pytest.raises(mr.InputError, match="constraint must be a set"):
        mr.solve(mr.GLM(), data, constraint=constraint)


def test_a_set_that_returns_its_point_or_does_not_project(data):
    class Returning(mr.sets.Set):
        def project(self, x):
            return np.maximum(x, 0)

    class Halving(mr.sets.Set):
        def project(self, x):
            x *= 0.5

    class Raising(mr.sets.Set):
        def project(self, x):
            if x[0] == 0.5:
                raise ValueError("bad point")

    for bad in (Returning(), Halving()):
        with pytest.raises(mr.InputError, match=type(bad).__name__):
            mr.solve(mr.GLM(), data, constraint=bad)
    point = mr.Buffer(samples=[[0.5]])
    problem = mr.VariationalInequality(lambda x, sample: x - sample, dim=1)
    with pytest.raises(
        mr.OperatorError, match=r"projection failed at epoch 1, step 1, sample 1 .*ValueError: bad point"
    ):
        mr.solve(problem, point, step=1.0, constraint=Raising())


def test_an_operator_cannot_write_into_the_record():
    rows = np.ones((4, 2))

    def operator(x, sample):
        sample *= 0.5
        return x - sample

    with pytest.raises(mr.OperatorError, match="read-only"):
        mr.solve(mr.VariationalInequality(operator, dim=2), mr.Buffer(samples=rows), step=0.1)
    assert (rows == 1).all()


@pytest.mark.parametrize("options", [{"x0": ["a"] * 3}, {"x0": [1j] * 3}, {"track": "x"}, {"track": {}}])
def test_arrays_that_are_none(data, options):
    with pytest.raises(mr.InputError, match="must be an array of real numbers"):
        mr.solve(mr.GLM(), data, **options)


def test_a_warning_points_at_the_line_that_called_the_library():
    A = np.random.default_rng(0).standard_normal((300, 2))
    buffer = mr.Buffer(features=A * [1.0, 100.0], targets=A[:, 0])
    diverging, uneven = {"replay": mr.Serial(), "step": 10.0}, {"replay": mr.Dyadic()}
    for options, about in ((diverging, "Diverged"), (uneven, "differ in size")):
        with pytest.warns(UserWarning, match=about) as found:
            mr.solve(mr.GLM(), buffer, **options)
        assert {warning.filename for warning in found} == {__file__}
