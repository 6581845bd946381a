"""Every rival against a literal version of its definition, on tiny problems."""

import numpy as np
import pytest

import multireplay as mr
from multireplay.bench.methods import METHODS, library, rivals
from multireplay.bench.world import Case, World
from multireplay.bench.worlds.series import mean_slope
from multireplay.updates import batch_reduced, extrapolated
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


def steepest(case):
    """The largest ‖∂F̃(x, ξ_t)/∂x‖ that can be, over the rows: by its own formula for every kind of problem."""
    size = np.linalg.norm(case.record["features"], axis=1).max() ** 2
    link = getattr(case.world.problem, "link", None)
    if link is None:
        return (1 + 0.7) * size
    return size * (0.25 if link.name == "logistic" else max(1.0, case.record["targets"].max()))


def test_fast_td_with_decreasing_steps(case):
    mu, gap = case.world.mu, case.gap()
    offset = 16 * steepest(case) / mu
    x, before = np.zeros(3), None
    for t, row in enumerate(range(gap - 1, LENGTH, gap), start=1):
        eta, weight = 4 / (mu * (offset + t)), 1 - 2 / (t + offset + 2)
        now = operator(case, x, row)
        x = x - eta * (now + weight * (now - (now if before is None else before)))
        before = now
    np.testing.assert_allclose(rivals.fast_td(case, None).x, x)


@pytest.mark.parametrize("condition", [1.0, 7.3, 400.0])
def test_fast_td_steps_keep_to_what_extrapolation_needs(condition):
    """λ_t = θ_{t−1}η_{t−1}/(θ_tη_t) with growing θ_t ≤ θ_{t−1}(1 + 2μη_{t−1}), and every step below 1/(4L)."""
    steps, weights = extrapolated.decreasing_steps(0.5, 0.5 * condition, 50)
    time = np.arange(51) + 16 * condition
    theta = time * (time + 1) * (time + 2)
    eta = 4 / (0.5 * time)
    np.testing.assert_allclose(steps, eta[1:])
    np.testing.assert_allclose(weights, theta[:-1] * eta[:-1] / (theta[1:] * eta[1:]))
    assert (theta[1:] <= theta[:-1] * (1 + 2 * 0.5 * eta[:-1])).all()
    assert (4 * 0.5 * condition * steps < 1).all()


def test_conditional_td(case):
    mu, lipschitz, gap = case.world.mu, case.world.lipschitz, case.gap()
    offset = 8 * max(lipschitz**2, 8 * steepest(case) ** 2) / mu**2
    x = np.zeros(3)
    for t, row in enumerate(range(gap - 1, LENGTH, gap), start=1):
        x = x - 2 / (mu * (t + offset - 1)) * operator(case, x, row)
    np.testing.assert_allclose(library.conditional_td(case, None).x, x)


def test_conditional_td_with_features_of_length_one_is_the_published_rule():
    """t0 = 8 max{L², 8(1 + γ)²}/μ², by hand: L ≤ 1 + γ, so that the second term decides."""
    states = np.array([[1.0, 0.0], [0.0, 1.0]])
    process = mr.simulate.MarkovRewardProcess(np.full((2, 2), 0.5), states, np.array([1.0, 0.0]), 0.5)
    record = process.buffer(64, 0)
    jacobian = np.array([[0.375, -0.125], [-0.125, 0.375]])  # Π(I − γP)
    case = Case(World(process.problem, lambda s: record, process.solution, np.eye(2), jacobian, 0.4), record, seed=0)
    assert case.world.mu == pytest.approx(0.25)
    x = np.zeros(2)
    for t in range(1, 65):
        x = x - 2 / (0.25 * (t + 64 * 1.5**2 / 0.25**2 - 1)) * operator(case, x, t - 1)
    np.testing.assert_allclose(library.conditional_td(case, None).x, x)


def test_reverse_replay(case):
    """x ← x − 2γ(⟨ψ, x⟩ − y)ψ with γ = 1/(8RB), backwards through blocks of B = 10 gaps, a gap apart."""
    gap, x, kept = case.gap(), np.zeros(3), []
    block = 10 * gap
    for first in range(0, LENGTH, block + gap):
        for row in reversed(range(first, min(first + block, LENGTH))):
            x = x - 2 * case.unit / (8 * block) * operator(case, x, row)
            kept.append(x)
    expected = np.mean(kept[len(kept) - int(np.ceil(7 / 8 * len(kept))) :], axis=0)
    found = METHODS["reverse"].run(case, None)
    np.testing.assert_allclose(found.x, expected, rtol=1e-6)
    assert found.touched == len(kept)


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
    gap = case.gap()
    spaced = range(gap - 1, LENGTH, gap)  # of every sample that is read, whichever batch it is for
    batches, inner, small = batch_reduced.batches_of(LENGTH // gap)

    def batch_mean(x, first, stop):
        return np.mean([operator(case, x, spaced[place]) for place in range(first, stop)], axis=0)

    anchor, place = np.zeros(3), 0
    for batch in batches:
        mean = batch_mean(anchor, place, place + batch)
        place += batch
        x, before, kept = anchor, None, []
        for _ in range(inner):
            now = mean + batch_mean(x, place, place + small) - batch_mean(anchor, place, place + small)
            place += small
            x = x - 0.2 * case.unit * (2 * now - (now if before is None else before))
            before = now
            kept.append(x)
        anchor = np.mean(kept, axis=0)
    found = rivals.variance_reduced_ftd(case, 0.2)
    np.testing.assert_allclose(found.x, anchor)
    assert found.touched == place <= LENGTH // gap


def test_ftd_batches_fit_in_the_record():
    for count in (*range(2, 300), 4096, 2**16 + 1):
        batches, inner, small = batch_reduced.batches_of(count)
        assert count / 2 <= batches.sum() + len(batches) * inner * small <= count
        assert min(*batches, inner, small) >= 1
        assert len(batches) == 8 or count < 128


def test_ftd_needs_two_samples():
    with pytest.raises(mr.InputError, match="gap=200 leaves 1 of 256 samples"):
        mr.solve(
            policy_case().world.problem, policy_case().record, update=batch_reduced.BatchExtrapolated(200), step=0.1
        )


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


def test_what_could_not_be_traced_is_called_our_reading():
    labels = {name: METHODS[name].published for name in ("CTD", "reverse", "FTD", "VRTD", "VRFTD")}
    assert {name for name, label in labels.items() if label == "as published"} == {"CTD", "reverse"}
    assert set(labels.values()) == {"as published", "our reading"}
