"""The rules that keep the house as it is: where things are, who may know whom, and how large anything may be."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import textwrap
from collections import defaultdict
from pathlib import Path

import pytest
import yaml

import multireplay

ROOT = Path(multireplay.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
TREES = {path: ast.parse(path.read_text()) for path in FILES}

FLOORS = (
    {"errors", "_check", "_jit", "_write", "vectors"},
    {"sets", "replay", "buffer", "show", "steps", "averaging", "tracking", "result", "tables"},
    {"problems"},
    {"engine", "spread"},
    {"inference"},
    {"updates"},
    {"solving"},
    {"solve", "online", "online_file", "streaming", "theory"},
    {"diagnose", "estimators", "rl", "simulate", "torchrl"},
    {"report"},
    {"bench"},
    {"cli"},
)
"""Who may import whom: a room imports from its own floor and those above it in this list."""
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}

KERNELS = ("engine/kernels/", "problems/compiled", "vectors/")
ENTRIES = {
    "solve.solve", "online.Online.__init__", "result.Result.report", "rl.evaluate.evaluate",
    "streaming.stream.Stream.__init__", "report.reports.report_of_result", "report.reports.report_of_tables",
    "estimators.base.LinearEstimator.__init__", "estimators.value.MERValueRegressor.__init__",
    "simulate.autoregressive.AutoregressiveLogistic.__init__", "bench.comparison.compare",
    "bench.reproduction.reproduce",
    "theory.glm.glm_constants", "theory.glm.corollary_2",
    "theory.policy_evaluation.policy_evaluation_constants", "theory.policy_evaluation.corollary_4",
}  # fmt: skip
"""Public entries, which may have as many parameters as there are things to choose."""


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def room_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_rooms(tree: ast.Module) -> set[str]:
    """The rooms that a module imports when it is imported itself."""
    found = set()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "multireplay":
            parts = (node.module or "").split(".")
            found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("multireplay.")}
    return found


def test_imports_go_one_way():
    wrong = [
        f"{name_of(path)} imports {room}"
        for path, tree in TREES.items()
        if room_of(path) not in ("__init__", "__main__")
        for room in imported_rooms(tree)
        if FLOOR.get(room, FLOOR["solve"]) > FLOOR[room_of(path)]  # other names are those of the package itself
    ]
    assert not wrong


UPDATES = {"Update", "Plain", "RichardsonRomberg", "VarianceReduced", "Newton", "Exact", "Sweep", "Extrapolated"}
UPDATES |= {"Multilevel", "BatchReduced", "BatchExtrapolated"}


def test_nobody_asks_for_the_type_of_an_update_or_an_engine_outside_its_room():
    wrong = []
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance"):
                continue
            asked = {name.id for name in ast.walk(node.args[1]) if isinstance(name, ast.Name)}
            asked |= {name.attr for name in ast.walk(node.args[1]) if isinstance(name, ast.Attribute)}
            whole = name_of(path) == "solving/resolve.py" and asked == {"Update"}  # what a user gave is one at all
            if asked & UPDATES and room_of(path) != "updates" and not whole:
                wrong.append(f"{name_of(path)}:{node.lineno} {asked & UPDATES}")
            if any(name.endswith("Stepper") for name in asked):
                wrong.append(f"{name_of(path)}:{node.lineno} {asked}")
    assert not wrong


def test_nothing_reads_a_status_sentence():
    """Programs decide by codes and by the resolved run; sentences are for people."""
    wrong = []
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Compare) and any(isinstance(op, ast.In | ast.NotIn) for op in node.ops):
                text = " ".join(ast.unparse(side) for side in node.comparators)
                if re.search(r"status(?!\.code)|\.message\b|sentence", text):
                    wrong.append(f"{name_of(path)}:{node.lineno} {ast.unparse(node)}")
            if isinstance(node, ast.Call) and re.search(
                r"(status|message)\)?\.(startswith|endswith|find|index)$", ast.unparse(node.func)
            ):
                wrong.append(f"{name_of(path)}:{node.lineno} {ast.unparse(node)}")
    assert not wrong


def test_nothing_hashes_a_repr():
    wrong = []
    for path, tree in TREES.items():
        if "hashlib" not in path.read_text() and "fingerprint" not in path.name:
            continue
        for node in ast.walk(tree):
            calls_repr = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "repr"
            if calls_repr:
                wrong.append(f"{name_of(path)}:{node.lineno}")
            hashed = isinstance(node, ast.Call) and re.search(r"hashlib\.|\.update$", ast.unparse(node.func))
            if hashed and any(
                isinstance(part, ast.FormattedValue) and part.conversion == 114 for part in ast.walk(node)
            ):
                wrong.append(f"{name_of(path)}:{node.lineno}")
    assert not wrong


def test_nothing_is_unpickled():
    wrong = [
        name_of(path) for path in FILES if re.search(r"pickle\.loads?\(|Unpickler|allow_pickle=True", path.read_text())
    ]
    assert not wrong


def functions(path: Path):
    """Every function of a module with its full name."""

    def walk(node, prefix):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield ".".join([*prefix, child.name]), child
                yield from walk(child, [*prefix, child.name])
            elif isinstance(child, ast.ClassDef):
                yield from walk(child, [*prefix, child.name])
            else:
                yield from walk(child, prefix)

    module = name_of(path).removesuffix(".py").replace("/", ".")
    return walk(TREES[path], [module])


def is_compiled(node: ast.FunctionDef) -> bool:
    text = " ".join(ast.unparse(decorator) for decorator in node.decorator_list)
    return bool(re.search(r"jit|kernel|overload|intrinsic", text))


def test_no_function_has_more_than_six_parameters():
    wrong = []
    for path in FILES:
        if name_of(path).startswith((*KERNELS, "cli/")):
            continue
        for name, node in functions(path):
            arguments = node.args
            given = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
            count = len([one for one in given if one.arg not in ("self", "cls")])
            if count > 6 and name not in ENTRIES and not is_compiled(node):
                wrong.append(f"{name}: {count}")
    assert not wrong


def test_files_hold_one_idea_each():
    sizes = {name_of(path): len(path.read_text().splitlines()) for path in FILES if not path.name.startswith("__")}
    assert not {name: size for name, size in sizes.items() if not 60 <= size <= 350 and name != "errors.py"}
    assert not {path.stem for path in FILES} & {
        "short",
        "together",
        "turns",
        "kinds",
        "rows",
        "words",
        "judging",
        "missing",
    }


def test_the_house_is_no_larger_than_it_has_to_be():
    lines = {path: len(path.read_text().splitlines()) for path in FILES}
    assert sum(lines.values()) <= 51_050
    assert sum(size for path, size in lines.items() if room_of(path) == "engine") <= 2_900
    assert len([path for path in FILES if path.parent == ROOT]) <= 14


def test_a_class_name_has_one_meaning():
    found = defaultdict(list)
    for path, tree in TREES.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(name_of(path))
    assert not {name: places for name, places in found.items() if len(places) > 1}


def test_a_docstring_names_its_subject():
    wrong = []
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                text = ast.get_docstring(node) or ""
                if re.match(r"The same\b", text):
                    wrong.append(f"{name_of(path)} {getattr(node, 'name', '')}: {text.splitlines()[0]}")
    assert not wrong


def test_reference_counting_is_switched_off_in_one_file():
    assert [name_of(path) for path in FILES if "_nrt" in path.read_text()] == ["_jit.py"]


CALLS = {
    "default": ("mr.GLM('logistic'), mr.Buffer(features=A, targets=(y > 0) * 1.0)", 17),
    "default policy evaluation": (
        "mr.PolicyEvaluation(0.9), mr.Buffer(features=A[:-1], next_features=A[1:], rewards=y[1:])",
        16,
    ),
    "named order": ("mr.GLM(), mr.Buffer(features=A, targets=y), replay=mr.Multiscale(), step=0.01", 20),
}


@pytest.fixture(scope="module")
def crossed():
    """Modules of ours in which a function runs from the call to the answer, for each of `CALLS`."""
    script = """
    import json
    import sys
    import threading
    import numpy as np
    import multireplay as mr
    A = np.random.default_rng(0).standard_normal((20_000, 3))
    y = A @ [1.0, 2.0, 0.5] + np.random.default_rng(1).standard_normal(20_000)
    given = lambda problem, buffer, **options: (problem, buffer, options)
    def note(frame, event, argument):
        if event == "call":
            met.add(frame.f_code.co_filename)
    found = {}
    for name, call in json.loads(sys.argv[1]).items():
        problem, buffer, options = eval(f"given({call})")
        mr.solve(problem, buffer, **options)  # compiles
        met = set()
        threading.setprofile(note)
        sys.setprofile(note)
        mr.solve(problem, buffer, **options)
        sys.setprofile(None)
        threading.setprofile(None)
        found[name] = sorted(name.split("multireplay/")[-1] for name in met if "/multireplay/" in name)
    print(json.dumps(found))
    """
    calls = json.dumps({name: arguments for name, (arguments, _) in CALLS.items()})
    command = [sys.executable, "-c", textwrap.dedent(script), calls]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.parametrize("call", CALLS)
def test_a_call_crosses_few_modules(call, crossed):
    assert 5 < len(crossed[call]) <= CALLS[call][1], crossed[call]


@pytest.mark.parametrize(("page", "least"), [("docs/architecture.md", 30), ("CONTRIBUTING.md", 10)])
def test_the_map_names_files_that_there_are(page, least):
    repository = Path(__file__).parents[1]
    named = re.findall(r"`(?:python )?([\w/]+(?:\.py|/))`", (repository / page).read_text())
    places = (ROOT, ROOT.parent, repository)
    assert len(named) > least
    assert not [name for name in named if not any((place / name).exists() for place in places)]


def test_a_citation_is_of_this_version():
    cited = yaml.safe_load((Path(__file__).parents[1] / "CITATION.cff").read_text())
    assert (cited["cff-version"], cited["version"], cited["license"]) == (
        "1.2.0",
        multireplay.__version__,
        "BSD-3-Clause",
    )
