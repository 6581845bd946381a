"""Every rival against a literal version of its definition, on tiny problems."""

import numpy as np
import pytest

import multireplay as mr
from multireplay.bench.methods import METHODS, library, rivals
from multireplay.bench.world import Case, World
from multireplay.bench.worlds.series import mean_slope
from multireplay.updates import batch_reduced
from multireplay.updates.rank_one import mean_operator, rank_one, residual

LENGTH = 256


def policy_case(seed=0):
    rng = np.random.default_rng(seed)
    transitions = rng.random((5, 5)) + np.eye(5)
    transitions /= transitions.sum(axis=1, keepdims=True)
    process = mr.simulate.MarkovRewardProcess(transitions, rng.standard_normal((5, 3)), rng.standard_normal(5), 0.7)
    whole = process.buffer(LENGTH, seed)
    record = mr.Buffer(**whole.columns, terminated=rng.random(LENGTH) < 0.1)
    weight = process.weight
    world = World(process.problem, lambda s: record, process.solution, weight, weight, 1.6)
    return Case(world, record, seed=3)


def glm_case(link, seed=0):
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((LENGTH, 3))
    solution = np.array([0.3, -0.2, 0.1])
    mean = mr.GLM(link).link.function(features @ solution)
    targets = (rng.random(LENGTH) < mean).astype(float) if link == "logistic" else mean + 0.1 * rng.random(LENGTH)
    record = mr.Buffer(features=features, targets=targets)
    problem = mr.GLM(link)
    slope = mean_slope(problem, np.eye(3), solution)
    return Case(World(problem, lambda s: record, solution, np.eye(3), slope, 1.6), record, seed=3)


CASES = {"policy": policy_case, "logistic": lambda: glm_case("logistic"), "exp": lambda: glm_case("exp")}


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]()


def operator(case, x, row):
    return case.world.problem.operator(x, case.samples, row)


def batch_operator(case, x, first, stop):
    return np.mean([operator(case, x, row) for row in range(first, stop)], axis=0)


def test_common_form(case):
    rows, x = rank_one(case.samples), np.array([0.4, -1.0, 0.2])
    for row in range(20):
        np.testing.assert_allclose(residual(rows, row, x) * rows.features[row], operator(case, x, row))
    out = np.ones(3)
    mean_operator(rows, 5, 25, x, out)
    np.testing.assert_allclose(out, batch_operator(case, x, 5, 25))


def test_fast_td_tuned(case):
    step, gap = 0.3 * case.unit, case.gap()
    x, before, kept = np.zeros(3), None, []
    for row in range(gap - 1, LENGTH, gap):
        now = operator(case, x, row)
        x = x - step * (now + (now - (now if before is None else before)))
        before = now
        kept.append(x)
    expected = np.mean(kept[len(kept) - int(np.ceil(7 / 8 * len(kept))) :], axis=0)
    found = rivals.fast_td(case, 0.3)
    np.testing.assert_allclose(found.x, expected)
    assert found.touched == len(kept)


def test_fast_td_published(case):
    mu, offset, gap = case.world.mu, 4 / case.unit / case.world.mu, case.gap()
    x, before = np.zeros(3), None

    def theta(t):
        return (t + offset) * (t + offset + 1)

    def eta(t):
        return 1 / (mu * (offset + t - 1))

    for t, row in enumerate(range(gap - 1, LENGTH, gap), start=1):
        weight = theta(t - 1) * eta(t - 1) / (theta(t) * eta(t))
        now = operator(case, x, row)
        x = x - eta(t) * (now + weight * (now - (now if before is None else before)))
        before = now
    np.testing.assert_allclose(rivals.fast_td(case, None).x, x)


def test_conditional_td(case):
    mu, lipschitz, gap = case.world.mu, case.world.lipschitz, case.gap()
    x = np.zeros(3)
    for t, row in enumerate(range(gap - 1, LENGTH, gap), start=1):
        x = x - 2 / (mu * (t + 8 * (lipschitz / mu) ** 2 - 1)) * operator(case, x, row)
    np.testing.assert_allclose(library.conditional_td(case, None).x, x)


@pytest.mark.parametrize("step", [0.1, 2.0])
def test_multiscale_tuned_is_its_own_rule_with_that_last_step(case, step):
    """c is such that the step is this in the last epoch, which is in order; above 0.5/L it is constant."""
    x, kept = np.zeros(3), []
    for row in range(LENGTH):
        x = x - step * case.unit * operator(case, x, row)
        kept.append(x)
    rule = library.by_last_step(case, step)
    sizes = [rule.values(k, 0, 1)[0] / case.unit for k in range(1, 9)]
    c = step * LENGTH / np.log(LENGTH)
    np.testing.assert_allclose(sizes, [min(max(0.5, step), c * np.log(2**k) / 2**k) for k in range(1, 9)])
    found = library.multiscale(case, step)
    with np.errstate(all="ignore"):
        wanted = np.mean(kept[LENGTH // 8 :], axis=0)
    if np.isfinite(found.x).all():
        np.testing.assert_allclose(found.x, wanted)
    assert np.isfinite(found.x).all() or step > 0.5
    assert found.touched == 2 * LENGTH - 2 or step > 0.5


def test_multiscale_published_is_the_automatic_rule(case):
    result = mr.solve(case.world.problem, case.record, replay=mr.Multiscale())
    np.testing.assert_array_equal(library.multiscale(case, None).x, result.epochs[-1].answer)
    constant = METHODS["MER, one constant step (ours)"].run(case, None)
    result = mr.solve(case.world.problem, case.record, replay=mr.Multiscale(), step=0.5 * case.unit)
    np.testing.assert_array_equal(constant.x, result.epochs[-1].answer)


def test_variance_reduced_td(case):
    batch, step = LENGTH // 8, 0.1 * case.unit
    draws = np.random.default_rng(case.seed).integers(batch, size=LENGTH)
    anchor = np.zeros(3)
    for first in range(0, LENGTH, batch):
        mean, x, kept = batch_operator(case, anchor, first, first + batch), anchor, []
        for t in range(batch):
            row = first + draws[first + t]
            x = x - step * (operator(case, x, row) - operator(case, anchor, row) + mean)
            kept.append(x)
        anchor = np.mean(kept, axis=0)
    found = rivals.variance_reduced_td(case, None)
    np.testing.assert_allclose(found.x, anchor)
    assert found.touched == 2 * LENGTH


def test_variance_reduced_ftd(case):
    batches, inner, gap, _ = batch_reduced.batches_of(LENGTH, case.gap())
    small = min(batch_reduced.INNER_BATCH, LENGTH // 32)
    anchor, place, read = np.zeros(3), 0, 0
    for batch in batches:
        mean = batch_operator(case, anchor, place, place + batch)
        place, read = place + batch, read + batch
        x, before, kept = anchor, None, []
        for _ in range(inner):
            place += gap - 1
            now = mean + batch_operator(case, x, place, place + small)
            now = now - batch_operator(case, anchor, place, place + small)
            place, read = place + small, read + small
            x = x - 0.2 * case.unit * (2 * now - (now if before is None else before))
            before = now
            kept.append(x)
        anchor = np.mean(kept, axis=0)
    assert place <= LENGTH
    found = rivals.variance_reduced_ftd(case, 0.2)
    np.testing.assert_allclose(found.x, anchor)
    assert found.touched == read


@pytest.mark.parametrize("gap", [1, 7, 190, 5000])
@pytest.mark.parametrize("length", [64, 4096, 2**16])
def test_ftd_batches_fit_in_the_record(length, gap):
    batches, inner, gap, _ = batch_reduced.batches_of(length, gap)
    small = min(batch_reduced.INNER_BATCH, max(1, length // 32))
    assert batches.sum() + len(batches) * inner * (gap - 1 + small) <= length
    assert (batches >= 1).all()


def test_multilevel(case):
    radius = 2 * np.linalg.norm(case.world.solution)
    x, squares, place, kept = np.zeros(3), 0.0, 0, []
    for level in np.random.default_rng(case.seed).geometric(0.5, size=LENGTH):
        size = 2**level if 2**level <= LENGTH else 1
        if place + size > LENGTH:
            break
        g = operator(case, x, place)
        if size > 1:
            finer, coarser = (batch_operator(case, x, place, place + n) for n in (size, size // 2))
            g = g + size * (finer - coarser)
        squares += g @ g
        x = x - 2 * radius / np.sqrt(2) / np.sqrt(squares) * g
        x = x * min(1.0, radius / np.linalg.norm(x))
        kept.append(x)
        place += size
    found = rivals.multilevel_adagrad(case, None)
    np.testing.assert_allclose(found.x, np.mean(kept, axis=0))
    assert found.touched == place


@pytest.mark.parametrize("trace", [0.0, 0.5])
def test_recursive_lstd(trace):
    case = policy_case()
    samples = case.samples
    matrix, vector = np.eye(3) / (rivals.START * case.unit), np.zeros(3)
    z, discount = np.zeros(3), 0.0
    for row in range(LENGTH):
        z = discount * trace * z + samples.features[row]
        discount = samples.discounts[row]
        matrix += np.outer(z, samples.features[row] - discount * samples.next_features[row])
        vector += z * samples.rewards[row]
    np.testing.assert_allclose(rivals.recursive_lstd(trace, case, None).x, np.linalg.solve(matrix, vector), rtol=1e-6)


def test_several_passes_are_one_after_the_other():
    positions = library.Passes((mr.Serial(), mr.Shuffle(1))).plan(10)[0].positions
    assert positions[:10].tolist() == list(range(1, 11))
    assert sorted(positions[10:].tolist()) == list(range(1, 11))


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
@pytest.mark.filterwarnings("ignore")
def test_every_method_answers_on_every_kind_and_diverges_without_a_crash(case, method):
    if not method.works_on(case.world):
        return
    x, touched = method.run(case, None if method.published else 0.5)
    assert np.isfinite(case.world.error(x))
    assert touched > 0
    if method.tuned and "MAG" not in method.name:
        assert not np.isnan(case.world.error(method.run(case, 1e6).x))


def test_the_row_of_the_library_is_the_default_call(case):
    wanted = mr.solve(case.world.problem, case.record)
    found = METHODS["mr.solve"].run(case, None)
    np.testing.assert_array_equal(found.x, wanted.x)
    assert found.touched == pytest.approx(wanted.passes * LENGTH)


@pytest.mark.filterwarnings("error::multireplay.ConvergenceWarning")
@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.order is not None])
def test_orders_are_experiments_and_not_called_unconverged(case, name, monkeypatch):
    codes, solve = [], mr.solve

    def watched(*given, **options):
        result = solve(*given, **options)
        codes.append((result.status.code, result.measured))
        return result

    monkeypatch.setattr(mr, "solve", watched)
    METHODS[name].run(case, 0.01)
    assert codes == [("ran", None)]  # and no time is spent on measuring how far it is
