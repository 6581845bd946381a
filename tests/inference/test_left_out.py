"""Images with each batch left out in turn: against fits without it."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.signal import lfilter

import multireplay as mr
from multireplay.buffer.record import MemoryRecord
from multireplay.engine.sums import batch_bounds, fold
from multireplay.inference.left_out import FULL, LONGER, in_place_of, left_out
from multireplay.inference.sight import RecordAt
from multireplay.problems.base import as_double
from multireplay.updates.measure import BatchJacobians, bias_at, jacobians_of, left_out_at

ROWS, DIM = 1500, 4


def sticky(seed, rows=ROWS, dim=DIM, memory=0.95):
    rng = np.random.default_rng(seed)
    return lfilter([1.0], [1.0, -memory], rng.standard_normal((rows, dim + 1)), axis=0), rng


def problems(memory=0.98):
    paths, rng = sticky(11, memory=memory)
    F, noise = paths[:, :-1], paths[:, -1]
    chances = 1 / (1 + np.exp(-0.3 * F[:, 0]))
    return {
        "linear": (mr.GLM(), {"features": F, "targets": F[:, 0] + noise}),
        "ridge": (mr.GLM(ridge=0.5), {"features": F, "targets": F[:, 0] + noise}),
        "evaluation": (mr.PolicyEvaluation(0.8), {"features": F[:-1], "next_features": F[1:], "rewards": noise[:-1]}),
        "logistic": (mr.GLM("logistic"), {"features": F, "targets": 1.0 * (rng.random(ROWS) < chances)}),
    }


@pytest.mark.parametrize(("memory", "batches"), [(0.95, 32), (0.98, LONGER)])
@pytest.mark.parametrize("name", problems())
def test_as_fits_without_each_batch(name, memory, batches):
    """Of which there are few where the features have few visits."""
    problem, columns = problems(memory)[name]
    result = mr.solve(problem, mr.Buffer(**columns))
    images, rows = result.uncertainty.images, len(columns["features"])
    assert images.left_out
    assert len(images.values) == len(images.scores) == len(images.rows) == batches
    bounds = batch_bounds(rows, DIM, batches)
    for b in (0, 7, batches - 1):
        kept = np.r_[0 : bounds[b], bounds[b + 1] : rows]
        without = mr.solve(problem, mr.Buffer(**{key: column[kept] for key, column in columns.items()}), holdout=None)
        moved = (batches - 1) * (without.x - result.x)
        if name == "logistic":  # one Newton step
            assert np.abs(images.values[b] - moved).max() < 0.15 * np.abs(moved).max()
        else:
            assert np.allclose(images.values[b], moved, rtol=1e-7, atol=1e-9 * np.abs(moved).max())


def test_many_independent_rows_are_as_plain_images():
    """Leaving a batch out changes its image by a factor of about B/(B − 1), and little else."""
    rng = np.random.default_rng(2)
    A = rng.standard_normal((64_000, 3))
    result = mr.solve(mr.GLM(), mr.Buffer(features=A, targets=A[:, 0] + rng.standard_normal(64_000)))
    images = result.uncertainty.images
    plain = images.of(images.scores)
    assert np.allclose(images.values, plain, atol=0.15 * np.abs(plain).max())
    curved = mr.solve(mr.GLM("logistic"), mr.Buffer(features=A, targets=1.0 * (A[:, 0] > rng.standard_normal(64_000))))
    assert not curved.uncertainty.images.left_out  # nor worked out for nothing


def test_a_batch_without_which_there_is_no_answer():
    """A feature that is active in one batch only: the plain image is kept, and the interval is marked."""
    rng = np.random.default_rng(5)
    A = rng.standard_normal((3200, 2))
    A[:, 1] = 0.0
    A[110:150, 1] = 1.0
    y = A @ [1.0, 2.0] + rng.standard_normal(3200)
    result = mr.solve(mr.GLM(), mr.Buffer(features=A, targets=y))
    assert np.isfinite(result.standard_error).all()
    assert 1 in result.uncertainty.doubts


def test_a_single_batch(recwarn):
    assert np.isnan(left_out(np.ones((1, 1, 1)), np.ones((1, 1)), np.ones(1), np.zeros((1, 1)))).all()
    assert mr.solve(mr.GLM(), mr.Buffer(features=[[2.0]], targets=[1.0])).x == 0.5
    assert not recwarn.list


def test_without_an_answer():
    matrices, scores = np.zeros((3, 2, 2)), np.ones((3, 2))
    matrices[:, 0, 0], matrices[0, 1, 1] = 1.0, 1.0
    found = left_out(matrices, scores, np.ones(3), np.zeros((2, 2)))
    assert np.isnan(found[0]).all()
    assert np.isfinite(found[1:]).all()
    assert (in_place_of(found, scores)[0] == scores[0]).all()


def test_intervals_hold_with_many_sticky_coordinates():
    """20 coordinates of an AR(.9), 2,000 rows: plain images give 93 %, and 100 coordinates 85 %."""
    held = []
    for seed in range(60):
        paths, _ = sticky(1000 + seed, rows=2000, dim=20, memory=0.9)
        result = mr.solve(mr.GLM(), mr.Buffer(features=paths[:, :-1], targets=paths[:, -1]))
        low, high = result.interval().T
        held.append((low <= 0) & (high >= 0))
    assert 0.93 < np.mean(held) < 0.985


def test_intervals_hold_where_the_fit_takes_slow_noise_for_its_own():
    """20 coordinates of an AR(.99), 2,000 rows: about 10 visits each. By 32 batches the constant is held in 79 %."""
    held = []
    for seed in range(100):
        paths, _ = sticky(3000 + seed, rows=2000, dim=20, memory=0.99)
        features = np.column_stack([np.ones(2000), paths[:, 1:-1]])
        low, high = mr.solve(mr.GLM(), mr.Buffer(features=features, targets=paths[:, -1])).uncertainty.ends(0.95).T
        held.append((low <= 0) & (high >= 0))
    assert np.mean(held, axis=0)[0] > 0.85
    assert 0.93 < np.mean(held) < 0.99


def test_of_few_batches_all_that_is_said_agrees():
    """The t of a coordinate, its p, its interval, Wald's test, coefficients in other units, and a pickled result."""
    problem, columns = problems()["logistic"]
    result = mr.solve(problem, mr.Buffer(**columns))
    found, rows = result.uncertainty, result.uncertainty.summary().rows
    assert len(found.images.values) == LONGER
    assert np.allclose(np.sqrt(np.diag(found.covariance())), found.standard_error)
    for i, row in enumerate(rows):
        test = found.test(np.eye(DIM)[i])
        assert test.df == (1.0, LONGER - 1.0)
        assert test.p_value == pytest.approx(row["p"])
        assert test.statistic == pytest.approx(row["t"] ** 2)
        level = 1 - row["p"]  # at which the interval ends at 0
        assert np.abs(found.ends(level)[i]).min() == pytest.approx(0.0, abs=1e-9)
    assert np.allclose(found.mapped(2 * np.eye(DIM), found.names).ends(0.9), 2 * found.ends(0.9))
    again = pickle.loads(pickle.dumps(result))
    assert (again.interval() == result.interval()).all()
    assert result.predict_interval(columns["features"][:3])[1].shape == (3,)
    with pytest.raises(mr.InputError, match="6 restrictions at once are too many for 10 batches"):
        found.mapped(np.ones((6, DIM)), "abcdef").test(np.eye(6))


def test_one_feature_at_a_time_is_known_to_no_neighbour():
    """States in a table of their own keep 32 batches, however few visits they have."""
    rng = np.random.default_rng(9)
    states = np.repeat(rng.integers(0, 8, 100), 20)
    features = np.eye(8)[states]
    found = mr.solve(mr.GLM(), mr.Buffer(features=features, targets=rng.standard_normal(2000))).uncertainty
    assert found.crowded > 0.04
    assert np.median(found.visits) < 30
    assert len(found.images.values) == 32


def test_more_features_than_visits_can_hold_keep_short_batches():
    paths, _ = sticky(21, rows=2000, dim=90, memory=0.99)
    found = mr.solve(mr.GLM(), mr.Buffer(features=paths[:, :-1], targets=paths[:, -1])).uncertainty
    assert found.crowded > FULL
    assert len(found.images.values) == 32


def test_the_bias_of_a_curved_fit_is_made_of_short_batches():
    """Ten say too little of Var(x): of nine directions, which would move slopes by noise."""
    paths, rng = sticky(24, rows=2000, dim=36, memory=0.98)
    paths /= 5
    features = np.column_stack([np.ones(2000), paths[:, :-1]])
    targets = 1.0 * rng.poisson(np.exp(features[:, 1:].sum(axis=1) / 8 + 0.7 * paths[:, -1]))
    result = mr.solve(mr.GLM("exp"), mr.Buffer(features=features, targets=targets))
    images = result.uncertainty.images
    assert len(images.values) == LONGER
    short = bias_at(result.run, result.x, left_out_at(result.run, result.x, images))
    long = bias_at(result.run, result.x, images)
    assert np.flatnonzero(images.off).tolist() == [0]
    assert images.off[0] == pytest.approx(short[0])
    assert np.abs(long / result.standard_error)[1:].max() > 1 > 2 * np.abs(short / result.standard_error)[1:].max()


def test_the_record_is_looked_at_once(monkeypatch):
    """Whether batches are to be left out, effective sample sizes and marks come from the same look."""
    looks, look = [], RecordAt.sight
    monkeypatch.setattr(RecordAt, "sight", lambda self, *given: looks.append(given) or look(self, *given))
    problem, columns = problems()["logistic"]
    result = mr.solve(problem, mr.Buffer(**columns))
    with pytest.warns(mr.UncertaintyWarning):
        result.summary()
    assert result.uncertainty.images.left_out
    assert len(looks) == 1


def counted(seed, rows=1200, dim=60, **how):
    """A Poisson fit with 20 independent rows a coordinate, whose constant is 0."""
    rng = np.random.default_rng(seed)
    A = np.column_stack([np.ones(rows), rng.standard_normal((rows, dim - 1))])
    score = A[:, 1:].sum(axis=1) / np.sqrt(4 * dim)
    return mr.solve(mr.GLM("exp"), mr.Buffer(features=A, targets=1.0 * rng.poisson(np.exp(score))), **how)


def test_intervals_allow_for_the_bias_of_a_curved_fit():
    """Maximum likelihood with 20 rows a coordinate has a constant that is 0.7 standard errors too small."""
    results = [counted(seed) for seed in range(700, 740)]
    errors = np.array([result.standard_error[0] for result in results])
    assert np.mean([result.x[0] for result in results] / errors) < -0.4
    assert abs(np.mean([result.interval()[0].mean() for result in results] / errors)) < 0.3


def test_what_the_bias_moves():
    result = counted(600)
    found, middle = result.uncertainty, result.interval().mean(axis=1)
    assert found.images.off[0] < 0  # the constant alone
    assert np.allclose(middle, result.x - found.images.off)
    assert np.flatnonzero(found.images.off).tolist() == [0]
    assert any("standard errors: intervals allow for it" in line for line in result.summary().lines)
    assert np.allclose(found.mapped(2 * np.eye(60), found.names).interval(), 2 * found.interval())
    row = np.eye(60)[0]
    at = result.test(row, middle[0])
    assert at.statistic < 1e-12
    assert result.summary().rows[0]["t"] == pytest.approx(middle[0] / result.standard_error[0])


def test_a_bias_that_is_too_large_is_marked():
    """With 5 rows a coordinate curvature moves the constant by more than can be known: nothing is put right."""
    found = counted(600, rows=1000, dim=200, update=mr.Exact()).uncertainty
    assert found.images.lost[0]
    assert found.images.off[0] == 0
    assert found.doubts[0].endswith("do not rely on this interval")
    assert 0 in found.mapped(np.eye(200)[:1], ["constant"]).doubts


def test_where_the_link_is_straight_or_rows_are_many_there_is_no_bias():
    problem, columns = problems()["linear"]
    assert mr.solve(problem, mr.Buffer(**columns)).uncertainty.images.off is None
    assert counted(3, rows=4000, dim=5).uncertainty.images.off is None


def test_a_ridge_that_moves_more_is_left_alone():
    rng = np.random.default_rng(8)
    A = np.column_stack([np.ones(1200), rng.standard_normal((1200, 59))])
    y = 1.0 * rng.poisson(np.exp(A[:, 1:].sum(axis=1) / 15))
    found = [mr.solve(mr.GLM("exp", ridge=r), mr.Buffer(features=A, targets=y)).uncertainty for r in (1e-6, 0.5)]
    assert found[0].images.off[0] < 0
    assert found[1].images.off is None


@pytest.mark.parametrize("penalty", [0.0, 0.3])
def test_symmetric_systems_are_solved_alike_by_cholesky(penalty):
    """Against a literal solution of each, in coordinates of very different sizes."""
    rng = np.random.default_rng(12)
    dim, scale = 40, np.logspace(-5, 5, 40)
    parts = [rng.standard_normal((rows, dim)) * scale for rows in (50, 61, 60, 70)]
    matrices, scores = np.array([part.T @ part for part in parts]), rng.standard_normal((4, dim)) * scale
    rows, diagonal = np.array([50.0, 61.0, 60.0, 70.0]), np.diag(penalty * scale**2)
    found = [left_out(matrices, scores, rows, diagonal, symmetric) for symmetric in (True, False)]
    for b in range(4):
        others = [k for k in range(4) if k != b]
        matrix = matrices[others].sum(axis=0) + rows[others].sum() * diagonal
        wanted = np.linalg.solve(matrix / scale / scale[:, None], rows[b] * scores[b] / scale) / scale
        for each in found:
            assert np.allclose(each[b], 3 * wanted, rtol=1e-9)


def test_cholesky_gives_way_where_there_is_no_answer_without_a_batch():
    matrices, scores = np.stack([np.eye(30)] * 3), np.ones((3, 30))
    matrices[1:, 4, 4] = 0.0
    found = left_out(matrices, scores, np.ones(3), np.zeros((30, 30)), symmetric=True)
    assert np.isnan(found[0]).all()
    assert np.allclose(np.delete(found[1], 4), 1.0)
    assert found[1, 4] == pytest.approx(2.0)


@pytest.mark.parametrize("count", [333, 336, 320])
@pytest.mark.parametrize("kind", ["float64", "float32", "weights"])
@pytest.mark.parametrize("link", ["identity", "logistic", "exp", "probit"])
def test_jacobians_of_few_rows_at_once_are_the_sums_by_batches(link, kind, count):
    """Whether batches have as many rows, as many in turns, or each its own."""
    rng = np.random.default_rng(4)
    columns = {"features": rng.standard_normal((count, 7)), "targets": rng.integers(0, 2, count).astype(float)}
    columns["features"] = columns["features"].astype("float32" if kind == "float32" else "float64")
    columns |= {"weights": rng.random(count)} if kind == "weights" else {}
    problem, x = mr.GLM(link), rng.standard_normal(7)
    record = MemoryRecord(problem, problem.columns(mr.Buffer(**columns)))
    bounds = batch_bounds(count, 7)
    sums, matrices = jacobians_of(problem, x, as_double(record.columns), bounds)
    for b, (total, matrix) in enumerate(fold(record, BatchJacobians(problem, x), bounds)):
        assert np.allclose(sums[b], total[0], rtol=1e-12, atol=1e-12)
        assert np.allclose(matrices[b], matrix, rtol=1e-12, atol=1e-12)


def test_a_record_on_disk_has_batches_left_out_alike(tmp_path):
    problem, columns = problems()["logistic"]
    for name, column in columns.items():
        np.save(tmp_path / f"{name}.npy", column)
    stored = mr.Buffer.open(tmp_path, memory=110_000)
    found = [mr.solve(problem, buffer).uncertainty.images for buffer in (mr.Buffer(**columns), stored)]
    assert isinstance(stored, mr.StoredBuffer)
    assert found[0].left_out
    assert (found[0].values == found[1].values).all()
