"""What a result says of its own uncertainty: intervals, tests, effective samples, visits, marks and the table."""

import pickle
import re
import warnings

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.sparse import csr_array

import multireplay as mr
from multireplay.inference import BatchMeans, FixedB, MultiplierBootstrap, NeweyWest, RandomScaling
from multireplay.inference.sight import RecordAt
from multireplay.problems.packed import stretch_totals

OTHERS = [NeweyWest(), FixedB(), RandomScaling(), MultiplierBootstrap()]


def regression(rows=4000, rho=0.0, seed=0, dim=3):
    """Features and noise that are autoregressions of unit variance, and the buffer of them."""
    rng = np.random.default_rng(seed)
    made = lfilter([np.sqrt(1 - rho**2)], [1, -rho], rng.standard_normal((rows, dim + 1)), axis=0)
    made[:, 0] = 1.0  # an intercept
    return mr.Buffer(features=made[:, :dim], targets=made[:, :dim] @ np.arange(1.0, dim + 1) + made[:, dim])


def test_an_interval_is_made_of_the_standard_error_and_the_quantile():
    result = mr.solve(mr.GLM(), regression())
    half = BatchMeans().spread(result.images.values).quantile(0.9) * result.standard_error
    assert np.allclose(result.interval(0.9), np.column_stack([result.x - half, result.x + half]))
    row = result.summary(level=0.9).rows[1]
    assert (row["low"], row["high"]) == pytest.approx(tuple(result.interval(0.9)[1]))
    assert row["t"] == pytest.approx(result.x[1] / result.standard_error[1])
    assert row["p"] == pytest.approx(result.test([0.0, 1.0, 0.0]).p_value)


@pytest.mark.parametrize("by", OTHERS, ids=repr)
def test_other_estimators_take_a_pass_more(by):
    result = mr.solve(mr.GLM(), regression(rho=0.5))
    widths = np.diff(result.interval(by=by), axis=1) / np.diff(result.interval(), axis=1)
    assert ((widths > 0.4) & (widths < 2.5)).all()
    assert 0 <= result.test([1.0, 0.0, 0.0], 1.0, by=by).p_value <= 1
    assert repr(by) in str(result.summary(by=by))
    left = pickle.loads(pickle.dumps(result))
    assert np.array_equal(left.interval(), result.interval())
    with pytest.raises(mr.InputError, match="it was left behind"):
        left.interval(by=by)


def test_covariances_give_the_variance_of_every_function():
    result = mr.solve(mr.GLM(), regression(rho=0.3))
    half = np.diff(result.interval(of=[[1.0, 0.0, 0.0]]))[0, 0] / 2
    assert half == pytest.approx(
        np.sqrt(result.covariance()[0, 0]) * BatchMeans().spread(np.zeros((32, 1))).quantile(0.95)
    )
    assert np.linalg.eigvalsh(result.covariance())[0] > 0


def test_mapped_is_the_uncertainty_of_linear_functions():
    found = mr.solve(mr.GLM(), regression()).uncertainty
    matrix = np.array([[2.0, 0.0, 0.0], [0.0, 1.0, -1.0]])
    other = found.mapped(matrix, ["double", "difference"], shift=[0.0, 5.0])
    assert np.allclose(other.interval() - [[0.0], [5.0]], found.interval(of=matrix))
    assert np.allclose(other.interval(by=NeweyWest()) - [[0.0], [5.0]], found.interval(of=matrix, by=NeweyWest()))
    assert np.allclose(other.interval(of=[[0.0, 3.0]]), 3 * other.interval()[1:])
    assert np.allclose(found.mapped(np.diag([1.0, 2.0, 3.0]), found.names).effective, found.effective)
    parts = found.standard_error[1:] ** 2
    assert np.allclose(other.effective, [found.effective[0], parts.sum() / (parts / found.effective[1:]).sum()])
    sparse = found.mapped(csr_array(matrix), ["double", "difference"], shift=[0.0, 5.0])
    assert np.allclose(sparse.interval(), other.interval())
    assert np.allclose(sparse.effective, other.effective)
    assert [row["name"] for row in other.summary().rows] == ["double", "difference"]


def test_predictions():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((4000, 2))
    y = (rng.random(4000) < 1 / (1 + np.exp(-X[:, 0]))) * 1.0
    result = mr.solve(mr.GLM("logistic"), mr.Buffer(features=X, targets=y))
    fitted, low, high = result.predict_interval(X[:4])
    ends = result.interval(of=X[:4])
    assert np.allclose(fitted, 1 / (1 + np.exp(-X[:4] @ result.x)))
    assert np.allclose([low, high], 1 / (1 + np.exp(-ends.T)))
    states = rng.integers(0, 3, 2001)
    record = mr.Buffer(states=states[:-1], next_states=states[1:], rewards=states[:-1] * 1.0)
    values = mr.solve(mr.PolicyEvaluation(0.5, table=np.eye(3)), record).predict_interval([0, 2])
    assert np.allclose(values[0], [1.0, 3.0], atol=0.1)
    own = mr.solve(mr.VariationalInequality(lambda x, s: x - s, dim=2), mr.Buffer(samples=X))
    with pytest.raises(mr.InputError, match="no features to predict from"):
        own.predict_interval(X[:1])


@pytest.mark.parametrize("rho", [0.0, 0.9])
def test_the_effective_sample_size_is_that_of_the_score(rho):
    """The score of the intercept is the noise; that of a feature forgets twice as fast."""
    found = [mr.solve(mr.GLM(), regression(20_000, rho, seed=60 + i)).uncertainty.effective for i in range(12)]
    slow, fast = (1 - rho) / (1 + rho), (1 - rho**2) / (1 + rho**2)
    assert np.allclose(np.median(found, axis=0), 20_000 * np.array([slow, fast, fast]), rtol=0.25)


def test_visits_of_an_event_are_its_independent_occasions():
    """Seen 12 times for 100 rows each: 12 visits or so, however many rows; a constant has no end of them."""
    rng = np.random.default_rng(7)
    X = np.ones((60_000, 3))
    X[:, 1] = 0.0
    for start in rng.choice(590, 12, replace=False) * 100:
        X[start : start + 100, 1] = 1.0
    X[:, 2] = rng.standard_normal(60_000)
    buffer = mr.Buffer(features=X, targets=X @ [1.0, 2.0, 3.0] + rng.standard_normal(60_000))
    result = mr.solve(mr.GLM(), buffer)
    visits = result.uncertainty.visits
    assert visits[0] == np.inf
    assert 5 < visits[1] < 25
    assert visits[2] > 500
    assert list(result.uncertainty.doubts) == [1]
    with pytest.warns(mr.UncertaintyWarning, match=r"seen too little of x\[1\] to rely on its interval"):
        summary = result.summary()
    assert "independent visits: do not rely on this interval" in summary.rows[1]["mark"]
    assert summary.rows[0]["mark"] == summary.rows[2]["mark"] == ""
    with pytest.warns(mr.UncertaintyWarning):
        result.interval()
    assert "Note: the record has seen too little of x[1]" in str(result.status)
    assert result.status.ok
    assert "too little" not in result.status.message  # worked out when it is read


def test_a_feature_seen_once_in_a_thousand_rows_is_looked_for_in_all_of_them():
    rng = np.random.default_rng(8)
    X = rng.standard_normal((100_000, 2))
    X[:, 1] = rng.random(100_000) < 1e-3
    buffer = mr.Buffer(features=X, targets=X[:, 0] + rng.standard_normal(100_000))
    for options in ({}, {"update": mr.Plain()}):
        result = mr.solve(mr.GLM(), buffer, **options)
        assert result.uncertainty.visits[1] == pytest.approx(X[:, 1].sum(), rel=0.5)
        assert result.standard_error[1] == pytest.approx(1 / np.sqrt(X[:, 1].sum()), rel=0.5)
        assert not result.uncertainty.doubts


@pytest.mark.parametrize("kind", ["sparse", "table", "weights", "batched"])
def test_energies_as_written(kind):
    import scipy.sparse

    from multireplay.solving.resolve import over_batches

    rng = np.random.default_rng(9)
    X, y, w = rng.standard_normal((60, 3)), rng.standard_normal(60), rng.exponential(size=60)
    problem, columns, features = mr.GLM(), {"features": X, "targets": y}, X
    if kind == "sparse":
        columns["features"] = scipy.sparse.csr_array(X)
    elif kind == "weights":
        columns["weights"] = w
    elif kind == "table":
        states = rng.integers(0, 5, 61)
        table = rng.standard_normal((5, 3))
        problem = mr.PolicyEvaluation(0.5, table=table)
        columns = {"states": states[:-1], "next_states": states[1:], "rewards": y}
        features = table[states[:-1]]
    x, starts, which = rng.standard_normal(3), np.array([0, 20, 45]), np.array([0, 2])
    buffer = mr.Buffer(**columns)
    samples = problem.samples(problem.columns(buffer))
    rows = np.array([problem.operator(x, samples, t) for t in range(60)])
    if kind == "batched":
        problem = over_batches(problem, buffer, "batched")
    heavy = features**2 * (w[:, None] if kind == "weights" else 1.0)
    squares, energies = problem.energies(x, problem.columns(buffer), starts)
    assert np.allclose(squares, (rows**2).sum(axis=0))
    assert np.allclose(energies, [heavy[:20].sum(axis=0), heavy[20:45].sum(axis=0), heavy[45:].sum(axis=0)])
    some = problem.energies(x, problem.columns(buffer), starts, which)
    assert np.allclose(some[0], squares[which])
    assert np.allclose(some[1], energies[:, which])


@pytest.mark.parametrize("starts", [[0, 16, 32, 48], [0, 15, 32, 48], [0], [0, 1, 63], [0, 10, 21, 32, 42, 53]])
@pytest.mark.parametrize("dim", [3, 20])
def test_sums_by_stretches(starts, dim):
    values = np.random.default_rng(3).standard_normal((64, dim))
    ends = [*starts[1:], 64]
    wanted = [values[start:end].sum(axis=0) for start, end in zip(starts, ends, strict=True)]
    assert np.allclose(stretch_totals(values, np.array(starts)), wanted, rtol=1e-13, atol=1e-13)


def test_effective_samples_and_visits_by_their_definitions():
    """Rows' variances over those of batch means, which are inflated for their autocorrelation, of a literal loop."""
    rng = np.random.default_rng(21)
    A, w = rng.standard_normal((1024, 10)), rng.exponential(size=1024)
    A[:, 3] *= np.arange(1024) // 8 % 3 == 0
    y = A[:, 0] + rng.standard_normal(1024)
    result = mr.solve(mr.GLM(ridge=0.1), mr.Buffer(features=A, targets=y, weights=w))
    scores, energies = A * (w * (A @ result.x - y))[:, None], A**2 * w[:, None]
    for j in range(10):
        spreads = []
        for column in (scores[:, j], energies[:, j]):
            means = column.reshape(32, 32).mean(axis=1)
            off = means - means.mean()
            r = (off[1:] * off[:-1]).sum() / (off**2).sum()
            r = min(max(r + (1 + 3 * r) / 32, 0), 0.97)
            spreads.append((off**2).sum() / 31 / 32 * (1 + r) / (1 - r))
        assert result.uncertainty.effective[j] == pytest.approx(min(scores[:, j].var() / spreads[0], 1024), rel=1e-9)
        assert result.uncertainty.visits[j] == pytest.approx(energies[:, j].mean() ** 2 / spreads[1], rel=1e-9)


def test_rows_are_not_read_again_where_nothing_is_rare(monkeypatch):
    result = mr.solve(mr.GLM(), regression(rows=20_000))
    monkeypatch.setattr(type(result.run.record), "parts", lambda *_: pytest.fail("the record was read"))
    assert (result.uncertainty.visits > 30).all()
    assert result.summary().rows


def test_few_effective_samples_are_marked():
    """An autoregression with 10 effective samples is marked in 95 % of the runs at least, one with 400 never."""
    for rho, rows, share in ((0.99, 2000, 1.0), (0.5, 2000, 0.0)):
        marked = 0
        for seed in range(40):
            buffer = regression(rows, rho, seed=100 + seed, dim=1)
            marked += bool(mr.solve(mr.GLM(), buffer).uncertainty.doubts)
        assert abs(marked / 40 - share) <= 0.05


def test_an_answer_that_is_not_the_fit_is_told():
    buffer = regression(seed=12)
    far = mr.solve(mr.GLM(), buffer, update=mr.Plain(), step=0.3)
    assert far.distance > 0.2
    assert f"x is about {far.distance:.1g}"[:13] in str(far.summary())
    assert "from the exact fit, which intervals do not count" in str(far.summary())
    assert "which intervals do not count" not in str(mr.solve(mr.GLM(), buffer).summary())


def test_a_record_without_noise_is_not_doubted():
    X = np.random.default_rng(13).standard_normal((5000, 3))
    result = mr.solve(mr.GLM(), mr.Buffer(features=X, targets=X[:, 0]))
    assert result.uncertainty.doubts == {}
    assert (result.uncertainty.effective == 5000).all()


def test_the_table():
    result = mr.solve(mr.GLM(ridge=0.01), regression())
    summary = result.summary()
    text = str(summary)
    assert text.splitlines()[0].split()[:4] == ["name", "coefficient", "standard", "error"]
    assert "4,000 rows" in text
    assert "BatchMeans()" in text
    assert "intervals are for the penalized fit" in text
    assert summary._repr_html_().startswith("<table>")
    assert set(summary.rows[0]) == {
        "name", "coefficient", "standard error", "t", "p", "low", "high", "effective", "mark",
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result.summary()
        result.interval()


def test_what_does_not_fit_is_refused():
    result = mr.solve(mr.GLM(), regression())
    with pytest.raises(mr.InputError, match="level must be a number in"):
        result.interval(1.0)
    with pytest.raises(mr.InputError, match=r"need 3 numbers a row, but their shape is \(2,\)"):
        result.interval(of=[1.0, 2.0])
    with pytest.raises(mr.InputError, match="finite"):
        result.interval(of=[1.0, np.nan, 0.0])
    with pytest.raises(mr.InputError, match=r"by must be an estimator from mr.inference"):
        result.interval(by="newey-west")
    with pytest.raises(mr.InputError, match="speaks of something that the record does not know, or that does not vary"):
        result.test([0.0, 0.0, 0.0])


def test_a_pickled_source_leaves_the_record_behind():
    result = mr.solve(mr.GLM(), regression())
    assert result.summary().rows[0]["effective"] > 0
    again = pickle.loads(pickle.dumps(result))
    assert isinstance(again.uncertainty.source, RecordAt)
    assert again.uncertainty.source.record is None
    assert np.array_equal(again.uncertainty.effective, result.uncertainty.effective)
    fresh = pickle.loads(pickle.dumps(mr.solve(mr.GLM(), regression())))  # looked up before the record is left behind
    assert np.array_equal(fresh.uncertainty.effective, result.uncertainty.effective)


def stormy(rows=4000, occasions=1, seed=0):
    """A constant and an indicator that is on in stretches of 100 rows; noise is sticky."""
    rng = np.random.default_rng(seed)
    event = np.zeros(rows)
    for start in np.linspace(300, rows - 500, occasions).astype(int):
        event[start : start + 100] = 1.0
    noise = lfilter([1.0], [1.0, -0.9], rng.standard_normal(rows))
    return event, noise


@pytest.mark.parametrize("coded", [lambda e: e, lambda e: 1 - e, lambda e: 1013 + 30 * e])
def test_an_event_is_marked_however_it_is_coded(coded):
    marked = 0
    for seed in range(10):
        event, noise = stormy(seed=seed)
        A = np.column_stack([np.ones(len(event)), coded(event)])
        marked += 1 in mr.solve(mr.GLM(), mr.Buffer(features=A, targets=noise)).uncertainty.doubts
    assert marked >= 9


def features_seen_once(rows=20_000):
    """Events, a trend and steps: what a record has seen a few times."""
    event, time = np.zeros(rows), np.arange(rows) / 1.0
    for start in (2000, 9000, 17_000):
        event[start : start + 150] = 1.0
    return {"event": event, "trend": time, "step": (time >= rows / 2) * 1.0, "late step": (time >= 0.75 * rows) * 1.0}


@pytest.mark.parametrize("link", ["identity", "logistic"])
@pytest.mark.parametrize("beside", ["constant", "categories"])
@pytest.mark.parametrize("kind", ["event", "trend", "step", "late step"])
def test_visits_are_the_same_however_a_feature_is_coded(kind, beside, link):
    """10 + event, dates since 1970, the opposite: all of these had no mark."""
    rng = np.random.default_rng(4)
    feature = features_seen_once()[kind]
    y = lfilter([0.3], [1, -0.95], rng.standard_normal(len(feature)))
    others = np.ones((len(feature), 1)) if beside == "constant" else np.eye(3)[rng.integers(0, 3, len(feature))]
    found = []
    for coded in (10 + feature, 1 - feature, 1.7e9 + 60 * feature, 5 - 30 * feature):
        A = np.column_stack([others, rng.standard_normal(len(y)), coded])
        buffer = mr.Buffer(features=A, targets=y if link == "identity" else (y > 0) * 1.0)
        known = mr.solve(mr.GLM(link), buffer).uncertainty
        assert "independent visit" in known.doubts[A.shape[1] - 1]
        assert A.shape[1] - 2 not in known.doubts
        found.append(known.visits[-1])
    assert max(found) < 1.5 * min(found)


@pytest.mark.parametrize("coded", [lambda f: f, lambda f: 1000 + f, lambda f: 1 - f, lambda f: f - 0.5])
def test_what_is_often_seen_is_not_marked_in_any_coding(coded):
    rng = np.random.default_rng(5)
    slow = lfilter([np.sqrt(1 - 0.9**2)], [1, -0.9], rng.standard_normal((20_000, 2)), axis=0)
    often, rare = rng.random(20_000) < 0.5, rng.random(200_000) < 1e-3
    for feature in (slow[:, 0], often * 1.0):
        A = np.column_stack([np.ones(20_000), coded(feature)])
        assert not mr.solve(mr.GLM(), mr.Buffer(features=A, targets=slow[:, 1])).uncertainty.doubts
    A = np.column_stack([np.ones(200_000), coded(rare * 1.0)])  # which spread rows see twice or so
    known = mr.solve(mr.GLM(), mr.Buffer(features=A, targets=rng.standard_normal(200_000))).uncertainty
    assert not known.doubts
    assert known.visits[1] == pytest.approx(rare.sum(), rel=0.5)


def test_a_feature_without_a_constant_is_what_it_is():
    """Through 0 all rows tell the slope of 10 + event."""
    event = features_seen_once()["event"]
    y = np.random.default_rng(6).standard_normal(len(event))
    assert not mr.solve(mr.GLM(), mr.Buffer(features=(10 + event)[:, None], targets=y)).uncertainty.doubts


def test_functions_of_what_is_doubtful_warn():
    event, noise = stormy()
    A = np.column_stack([np.ones(len(event)), event])
    result = mr.solve(mr.GLM(), mr.Buffer(features=A, targets=noise, names=["constant", "storm"]))
    for ask in (
        lambda: result.interval(of=[[1.0, 1.0]]),
        lambda: result.test([0.0, 1.0]),
        lambda: result.predict_interval([[1.0, 1.0], [1.0, 0.0]]),
    ):
        with pytest.warns(mr.UncertaintyWarning, match="too little of storm.*part in that"):
            ask()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result.predict_interval([[1.0, 0.0]])


def test_marks_outlive_pickling():
    event, noise = stormy(occasions=3)
    A = np.column_stack([np.ones(len(event)), event])
    result = mr.solve(mr.GLM(), mr.Buffer(features=A, targets=noise, names=["constant", "storm"]))
    left = pickle.loads(pickle.dumps(result))
    assert left.uncertainty.doubts == result.uncertainty.doubts != {}
    assert str(left.status) == str(result.status)
    with pytest.warns(mr.UncertaintyWarning, match="storm"):
        left.interval()


def machines(kind, rows=20_000, count=5, seed=0, lasting=1):
    """So many failures, each for so many rows, in no relation to a feature."""
    rng = np.random.default_rng(seed)
    outcome = np.zeros(rows)
    for start in rng.choice(rows // 100 - 1, count, replace=False) * 100:
        outcome[start : start + lasting] = 1.0
    A = np.column_stack([np.ones(rows), rng.standard_normal(rows)])
    columns = {"features": A[:-1], "next_features": A[1:], "rewards": outcome[:-1]}
    if kind == "value":
        return mr.PolicyEvaluation(0.5), columns
    if kind == "classes":
        problem, outcome = mr.Multinomial(3), np.where(outcome > 0, 2.0, rng.integers(0, 2, rows))
    elif kind == "rarely not":
        problem, outcome = mr.GLM("logistic"), 1 - outcome
    else:
        problem = mr.GLM({"failures": "logistic", "counts": "exp", "amounts": "identity"}[kind])
    return problem, {"features": A, "targets": outcome}


KINDS = ["failures", "counts", "amounts", "rarely not", "classes", "value"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_rare_outcome_is_marked_by_its_occasions(kind):
    """A fit of five failures covered 84 % of slopes where it said 95, and half of them had no mark."""
    marks = []
    for lasting, seed in ((1, 1), (60, 2)):
        problem, columns = machines(kind, lasting=lasting, seed=seed)
        names = ["constant", "load"] if kind != "classes" else None
        result = mr.solve(problem, mr.Buffer(**columns, names=names))
        with pytest.warns(mr.UncertaintyWarning, match="too little of"):
            result.interval()
        marks += result.uncertainty.doubts.values()
        assert len(result.uncertainty.doubts) == len(result.x)
    assert any("about 5 events of a rare outcome: do not rely on this interval" in mark for mark in marks)
    problem, columns = machines(kind, count=190, seed=3)  # 190 of 20,000 are enough
    assert not mr.solve(problem, mr.Buffer(**columns)).uncertainty.doubts


@pytest.mark.parametrize("kind", KINDS)
def test_usual_outcomes_are_not_counted(kind, monkeypatch):
    """Nor does anybody read the record for them."""
    problem, columns = machines(kind)
    rng = np.random.default_rng(4)
    for name in {"targets", "rewards"} & set(columns):
        columns[name] = rng.integers(0, 3 if kind == "classes" else 2, len(columns[name])) * 1.0
    result = mr.solve(problem, mr.Buffer(**columns))
    monkeypatch.setattr(type(result.run.record), "parts", lambda *_: pytest.fail("the record was read"))
    assert not result.uncertainty.doubts
    assert result.uncertainty._sight.events == np.inf


def test_outcomes_that_are_all_alike_are_no_events():
    """As a reward of -1 for every step is."""
    A = np.random.default_rng(5).standard_normal((3000, 2))
    buffer = mr.Buffer(features=A[:-1], next_features=A[1:], rewards=-np.ones(2999))
    assert not mr.solve(mr.PolicyEvaluation(0.5), buffer).uncertainty.doubts


def test_different_reasons_are_told_each():
    rng = np.random.default_rng(6)
    rare = np.zeros(20_000)
    rare[[100, 9000, 15_000]] = 1.0
    slow = lfilter([1.0], [1.0, -0.9995], rng.standard_normal(20_000))
    A = np.column_stack([rare, slow / slow.std(), rng.standard_normal(20_000)])
    noise = lfilter([1.0], [1.0, -0.9], rng.standard_normal(20_000))
    result = mr.solve(mr.GLM(), mr.Buffer(features=A, targets=noise, names=["storm", "slow", "load"]))
    said = str(result.status)
    assert re.search(r"too little of storm, slow to rely on their intervals: about \d to \d+ independent visits", said)
    both = mr.solve(mr.GLM(ridge=1e-4), mr.Buffer(features=np.column_stack([A, A[:, 2]]), targets=noise))
    wanted = (
        r"of x\[0\], x\[1\] \(about \d to \d+ independent visits\), x\[2\], x\[3\] \(only the penalty settles it\) to"
    )
    assert re.search(wanted, both.uncertainty.doubt_note())
    held = mr.GLM(constraint=mr.sets.Box([0.0, -9, -9], [0.0, 9, 9]))
    result = mr.solve(held, mr.Buffer(features=A, targets=noise, names=["storm", "slow", "load"]))
    with pytest.raises(mr.InputError, match="does not know, or a set holds where it is: storm"):
        result.test([1.0, 0.0, 0.0])
