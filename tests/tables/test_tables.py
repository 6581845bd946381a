"""People's tables: what columns hold, how they become features, and where chains of rows end."""

from __future__ import annotations

import gzip
from functools import reduce
from operator import add

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multireplay.buffer.disk.dialect import Dialect
from multireplay.errors import InputError
from multireplay.tables import Contents, Kind, Recipe, Term, as_times, chained, chained_there, look_at, looks
from multireplay.tables.formula import FormulaRecipe


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        ([1, 2, None, 4], Kind.number),
        ([True, False, True, None], Kind.number),
        (["a", "b", "a", ""] * 3, Kind.category),
        (["1", "2", "n.a.", "4"], Kind.mixed),
        (["1.5", "2,5", "3", "4"], Kind.mixed),
        ([f"name {k}" for k in range(12)], Kind.text),
        (["2024-01-31", "2024-02-01", None, "2024-02-02"], Kind.date),
        (["31/01/2024 10:00", "01/02/2024 11:00", "02/02/2024 12:00"], Kind.date),
        ([None, None, None], Kind.nothing),
        ([["a"], ["b"], ["c"]], Kind.text),
        ([[1.0, 2.0], [3.0, 4.0]], Kind.number),
    ],
)
def test_what_a_column_holds(cells, kind):
    assert look_at(pa.table({"c": cells}))["c"].kind is kind


def test_one_word_in_a_column_of_numbers_is_named():
    cells = [str(k / 7) for k in range(20_000)]
    cells[812] = "broken"
    look = look_at(pa.table({"temp": cells}))["temp"]
    assert look.kind is Kind.mixed
    assert "text in 1 of 20000 rows: 'broken' at row 812" in str(look.refuse())


def test_numbers_as_categories_when_asked():
    table = pa.table({"hour": [1, 2, 10, 2], "share": [1.0, 1.5, 1.0, 1.5]})
    looks = look_at(table, ("hour", "share"))
    assert looks["hour"].levels == ("1", "2", "10")
    assert looks["share"].levels == ("1", "1.5")


def test_features_and_rows_that_cannot_be_used():
    recipe = Recipe((Term("heat"), Term("day", levels=("Mon", "Tue", "Wed")), Term("psi", 1)))
    table = pa.table(
        {
            "heat": [1.0, 2.0, None, 4.0, np.inf, 6.0],
            "day": ["Mon", "Wed", "Tue", "Sun", "Mon", None],
            "psi": [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10, 11]],
        }
    )
    design = recipe.design(table)
    assert recipe.names == ("heat", "day=Tue", "day=Wed", "psi[1]")
    assert design.usable.tolist() == [True, True, False, False, False, False]
    assert design.matrix[:2].tolist() == [[1, 0, 0, 1], [2, 0, 1, 3]]
    assert np.isnan(design.matrix[2:]).all()
    assert dict(design.reasons) == {
        "nothing in 'heat'": 1, "infinity in 'heat'": 1, "nothing in 'day'": 1,
        "'Sun' in 'day', which the fit has not seen": 1,
    }  # fmt: skip
    assert Recipe.from_dict(recipe.to_dict()) == recipe


def test_times_in_the_usual_ways():
    assert as_times(pa.array(["30/01/2024", "31/01/2024", "01/02/2024"]), "t").show(2) == "2024-02-01"
    assert as_times(pa.array(["01/31/2024", "02/01/2024"]), "t").show(1) == "2024-02-01"
    both = as_times(pa.array(["01/02/2024", "01/03/2024", "01/04/2024"]), "t")  # the usual order of the day and month
    assert both.show(1) == "2024-03-01"
    assert as_times(pa.array(["03/02/2024", "04/02/2024", "01/03/2024"]), "t").show(2) == "2024-03-01"
    assert as_times(pa.array(["02/03/2024", "02/04/2024", "03/01/2024"]), "t").show(2) == "2024-03-01"
    assert as_times(pa.array([20240131, 20240201]), "t").lasting(86_400e9) == "1 d"
    assert as_times(pa.array([1.5, 2.5]), "t").show(1) == "2.5"
    with pytest.raises(InputError, match="'north', which is no date"):
        as_times(pa.array(["north", "south"]), "t")


def test_gaps_and_repeated_times_end_chains_and_are_shown_as_dates():
    hours = np.arange("2024-03-01", "2024-03-11", dtype="datetime64[h]").astype("datetime64[s]")
    hours = np.delete(np.insert(hours, 50, hours[49]), [100, 101])
    found = chained(np.ones(len(hours), dtype=bool), None, as_times(pa.array(hours), "when"))
    assert np.flatnonzero(found.starts).tolist() == [0, 50, 100]
    said = " ".join(found.sentences)
    assert "Time is 'when', from 2024-03-01 to 2024-03-10 23:00." in said
    assert "1 time in 'when' there twice, first 2024-03-03 01:00 at row 50" in said
    assert "1 gap in 'when' (the usual step is 1 h, the longest gap 3 h)" in said
    months = pa.array(np.arange("2020-01", "2024-01", dtype="datetime64[M]").astype("datetime64[s]"))
    assert chained(np.ones(48, dtype=bool), None, as_times(months, "month")).count == 1


def test_time_that_goes_back_is_refused():
    days = pa.array(["2024-01-01", "2024-01-03", "2024-01-02"])
    with pytest.raises(InputError, match=r"is 2024-01-02 at row 2 .* after 2024-01-03 at row 1"):
        chained(np.ones(3, dtype=bool), None, as_times(days, "day"))
    several = pa.array(["2024-01-01", "2024-01-02"] * 3)
    groups = np.repeat(["a", "b", "c"], 2)
    assert chained(np.ones(6, dtype=bool), groups, as_times(several, "day")).count == 3
    with pytest.raises(InputError, match="several series in one file"):
        chained(np.ones(9, dtype=bool), None, as_times(pa.array(np.repeat([1, 2, 3], 3)), "day"))


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), min_size=1, max_size=30))
def test_chains_against_a_loop(rows):
    """Rows follow on one another in a chain if they do so in their group, and none between them was dropped."""
    groups = np.array([group for group, _ in rows])
    usable = np.array([there for _, there in rows])
    wanted, starts = [], []
    for group in dict.fromkeys(groups.tolist()):
        fresh = True
        for row in np.flatnonzero(groups == group):
            if usable[row]:
                wanted.append(row)
                starts.append(fresh)
            fresh = not usable[row]
    found = chained(usable, groups)
    assert found.rows.tolist() == wanted
    assert found.starts.tolist() == starts


@pytest.mark.parametrize(
    ("name", "content", "columns"),
    [
        ("a.csv", "größe;last\n1,5;2\n", {"größe": [1.5], "last": [2]}),
        ("a.csv", "größe;last\n1,5;2\n".encode("latin-1"), {"größe": [1.5], "last": [2]}),
        ("a.csv", "x,y\n1.5,2\n".encode("utf-16"), {"x": [1.5], "y": [2]}),
        ("a.tsv", "x\ty\n1.5\t2\n", {"x": [1.5], "y": [2]}),
        ("a.txt", "x|y\n1.5|2\n", {"x": [1.5], "y": [2]}),
        ("a.csv.gz", gzip.compress(b"x,y\n1.5,2\n", mtime=0), {"x": [1.5], "y": [2]}),
        ("a.csv", b"\xef\xbb\xbfx,y\n1.5,?\n", {"x": [1.5], "y": [None]}),
        ("a.csv", b"x,y\n1," + b"a" * 70_000 + b"\n2,\xe9\n", {"x": [1, 2], "y": ["a" * 70_000, "é"]}),
    ],
)
def test_dialects_are_found_out(tmp_path, name, content, columns):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert Dialect().read(path).to_pydict() == columns


FORMULAS = pa.table({
    "load": [1.0, 2.0, 3.0, 4.0] * 4, "heat": [1.0, 2.0, None, -4.0] * 4, "day": ["Mon", "Tue", "Wed", None] * 4,
    "my col": [1, 2, 3, 4] * 4,
})  # fmt: skip


def test_a_formula_against_one_written_out():
    recipe = FormulaRecipe.of("load ~ heat * C(day) + {heat**2} + `my col`", FORMULAS)
    assert recipe.names == (
        "heat", "C(day)[T.Tue]", "C(day)[T.Wed]", "heat ** 2", "my col", "heat:C(day)[T.Tue]", "heat:C(day)[T.Wed]",
    )  # fmt: skip
    design = recipe.design(FORMULAS.slice(0, 4))
    assert design.matrix[:2].tolist() == [[1, 0, 0, 1, 1, 0, 0], [2, 1, 0, 4, 2, 2, 0]]
    assert design.usable.tolist() == [True, True, False, False]
    again = FormulaRecipe.from_dict(recipe.to_dict(), recipe.names)
    new = pa.table({"heat": [3.0, 3.0], "day": ["Wed", "Sun"], "my col": [1, 1]})
    assert again.design(new).matrix[0].tolist() == [3, 0, 1, 9, 1, 0, 3]
    assert dict(again.design(new).reasons) == {"'Sun' in 'day', which the fit has not seen": 1}


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("load ~ heat + {__import__('os').getcwd()}", "taken are columns"),
        ("load ~ {heat.__class__}", "taken are columns"),
        ("load ~ {9**9**9**9}", "taken are columns"),
        ("load ~ {heat**99}", "taken are columns"),
        ("load ~ poly(heat, 2)", "taken are columns"),
        ("log(load) ~ heat", "there must be one column"),
        ("load ~ nope", "'nope', which is no column"),
        ("load ~ load", "also on the right"),
        ("load ~ 1", "no column on the right"),
        ("load ~ heat | day", "several parts"),
        ("load ~ (", "cannot be read"),
        ("load", "a formula is"),
    ],
)
def test_formulas_that_are_refused(formula, message):
    with pytest.raises(InputError, match=message):
        FormulaRecipe.of(formula, FORMULAS)


class TestTheEndOfEverySeries:
    def held(self, sizes, share, usable=None):
        groups = np.concatenate([[f"g{k}"] * size for k, size in enumerate(sizes)])
        usable = np.ones(len(groups), dtype=bool) if usable is None else usable
        found = chained(usable, groups)
        flags, words = found.last(share)
        return groups[found.rows][flags].tolist(), words, flags

    def test_without_groups_it_is_the_end_of_the_record(self):
        flags, words = chained(np.arange(50) != 3).last(0.2)
        assert (flags.tolist(), words) == ([False] * 39 + [True] * 10, "the last 10 rows")

    def test_of_every_group(self):
        groups, words, flags = self.held([10, 20, 2], 0.2)
        assert groups == ["g0"] * 2 + ["g1"] * 4
        assert words == "the last rows of 2 of 3 groups (6 rows)"
        assert flags[8:10].all()
        assert not flags[:8].any()

    def test_rows_that_are_dropped_do_not_count(self):
        usable = np.arange(20) < 15  # the second group has five rows left
        assert self.held([10, 10], 0.2, usable)[0] == ["g0", "g0", "g1"]

    def test_where_groups_are_short_it_is_the_last_of_them(self):
        groups, words, _ = self.held([2] * 10, 0.2)
        assert groups == ["g8", "g8", "g9", "g9"]
        assert words == "the last 2 of 10 groups, all short (4 rows)"


COLUMNS = {
    "numbers": pa.array([1.5, None, 2.0, float("nan")] * 6),
    "one number": pa.array([3.0] * 24),
    "counting": pa.array(range(1, 25)),
    "moments": pa.array(range(1_700_000_000, 1_700_000_024)),
    "names": pa.array([2**60 + k for k in range(24)]),
    "words": pa.array(["b", "a", None, ""] * 6),
    "one word": pa.array(["b"] * 24),
    "numbers and a word": pa.array([f"{k}.5" for k in range(23)] + ["off"]),
    "dates": pa.array([f"2024-01-{k:02d}" for k in range(1, 25)]),
    "yes and no": pa.array([True, None, False] * 8),
    "lists": pa.array([[1.0, 2.0], None] * 12),
    "uneven lists": pa.array([[1.0, 2.0]] * 20 + [[1.0]] * 4),
    "nothing at first": pa.array([None] * 20 + [1.0, 2.0, 3.0, 4.0]),
    "nothing": pa.array([None] * 24, pa.float64()),
    "many words": pa.array([f"name {k}" for k in range(24)]),
}


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("asked", [False, True], ids=["", "asked for"])
def test_a_column_in_parts_is_what_it_is_as_a_whole(name, asked):
    called = "unix time" if name == "moments" else name
    whole = look_at(pa.table({called: COLUMNS[name]}), (called,) if asked else ())[called]
    for size in (1, 7, 20):
        column = pa.chunked_array([COLUMNS[name]])
        parts = [Contents.of(column.slice(first, size), asked, first) for first in range(0, 24, size)]
        assert reduce(add, parts).look(called, asked) == whole


def test_more_texts_than_are_told_apart(monkeypatch):
    monkeypatch.setattr(looks, "MOST", 8)
    column = pa.array([f"name {k}" for k in range(24)])
    parts = [Contents.of(column.slice(first, 6), False, first) for first in range(0, 24, 6)]
    assert "8 or more different texts in 24 rows" in reduce(add, parts).look("c").about


@given(st.integers(0, 2**32 - 1))
def test_chains_of_rows_that_stay_are_those_of_rows_in_memory(seed):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 60))
    usable = rng.random(count) < 0.8
    sizes = np.diff(np.unique(np.append(rng.integers(0, count, 3), [0, count])))
    labels = np.repeat(np.arange(len(sizes)), sizes) if rng.random() < 0.7 else None
    times = None
    if rng.random() < 0.7:
        steps = rng.choice([0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 4], count)
        times = as_times(pa.array(np.cumsum(steps) * 2.0), "t")
    starts = None if labels is None else np.append(0, np.cumsum(sizes)[:-1])
    try:
        here = chained(usable, labels, times)
    except InputError:  # most times are the same
        return
    there = chained_there(count, np.flatnonzero(~usable), starts, times)
    assert there.lengths == here.lengths
    assert there.series == here.series
    assert there.sentences == here.sentences
    places = [begin + np.arange(length) for begin, length in zip(there.begins, there.lengths, strict=True)]
    assert np.array_equal(np.concatenate([np.empty(0, dtype=int), *places]), here.places)
