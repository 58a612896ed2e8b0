"""The floor plan: which room may import which, no cycles, one name for one class, tests where the code is.

The rooms and their order are those of docs/explanation/architecture.md; what it draws is checked here.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Final

import pytest

from harness.judge.facts.import_reader import imports_of

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = ("harness", "kernels", "baselines", "docs")
# From the ground up: a room imports from itself and from the rooms before it.
ORDER: Final = (
    ("errors",),
    ("machine",),
    ("judge.facts", "operators"),
    ("catalog",),
    ("records",),
    ("evidence",),
    ("judge",),
    ("authoring",),
    ("runs",),
    ("iteration",),
    ("boards",),
    ("container",),
    ("doctor",),
    ("extras",),
    ("cli",),
)
LEVEL: Final = {f"harness.{room}": level for level, rooms in enumerate(ORDER) for room in rooms}
# What the judge imports from outside its folder, module by module, and why no verdict depends on an edit of it.
NOT_DECIDING: Final = {
    "harness.errors": "one-line errors",
    "harness.machine.cores": "which cores a process has",
    "harness.machine.files": "scratch folders",
    "harness.machine.memory": "how much memory there is",
    "harness.machine.nvml": "an instrument: what the driver says of the chip",
    "harness.machine.repository": "where modules lie",
    "harness.catalog.names": "names of iterations",
    "harness.catalog.opponents": "what a user could install; its files are hashed in each record of it",
    "harness.catalog.tree": "paths",
    "harness.records.base": "types of what is written down",
    "harness.records.builds": "types of what is written down",
    "harness.records.results": "types of what is written down",
    "harness.records.store": "reads and appends lines",
    "harness.records.sustained": "types of what is written down",
    "harness.evidence.evidence": "what the compilers say; shown, never judged by",
    "harness.evidence.toolchain": "where the compilers lie",
    "harness.operators": "hashed for each operator by itself",
    "baselines": "hashed for each operator by itself",
}
STARTER: Final = ROOT / "harness" / "authoring" / "starter"  # what ``tilebench init`` copies
# Words that had to be explained; none of them names a module, a class or a function again.
RETIRED: Final = frozenset({"asking", "blame", "leash", "settle", "yard", "court", "course", "carve", "Manner", "bell"})


def modules() -> dict[str, Path]:
    """Every module by its dotted name."""
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            dotted = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            found[dotted.removesuffix(".__init__")] = path
    return found


MODULES: Final = modules()


@cache
def imports(module: str) -> frozenset[str]:
    """The project's modules that a module imports, at its top or inside a function; not for type checking alone."""
    path = MODULES[module]
    package = path.relative_to(ROOT).parts[:-1]
    found = (each for node in _running(ast.parse(path.read_text())) for each in imports_of(node, package))
    names = {each.full if each.full in MODULES else each.dotted for each in found}
    return frozenset(names & MODULES.keys() - {module})


@cache
def defined(module: str) -> tuple[list[str], list[str]]:
    """The names of a module's classes and functions."""
    nodes = list(ast.walk(ast.parse(MODULES[module].read_text())))
    classes = [node.name for node in nodes if isinstance(node, ast.ClassDef)]
    return classes, [node.name for node in nodes if isinstance(node, ast.FunctionDef)]


def _running(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from _running(child)


def room_of(module: str) -> str:
    """The longest room that a module lies in; the module itself where it lies in none."""
    return max((room for room in LEVEL if f"{module}.".startswith(f"{room}.")), key=len, default=module)


def test_no_module_imports_itself_by_a_detour() -> None:
    try:
        tuple(TopologicalSorter({module: imports(module) for module in MODULES}).static_order())
    except CycleError as error:
        pytest.fail(f"import cycle: {' -> '.join(error.args[1])}")


@pytest.mark.parametrize("module", [name for name in MODULES if room_of(name) in LEVEL])
def test_imports_go_down(module: str) -> None:
    own = room_of(module)
    upward = {each for each in imports(module) if LEVEL.get(room_of(each), -1) > LEVEL[own]}
    assert not upward, f"{module} imports from a room above it"


def test_the_harness_does_not_import_kernels() -> None:
    families = "|".join(sorted({path.parent.name for path in (ROOT / "kernels").glob("*/family.py")}))
    strings = re.compile(rf"\bkernels\.({families}|front)\b")
    for module, path in MODULES.items():
        if module.startswith("harness"):
            assert not [each for each in imports(module) if each.split(".")[0] == "kernels"], module
            assert not strings.search(path.read_text()), f"{module} names a family"


def test_few_modules_stand_outside_a_room() -> None:
    assert len(list((ROOT / "harness").glob("*.py"))) <= 6


def test_class_names_are_unique() -> None:
    places = defaultdict(list)
    for module in MODULES:
        for name in defined(module)[0]:
            places[name].append(module)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_retired_words_name_nothing() -> None:
    for module in MODULES:
        classes, functions = defined(module)
        assert RETIRED.isdisjoint({*classes, *functions, *module.split(".")}), module


def test_what_decides_lies_in_the_judge() -> None:
    """What the judge imports is its own folder's, or is listed here with what it is; nothing is listed in vain."""
    judge = {module for module in MODULES if f"{module}.".startswith("harness.judge.")}
    outside = {each: module for module in judge for each in imports(module) - judge}
    for each, module in outside.items():
        assert each in NOT_DECIDING, f"{module} imports {each}, which no hash of the judge covers"
    assert outside.keys() == NOT_DECIDING.keys()


def test_tests_lie_where_the_code_does() -> None:
    for path in (ROOT / "tests" / "harness").rglob("test_*.py"):
        folder = path.parent.relative_to(ROOT / "tests")
        assert (ROOT / folder).is_dir(), f"{path.relative_to(ROOT)} mirrors no folder"
    for module, path in MODULES.items():
        inside = module.startswith("harness.") and path.parent not in (ROOT / "harness", STARTER)
        if inside and path.name != "__init__.py":
            folder = ROOT / "tests" / path.parent.relative_to(ROOT)
            assert any(folder.rglob("test_*.py")), f"{module} has no folder of tests"
