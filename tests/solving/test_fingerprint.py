"""Two runs that differ anywhere have different fingerprints; the same run has the same in every process."""

from __future__ import annotations

import subprocess
import sys

import numba
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import multireplay as mr
from multireplay.solving.fingerprint import fingerprint, fingerprint_of
from multireplay.solving.resolve import resolve

A = np.random.default_rng(0).standard_normal((200, 3))


def asked(buffer=None, problem=None, **others):
    import inspect

    given = {name: parameter.default for name, parameter in inspect.signature(mr.solve).parameters.items()}
    buffer = mr.Buffer(features=A, targets=A[:, 0]) if buffer is None else buffer
    return resolve({**given, "problem": problem or mr.GLM(), "buffer": buffer, "holdout": None, **others})


def scaled(factor):
    return lambda z: factor * z


OTHERS = {
    "data": lambda: asked(mr.Buffer(features=A, targets=np.nextafter(A[:, 0], 1.0))),
    "one value": lambda: asked(
        mr.Buffer(features=np.where(np.arange(600).reshape(200, 3) == 599, 0.0, A), targets=A[:, 0])
    ),
    "step": lambda: asked(step=0.1),
    "another step": lambda: asked(step=0.1 + 1e-17 + 2e-17),
    "order": lambda: asked(replay=mr.Multiscale()),
    "another order": lambda: asked(replay=mr.Multiscale(epochs=2)),
    "start": lambda: asked(x0=[0.0, 0.0, 1e-300], replay=mr.Serial()),
    "set": lambda: asked(constraint=mr.sets.Ball(1.0)),
    "another set": lambda: asked(constraint=mr.sets.Ball(2.0)),
    "average": lambda: asked(average="none"),
    "ridge": lambda: asked(problem=mr.GLM(ridge=0.1)),
    "link": lambda: asked(problem=mr.GLM(link=lambda z: z + 1), replay=mr.Serial(), step=0.1),
    "another link": lambda: asked(problem=mr.GLM(link=lambda z: z + 2), replay=mr.Serial(), step=0.1),
    "closure": lambda: asked(problem=mr.GLM(link=scaled(1.0)), replay=mr.Serial(), step=0.1),
    "another closure": lambda: asked(problem=mr.GLM(link=scaled(2.0)), replay=mr.Serial(), step=0.1),
    "compiled link": lambda: asked(problem=mr.GLM(link=numba.njit(lambda z: z)), replay=mr.Serial(), step=0.1),
    "update": lambda: asked(update=mr.Newton(2)),
    "passes": lambda: asked(passes=2),
}


def test_whatever_differs_shows():
    found = {name: fingerprint_of(make()) for name, make in OTHERS.items()}
    found["plain"] = fingerprint_of(asked())
    same = [(one, other) for one in found for other in found if one < other and found[one] == found[other]]
    assert not [pair for pair in same if set(pair) != {"step", "another step"}]  # which are the same number


def test_tables_of_states_count_with_all_their_numbers():
    states = np.arange(50) % 5
    buffer = mr.Buffer(states=states[:-1], next_states=states[1:], rewards=np.ones(49))
    tables = [np.eye(5), np.eye(5) + 1e-12, scipy.sparse.csr_array(np.eye(5))]
    assert len({fingerprint_of(asked(buffer, mr.PolicyEvaluation(0.9, table=table))) for table in tables}) == 3


def test_threads_and_progress_change_no_bit_and_no_fingerprint():
    assert fingerprint_of(asked(threads=1)) == fingerprint_of(asked(threads=2, progress=True))


def test_a_set_of_ones_own_counts_with_its_code_and_its_values():
    def make(radius, sign):
        class Own(mr.sets.Set):
            def __init__(self):
                self.radius = radius

            if sign > 0:

                def project(self, x):
                    np.clip(x, 0, self.radius, out=x)
            else:

                def project(self, x):
                    np.clip(x, -self.radius, 0, out=x)

        return Own()

    kinds = [make(1.0, 1), make(2.0, 1), make(1.0, -1)]
    assert len({fingerprint(constraint=kind) for kind in kinds}) == 3
    assert fingerprint(constraint=make(1.0, 1)) == fingerprint(constraint=make(1.0, 1))


@given(st.integers(0, 2999), st.floats(allow_nan=False, allow_infinity=False, width=64))
def test_any_number_of_a_long_start_counts(place, value):
    one, other = np.zeros(3000), np.zeros(3000)
    other[place] = value
    assert (fingerprint(x0=one) == fingerprint(x0=other)) == (one.tobytes() == other.tobytes())


def test_it_is_the_same_in_another_process():
    script = "import numpy as np, multireplay as mr\nfrom multireplay.solving.fingerprint import fingerprint\n"
    script += (
        "print(fingerprint(problem=mr.GLM(ridge=0.5), order=mr.Multiscale(), x0=np.arange(3.0), f=lambda z: z * 2))"
    )
    texts = {
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    }
    assert len(texts) == 1


def test_what_cannot_be_told_apart_is_refused():
    class Stubborn:
        def __reduce__(self):
            raise TypeError("no")

    with pytest.raises(mr.InputError, match="cannot tell whether Stubborn objects are the same"):
        fingerprint(thing=Stubborn())


def helper(z):
    return z


def test_what_a_function_looks_up_inside_others_counts(monkeypatch):
    def link(z):
        return sum(helper(part) for part in (z,))

    before = fingerprint(link=link)
    monkeypatch.setitem(globals(), "helper", lambda z: 2 * z)
    assert fingerprint(link=link) != before


def test_a_number_that_a_class_of_ones_own_holds_counts():
    def schedule(size):
        class Own(mr.steps.Schedule):
            rate = size

            @staticmethod
            def half():
                return size / 2

            def values(self, k, first, count):
                return np.full(count, self.rate)

        return Own()

    assert fingerprint(step=schedule(0.1)) != fingerprint(step=schedule(0.2))
    assert fingerprint(step=schedule(0.1)) == fingerprint(step=schedule(0.1))
