"""What `watch` makes of texts, marks, labels, sensors and empty cells: known levels, the same in a pipe and a table."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import multireplay as mr
from multireplay.cli import app

DAYS, LEVEL = ("Fri", "Mon", "Sat"), {"Fri": 0.0, "Mon": 1.0, "Sat": -2.0}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(7)
    found = []
    for _ in range(600):
        day, warm, a = str(rng.choice(DAYS)), bool(rng.integers(2)), float(rng.standard_normal())
        y = 2 * a + 0.5 * warm + LEVEL[day] + 0.1 * float(rng.standard_normal())
        label = "yes" if y + float(rng.standard_normal()) > 0 else "no"
        found.append({"a": a, "warm": warm, "day": day, "y": y, "bought": label, "sensor": f"s{rng.integers(3)}"})
    return found


def as_table(rows, separator=","):
    names = list(rows[0])
    cells = (
        [("true" if row[n] is True else "false" if row[n] is False else f"{row[n]}") for n in names] for row in rows
    )
    return "\n".join(separator.join(line) for line in [names, *cells]) + "\n"


def as_lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def watch(tmp_path):
    def command(text, *more, code=0, target="y", store="run"):
        given = ["watch", "--store", str(tmp_path / store), "--target", target, "--json", *map(str, more)]
        result = CliRunner().invoke(app, given, input=text)
        assert result.exit_code == code, result.output
        found = [json.loads(line) for line in result.stdout.splitlines()]
        return (found[-1] if found else None), " ".join(result.stderr.split())

    return command


FEATURES = ("--features", "a,warm,day")


def exactly(rows):
    table = np.array([[r["a"], r["warm"], r["day"] == "Mon", r["day"] == "Sat", 1.0] for r in rows], dtype=float)
    whole = mr.Stream(mr.GLM())
    whole.observe_many(features=table, targets=np.array([row["y"] for row in rows]))
    return whole.x.tolist()


@pytest.mark.parametrize("written", [as_lines, as_table, lambda rows: as_table(rows, ";")])
def test_texts_and_marks(watch, rows, written):
    found, said = watch(written(rows[:300]), *FEATURES, "--learn", 100)
    assert found["names"] == ["a", "warm", "day=Mon", "day=Sat", "(intercept)"]
    assert "'day' is one of Fri, Mon, Sat, compared with Fri." in said
    found, said = watch(written(rows))
    assert "'day' is one of Fri, Mon, Sat" in said
    assert found["position"] == 600
    assert found["x"] == exactly(rows)


def test_an_unknown_level_is_put_aside_or_refused(watch, rows, tmp_path):
    strange = [*rows[:200], {**rows[0], "day": "Sun"}, *rows[200:]]
    found, _ = watch(as_lines(strange), *FEATURES, "--learn", 100)
    assert (found["position"], found["quarantined"]) == (601, 1)
    assert found["x"] == exactly(rows)
    line = json.loads((tmp_path / "run" / "quarantine.ndjson").read_text())
    assert (line["position"], line["why"]) == (200, "'day' is 'Sun', which is none of Fri, Mon, Sat")
    _, said = watch(as_lines(strange), *FEATURES, "--bad", "refuse", "--learn", 100, store="other", code=3)
    assert "row 200 (counting from 0): 'day' is 'Sun'" in said
    declared = ("--levels", "day=Fri,Mon,Sat,Sun")
    found, _ = watch(as_lines(strange), *FEATURES, *declared, store="third")
    assert (found["names"][4], found["quarantined"]) == ("day=Sun", 0)


def test_two_labels(watch, rows):
    found, said = watch(as_lines(rows), *FEATURES, "--model", "logistic", target="bought")
    assert "'bought' is 0 for no, 1 for yes." in said
    turned, _ = watch(as_lines(rows), *FEATURES, "--model", "logistic", "--levels", "bought=yes,no",
                      target="bought", store="turned")  # fmt: skip
    assert turned["x"] == pytest.approx([-x for x in found["x"]], abs=1e-6)
    bad = [{**rows[0], "bought": "perhaps"}, {**rows[0], "bought": None}]
    found, _ = watch(as_lines(bad), "--model", "logistic", "--new-rows", target="bought")
    assert found["quarantined"] == 2
    _, said = watch(as_lines(rows), "--model", "logistic", target="day", store="days", code=3)
    assert "the target 'day' has 3 different labels (Fri, Mon, Sat), and needs two" in said
    marks, _ = watch(as_lines(rows), "--model", "logistic", "--features", "a", target="warm", store="marks")
    assert marks["quarantined"] == 0


def test_sensors(watch, rows, tmp_path):
    timed = [{**row, "when": at - 100.0 * (row["sensor"] == "s1")} for at, row in enumerate(rows)]
    more = (*FEATURES, "--group", "sensor", "--time", "when", "--forget", "none", "--keep", 10_000)
    found, _ = watch(as_lines(timed[:250]), *more)
    found, _ = watch(as_lines(timed), *more)
    assert (found["position"], found["quarantined"]) == (600, 0)
    assert found["x"] == pytest.approx(exactly(rows), abs=1e-9)
    late = {**timed[-1], "sensor": "s1", "when": 5.0}
    assert watch(as_lines([late]), *more, "--new-rows")[0]["quarantined"] == 1
    buffer = mr.Stream.open(tmp_path / "run", read_only=True).buffer()
    assert buffer.chains.count == 3
    result = CliRunner().invoke(app, ["inspect", str(tmp_path / "run")])
    for words in ("3 groups by 'sensor': s", "'day' is one of Fri, Mon, Sat", "All of it is as it was"):
        assert words in result.stdout, words


def test_empty_cells(watch, rows, tmp_path):
    some = [*rows[:50], {**rows[0], "a": None}, {**rows[0], "day": ""}, *rows[50:]]
    found, _ = watch(as_lines(some), *FEATURES, "--missing", "drop", "--bad", "refuse")
    assert (found["position"], found["quarantined"]) == (602, 2)
    assert found["x"] == exactly(rows)
    _, said = watch(as_lines(some), *FEATURES, "--bad", "refuse", store="other", code=3)
    assert "row 50 (counting from 0): 'a' is not there" in said
    table = as_table(some).replace("None", "NA")
    assert watch(table, *FEATURES, store="third")[0]["quarantined"] == 2


def test_what_cannot_be_used_is_said(watch, rows):
    many = [{**row, "id": f"name {at}", "on": f"2031-01-{1 + at % 28:02}"} for at, row in enumerate(rows)]
    found, said = watch(as_lines(many))
    assert found["names"] == ["a", "warm", "day=Mon", "day=Sat", "bought=yes", "sensor=s1", "sensor=s2", "(intercept)"]
    assert "'id' is not used: it holds 600 different texts" in said
    assert "'on' is not used: it holds dates" in said
    for more, words in (
        (("--features", "a,id"), "column 'id' holds 600 different texts"),
        (("--features", "a,nothing"), "no row has a column 'nothing'"),
        (("--features", "a,day", "--learn", "20"), "is 'Mon' in all rows so far: declare what it may be"),
        (("--levels", "day"), "--levels is column=level,level"),
        (("--target", "z", "--features", "a"), "no row has a column 'z'"),
    ):
        assert (
            words
            in watch(
                as_lines([*({**row, "day": "Mon"} for row in many[:20]), *many[20:]]),
                *more,
                store=f"{words[:9]}",
                code=3,
            )[1]
        )


def test_numbers_that_are_names(watch, rows):
    codes = [{"zip": f"0{at % 3}12", "n": at % 4, "a": row["a"], "y": row["y"]} for at, row in enumerate(rows)]
    found, _ = watch(as_table(codes), "--categorical", "n")
    assert found["names"] == ["zip=0112", "zip=0212", "n=1", "n=2", "n=3", "a", "(intercept)"]
    assert found["position"] == 600


def test_another_reading_is_refused(watch, rows):
    """A store that was made for one target goes on with no other."""
    watch(as_lines(rows[:100]), "--features", "a")
    others = [("--target", "warm"), ("--group", "sensor"), ("--levels", "day=Fri,Mon"), ("--features", "warm")]
    for more in (*others, ("--forget", 50), ("--window", 10), ("--keep", 7)):
        assert "not what is asked for" in watch(as_lines(rows), *more, code=3)[1]


def test_a_stream_that_python_began_has_numbers_alone(watch, rows, tmp_path):
    with mr.Stream(mr.GLM(), names=["a", "(intercept)"], store=tmp_path / "run") as stream:
        stream.observe_many(features=[[row["a"], 1.0] for row in rows[:50]], targets=[row["y"] for row in rows[:50]])
    found, _ = watch(as_lines(rows))
    assert (found["position"], found["names"]) == (600, ["a", "(intercept)"])


def test_how_rows_are_read_is_not_guessed(watch, rows, tmp_path):
    """Where the file that says it is gone, levels, labels and the numbers of groups are not known."""
    for store, more in {
        "levels": FEATURES,
        "labels": ("--features", "a", "--model", "logistic", "--target", "bought"),
        "groups": ("--features", "a", "--group", "sensor"),
    }.items():
        watch(as_lines(rows[:100]), *more, store=store)
        (tmp_path / store / "watch.json").unlink()
        assert "has no watch.json, which says" in watch(as_lines(rows), *more[2:], store=store, code=3)[1]
        assert mr.Stream.open(tmp_path / store, read_only=True).position == 100


def test_the_target_is_no_feature(watch, rows, tmp_path):
    assert watch(as_lines(rows), "--features", "a,y", code=3)[1] == "the target 'y' is among the features"
    assert not (tmp_path / "run").exists()


def test_a_target_of_another_kind_is_refused(watch, rows, tmp_path):
    """It took fractions between 0 and 1 as chances, and put all other rows aside."""
    said = watch(as_lines(rows), "--features", "a", "--model", "logistic", code=3)[1]
    assert f"row 0 (counting from 0): the target 'y' is {rows[0]['y']:g}, which is no class: 0 or 1" in said
    said = watch(as_lines(rows), *FEATURES, "--model", "logistic", code=3)[1]
    assert "numbers are for --model linear" in said
    down = [{"a": row["a"], "y": -abs(row["y"])} for row in rows]
    assert "counts are at least 0" in watch(as_lines(down), "--model", "poisson", code=3)[1]
    assert not (tmp_path / "run").exists()
    late = [{"a": row["a"], "y": at % 4} for at, row in enumerate(rows)]
    for some in (late, late[:30]):
        said = watch(as_lines(some), "--model", "logistic", store=f"late{len(some)}", code=3)[1]
        assert "many of the first rows cannot be used, as row 2 (counting from 0): the target 'y' is 2" in said
    few = [{"a": row["a"], "y": 0.5 if at % 8 == 1 else at % 2} for at, row in enumerate(rows)]
    found, _ = watch(as_lines(few), "--model", "logistic", store="few")
    assert found["quarantined"] == 75
    assert "which is no class" in (tmp_path / "few" / "quarantine.ndjson").read_text()


def with_commas(rows):
    return as_table(rows, ";").replace(".", ",")


def test_a_decimal_comma(watch, rows):
    numbers = [{"k": at % 7 if at < 3 else at % 7 + 0.5, "a": row["a"], "y": row["y"]} for at, row in enumerate(rows)]
    numbers[0] |= {"a": 1, "y": 3}
    found, said = watch(with_commas(numbers))
    assert "Numbers have a decimal comma, as" in said
    again, _ = watch(as_lines(numbers), store="points")
    assert (found["x"], found["quarantined"]) == (again["x"], 0)
    mixed = with_commas(numbers) + "1.5;2;3\n"
    assert watch(mixed)[0]["quarantined"] == 1
    found, said = watch(as_table(numbers, ";") + "1,5;2;3\n", store="mixed")
    assert (found["quarantined"], "decimal comma" in said) == (1, False)


def test_what_differs_is_named(watch, rows):
    watch(as_lines(rows[:100]), *FEATURES, "--learn", 50)
    for more, said in (
        (("--levels", "day=Fri,Mon"), "the levels of 'day': Fri, Mon, Sat, and not Fri, Mon"),
        (("--model", "poisson"), "--model: linear, and not poisson"),
        (("--features", "a"), "the features: a, warm, day, and not a"),
        (("--group", "sensor"), "the group: None, and not sensor"),
        (("--keep", 7), "--keep: 0, and not 7"),
    ):
        assert f"not what is asked for. {said}" in watch(as_lines(rows), *more, code=3)[1]
    assert "level 'Mon' is named twice" in watch(as_lines(rows), "--levels", "day=Mon,Mon", code=3)[1]


def test_answers_are_printed_with_standard_errors(rows, tmp_path):
    given = ["watch", "--store", str(tmp_path / "run"), "--target", "y", "--features", "a"]
    said = CliRunner().invoke(app, given, input=as_lines(rows)).stdout
    assert " ± 0.0" in said.partition("(intercept)")[0]
