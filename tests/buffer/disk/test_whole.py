from __future__ import annotations

import numpy as np
import pytest

import multireplay as mr


def write(tmp_path, text):
    path = tmp_path / "log.csv"
    path.write_text(text)
    return path


def test_columns(tmp_path):
    path = write(tmp_path, "when,a,b,y,state\n2020-01-01,1,2.5,true,3\n2020-01-02,2,1e-3,false,4\n")
    buffer = mr.Buffer.open(path, {"features": ["a", "b"], "targets": "y", "next": ("state", 1)}, time="when")
    assert buffer["features"].tolist() == [[1.0, 2.5]]
    assert buffer["targets"].tolist() == [True]
    assert buffer["next"].tolist() == [4]
    assert list(mr.Buffer.open(path, time="when")) == ["a", "b", "y", "state"]


def test_many_rows_are_what_numpy_reads(tmp_path):
    values = np.random.default_rng(0).standard_normal((3000, 3))
    path = tmp_path / "log.csv"
    np.savetxt(path, values, delimiter=",", header="a,b,c", comments="", fmt="%.17g")
    assert np.array_equal(mr.Buffer.open(path, {"x": ["c", "a", "b"]})["x"], values[:, [2, 0, 1]])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n3,x\n", r"column 'b' of .*log.csv holds 'x' at row 1 \(counting from 0\), which is not a number"),
        (
            "a,b\n1,2\n3\n",
            r"log.csv cannot be read as CSV: it has 2 names .*, but 1 cells in the line '3' .number 3 ",
        ),
        ("a,b\n1,2\n3,\n", r"log.csv has nothing in column 'b' at row 1 "),
        ("a,b\n1,2\n3,nan\n", r"log.csv has nothing in column 'b' at row 1 "),
        ("a,b\n1,2\n3,inf\n", r"log.csv holds inf in column 'b' at row 1 "),
        ("1,2\n3,4\n", r"log.csv needs the names of its columns in the first line, which is 1,2"),
        ("a,a\n3,4\n", r"log.csv has two columns called 'a'"),
        ("a,b\n", r"log.csv is empty: it has no rows below the names"),
        ("", r"log.csv cannot be read as CSV: there are no names with rows below them"),
        (
            "when,a\n2020-01-02,1\n2020-01-01,2\n",
            r"log.csv has when = \d+ at row 1 .*, after \d+ in row 0",
        ),
    ],
)
def test_errors(tmp_path, text, message):
    with pytest.raises(mr.InputError, match=message):
        mr.Buffer.open(write(tmp_path, text), time="when" if "when" in text else None)


@pytest.mark.parametrize("memory", ["30 kB", "150 kB"])
def test_too_large(tmp_path, memory):
    path = write(tmp_path, "a\n" + "1\n" * 10_000)
    with pytest.raises(mr.InputError, match=r"log.csv has 20 kB of text; CSV is read as a whole, which does not"):
        mr.Buffer.open(path, memory=memory)
