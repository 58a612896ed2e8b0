"""A tree of examples as a repository: one operator, baseline and iteration for each kernel that an example compares."""

import ast
import math
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Final

import msgspec

from harness.authoring import repository
from harness.catalog import gpus
from harness.catalog.tree import Iteration, Tree
from harness.errors import InfrastructureError, UsageError, printable
from harness.extras.foreign.scripts import imports_tilelang, parsed, python_files
from harness.extras.forked import ForkingChild
from harness.extras.scratch_tree import parent_of, write_iteration
from harness.extras.versus.environment import environment
from harness.judge.candidate import Settings
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.problem import parse_shape_key
from harness.machine.files import put
from harness.machine.progress import Quiet, Reporter, reporting
from harness.machine.repository import OWN, SHIPPED, code
from harness.operators import adopt
from harness.records.base import Stage, Status
from harness.runs.run import Plan, run

MODEL: Final = "example"
TAG: Final = "as_it_is"
NOISE: Final = frozenset({"example", "examples", "test", "tests", "tilelang", "tl"})  # of names
HERE: Final = Path(__file__).parent
# Modules that each repository of examples gets, by the files here.
HELPERS: Final = {
    "operators/replay.py": "replay.py",
    "kernels/replay.py": "replay.py",
    "kernels/programs.py": "programs.py",
}
_ITERATION: Final = '''\
"""The kernel of {source}, as the script compiles it."""

from harness.iteration import Problem, Program
from kernels.{name} import program

PARENT = "{parent}"
CONFIG = dict()


def build(problem: Problem) -> Program:
    return program()
'''


class AdoptedExample(msgspec.Struct, frozen=True):
    """One script, or one test of it, and what came of it for the GPU of the key ``gpu``.

    ``fixed`` of the ``inputs`` hold the script's own numbers alone. ``wide`` says that the reference is computed in a
    wider precision than the script's. Of ``own_limits`` outputs the script's own precision sets the limits. ``built``
    is None where it was not tried. ``reason`` says why it is not adopted, or why its kernel does not compile.
    ``others`` says of other TileLangs, by version, why they have no kernel of it; None where they have one.
    """

    folder: str
    script: str
    function: str | None
    shape_key: str | None = None
    launches: int = 0
    inputs: int = 0
    outputs: int = 0
    fixed: int = 0
    wide: bool = True
    own_limits: int = 0
    built: bool | None = None
    reason: str | None = None
    gpu: str = ""
    others: dict[str, str | None] = {}

    @property
    def rank(self) -> tuple[bool, bool]:
        return self.built is True, self.shape_key is not None

    @property
    def source(self) -> str:
        return f"{self.script}, {self.function}" if self.function else self.script


@dataclass(frozen=True)
class AdoptPlan:
    """Which file or folder to adopt, the repository to write, and for which GPUs: the first that a kernel fits."""

    examples: Path
    into: Path
    gpus: tuple[Gpu, ...]
    settings: Settings
    deadline_s: float
    first: bool = False  # of each folder only the first that compiles
    build: bool = True
    tilelangs: tuple[str, ...] = ()  # other TileLangs, which keep each kernel too, as `versus` names environments

    @property
    def root(self) -> Path:
        return self.examples if self.examples.is_dir() else self.examples.parent

    def cases(self) -> list[AdoptedExample]:
        """The tests and scripts, those of a folder together, and its tests first: they are smaller."""
        found = [each for path in python_files(self.examples) for each in self._of(path)]
        if not found:
            raise UsageError(f"{self.examples} holds no Python that imports TileLang")
        return sorted(found, key=lambda each: (each.folder, each.function is None, each.script))

    def _of(self, path: Path) -> Iterator[AdoptedExample]:
        place = path.relative_to(self.root)
        folder = place.parts[0] if len(place.parts) > 1 else self.root.name
        module = parsed(path)
        if module is None:  # the run of a broken script says what is wrong with it
            if b"tilelang" in path.read_bytes():
                yield AdoptedExample(folder, str(place), None)
            return
        if path.name.startswith("test_"):
            names = (node.name for node in module.body if isinstance(node, ast.FunctionDef))
            yield from (AdoptedExample(folder, str(place), name) for name in names if name.startswith("test_"))
        elif imports_tilelang(module) and not path.name.startswith("regression_"):
            yield AdoptedExample(folder, str(place), None)


def adopt_examples(plan: AdoptPlan) -> list[AdoptedExample]:
    """Carry a plan out; of several with one name only the first that can be adopted is."""
    cases, found = plan.cases(), dict[str, AdoptedExample]()
    repository.init(plan.into)
    for to, source in HELPERS.items():
        put(plan.into / to, (HERE / source).read_bytes())
    with reporting(len(cases) * len(plan.gpus)) as reporter, _captures(plan, reporter) as captured:
        for gpu, case in product(plan.gpus, cases):
            done = [each for each in found.values() if each.shape_key and each.built is not False]
            known = any(each.folder == case.folder for each in done) if plan.first else False
            if known or name_of(case) in map(name_of, done):
                reporter.finished(f"{case.source}: passed over, as there is one of its {'folder' if known else 'name'}")
                continue
            reporter.doing(case.source)
            tried = _built(plan, gpu, captured(case, gpu))
            found[case.source] = max(found.get(case.source, tried), tried, key=lambda each: each.rank)
            told = tried.reason or f"{tried.shape_key}{f' compiles for {gpu.key}' if tried.built else ''}"
            told += "".join(f"; TileLang {version}: {why}" for version, why in tried.others.items() if why)
            reporter.finished(printable(f"{case.source}: {told}"))
    return list(found.values())


def name_of(case: AdoptedExample) -> str:
    """The operator's name: the words of folder, script and test, each once."""
    words = re.findall("[a-z0-9]+", f"{case.script.removesuffix('.py')} {case.function or ''}".lower())
    name = "".join(dict.fromkeys(each for each in words if each not in NOISE)) or "example"
    name = name if name[0].isalpha() else f"x{name}"
    return f"{name}example" if any(path.exists() for path in _shipped(name)) else name


def _shipped(name: str) -> Iterator[Path]:
    """Where modules of this name would lie that tilebench ships."""
    for package in OWN:
        place = SHIPPED.joinpath(*package.split("."), name)
        yield from (place, place.with_suffix(".py"))


@contextmanager
def _captures(plan: AdoptPlan, reporter: Reporter) -> Iterator[Callable[[AdoptedExample, Gpu], AdoptedExample]]:
    """What runs a case in each TileLang, the other ones first, and tells what its script did."""
    with ExitStack() as stack:
        tree = Tree(plan.into)
        environments = [environment(tree, named, reporter) for named in plan.tilelangs]
        children = [(each.tilelang, _worker(plan, each.command, each.variables(tree))) for each in environments]
        others = {version: stack.enter_context(closing(child)) for version, child in children}
        own = stack.enter_context(closing(_worker(plan, (sys.executable,), dict(os.environ))))

        def captured(case: AdoptedExample, gpu: Gpu) -> AdoptedExample:
            order = {
                "path": str(plan.root / case.script), "function": case.function, "name": name_of(case),
                "source": case.source, "deadline_s": math.ceil(plan.deadline_s), "arch": gpu.arch, "sms": gpu.sms,
            }  # fmt: skip
            said = {version: _asked(child, {**order, "programs": True}) for version, child in others.items()}
            made = {each["tilelang"]: each["programs"] for each in said.values() if "programs" in each}
            answer = _asked(own, {**order, "programs": False, "others": made})
            reasons = {version: each.get("reason") for version, each in said.items()}
            return msgspec.structs.replace(case, gpu=gpu.key, others=reasons, **answer)

        yield captured


def _worker(plan: AdoptPlan, python: tuple[str, ...], variables: dict[str, str]) -> ForkingChild:
    """A child that runs the scripts."""
    return ForkingChild([*python, "-m", "harness.extras.adopt.worker", str(plan.into)], code(plan.into), variables)


def _asked(child: ForkingChild, order: dict[str, Any]) -> dict[str, Any]:
    if (answer := child.ask(order)) is None:
        raise InfrastructureError(f"{order['source']}: the child that runs the scripts: {child.last_words()}")
    return answer


def _built(plan: AdoptPlan, gpu: Gpu, case: AdoptedExample) -> AdoptedExample:
    """The case with an iteration: its operator has met its tensors, and its kernel is compiled."""
    if case.shape_key is None:
        return case
    adopt(plan.into)
    try:
        iteration = _iteration(Tree(plan.into), gpu, case)
        if not plan.build:
            return case
        one = Plan(Tree(plan.into), gpu, None, (iteration,), plan.settings, upto=Stage.BUILD)
        (record,) = run(one, Quiet()).records
    except UsageError as error:
        return msgspec.structs.replace(case, shape_key=None, reason=str(error))
    reason = (
        record.reason and record.reason.partition(f" ({record.attempt};")[0].partition(f", at {iteration.name}.py:")[0]
    )
    return msgspec.structs.replace(case, built=record.status is Status.PASSED, reason=reason)


def _iteration(tree: Tree, gpu: Gpu, case: AdoptedExample) -> Iteration:
    """The example's kernel as the first iteration after the baseline."""
    problem = parse_shape_key(case.shape_key or "")
    for key in gpus.table():  # also one that an earlier kernel was for
        shutil.rmtree(tree.sources(key, problem.shape_key, MODEL), ignore_errors=True)
    source = _ITERATION.format(source=case.source, name=problem.operator, parent=parent_of(problem))
    return write_iteration(tree, problem, gpu, MODEL, TAG, source)
