"""Standard errors on a feasible set: which coordinates it holds, and how the others vary."""

import numpy as np
import pytest

import multireplay as mr
from multireplay.inference import BatchMeans
from multireplay.problems.constrained import affine_vi

RNG = np.random.default_rng(8)
A = RNG.standard_normal((5000, 4)) @ (np.eye(4) + 0.3)
BUFFER = mr.Buffer(features=A, targets=A @ [0.5, -0.4, 0.3, -0.2] + RNG.standard_normal(5000))
SETS = {
    "whole": (mr.sets.WholeSpace(), []),
    "nonnegative": (mr.sets.NonNegative(), [1, 3]),
    "ball": (mr.sets.Ball(0.3), []),
    "box": (mr.sets.Box([-1, -0.1, -1, -1], [0.2, 1, 1, 1]), [0, 1]),
    "halfspace": (mr.sets.Halfspace([1.0, 0.0, 0.0, 0.0], 0.1), [0]),
    "tilted": (mr.sets.Halfspace([1.0, 1.0, 0.0, 0.0], -0.3), []),
    "simplex": (mr.sets.Simplex(), [1, 3]),
    "l1": (mr.sets.L1Ball(0.5), None),
    "product": (mr.sets.Product((mr.sets.NonNegative(), 2), (mr.sets.Ball(0.1), 2)), [1]),
    "loose": (mr.sets.Ball(100.0), []),
}


@pytest.mark.parametrize("update", [mr.Exact(), mr.Newton(), mr.Plain()], ids=["exact", "newton", "plain"])
@pytest.mark.parametrize("name", SETS)
def test_images_are_the_derivative_of_the_solution(name, update):
    """Against the solutions of the problem with its operator moved a little along F̂ of some batches."""
    feasible, held = SETS[name]
    problem = mr.GLM(constraint=feasible)
    options = {"step": 0.001} if isinstance(update, mr.Plain) else {}
    result = mr.solve(problem, BUFFER, update=update, **options)
    images = result.uncertainty.images
    matrix, vector = A.T @ A / 5000, A.T @ BUFFER["targets"] / 5000
    exact = affine_vi(matrix, vector, feasible).x
    moves = images.scores - images.scores.mean(axis=0)
    for batch in (0, 17):
        step = 1e-5
        moved = (affine_vi(matrix, vector - step * moves[batch], feasible).x - exact) / step
        assert np.allclose(-images.of(moves[batch : batch + 1])[0], moved, rtol=0.1, atol=0.03 * np.abs(moved).max())
    found = [] if images.boundary is None else np.flatnonzero(images.boundary).tolist()
    assert held is None or found == held
    assert np.isnan(result.standard_error).nonzero()[0].tolist() == found


def test_the_boundary_is_named():
    result = mr.solve(mr.GLM(constraint=mr.sets.NonNegative()), BUFFER)
    text = str(result.summary())
    assert "on the boundary of NonNegative(): x[1], x[3]; the other intervals hold given that" in text
    rows = result.summary().rows
    assert [row["mark"] for row in rows] == ["", "on the boundary", "", "on the boundary"]
    assert np.isnan(result.interval()[[1, 3]]).all()
    assert np.isfinite(result.interval()[[0, 2]]).all()
    curved = mr.solve(mr.GLM(constraint=mr.sets.Ball(0.3)), BUFFER)
    assert "Ball(radius=0.3) is active: intervals hold given that" in str(curved.summary())
    assert np.isfinite(curved.interval()).all()
    assert "active" not in str(mr.solve(mr.GLM(constraint=mr.sets.Ball(100.0)), BUFFER).summary())
    with pytest.raises(mr.InputError, match="a set holds"):
        result.test([0.0, 1.0, 0.0, 0.0])


def test_on_a_face_standard_errors_are_those_of_the_other_features_alone():
    on_set = mr.solve(mr.GLM(constraint=mr.sets.NonNegative()), BUFFER)
    alone = mr.solve(mr.GLM(), mr.Buffer(features=A[:, [0, 2]], targets=BUFFER["targets"]))
    plain = alone.images.of(alone.images.scores)  # on a set no batch is left out
    assert np.allclose(on_set.standard_error[[0, 2]], np.sqrt(BatchMeans().spread(plain).variance), rtol=1e-4)


def test_a_set_of_ones_own():
    class Half(mr.sets.Set):
        def project(self, x):
            x[1:] = np.maximum(x[1:], 0.0)

    own = mr.solve(mr.GLM(constraint=Half()), BUFFER)
    box = mr.solve(mr.GLM(constraint=mr.sets.Box([-np.inf, 0, 0, 0], np.inf)), BUFFER)
    assert np.allclose(own.standard_error, box.standard_error, rtol=1e-3, equal_nan=True)


@pytest.mark.parametrize("feasible", [mr.sets.Box(0.0, 0.01), mr.sets.Simplex(0.01)], ids=repr)
def test_at_a_vertex_there_are_no_other_intervals(feasible):
    result = mr.solve(mr.GLM(constraint=feasible), BUFFER)
    assert np.isnan(result.standard_error).all()
    text = str(result.summary())
    assert f"all coordinates are on the boundary of {feasible!r}, at a vertex: there is no interval" in text
    assert "the other intervals" not in text
