"""New iterations: the next one of a ladder, and starter ladders for a GPU that has none."""

import ast
import fcntl
import itertools
import os
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from harness.authoring import commands
from harness.authoring.ideas import suggested
from harness.catalog import gpus, names
from harness.catalog.families import COMPILED, Draft, Families
from harness.catalog.fitting import require_fit
from harness.catalog.names import LAST_NUMBER
from harness.catalog.tree import Iteration, Selection, Tree, check_model
from harness.errors import UsageError
from harness.judge import contract
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.hashes import baseline_module, baseline_name, source_sha256
from harness.judge.facts.problem import Problem, parse_shape_key
from harness.machine import files
from harness.machine.repository import ADOPTED
from harness.operators import OPERATORS

DEFAULT_TAG: Final = "next_idea"
MODEL: Final = "tilebench"  # of the starter ladders
WIDTH: Final = 120

# The form of every iteration that tilebench writes; ruff format leaves it as it is.
_TEMPLATE: Final = """\
{docstring}

{imports}

PARENT = {parent}
{config}


def build(problem: Problem) -> {returns}:
    return {result}


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
"""


def new(
    tree: Tree,
    gpu_key: str,
    shape: str,
    model: str,
    parent: str | None,
    tag: str | None = None,
    idea: int | None = None,
) -> Path:
    """Write the next iteration of a ladder, a copy of its parent to edit, and return its path.

    ``parent`` is ``3``, ``003``, ``iter003`` or ``iter003_tag``, by default the newest. The command names the best. An
    empty ladder gets iter000 first. A child of iter000 pins a family that fits the problem, or is a skeleton where none
    takes the operator. ``idea`` is the number of an idea of the parent's profile, by default the first untried; 0 takes
    none. Raises UsageError.
    """
    gpu, problem = gpus.find(gpu_key), parse_shape_key(shape)
    require_fit([(shape, problem)], gpu, None)
    check_model(model)
    if tag is not None and re.fullmatch(names.TAG, tag, re.ASCII) is None:
        raise UsageError(f"tag '{tag}' does not match {names.TAG}; name the idea in it, as in four_stages")
    ladder = LadderFiles(tree, gpu, problem, model)
    with alone(tree):
        base, number = ladder.parent(parent), ladder.next_number
        chosen = suggested(tree, base, idea)
        tag = tag or (chosen.tag if chosen else DEFAULT_TAG)
        says = chosen.sentence if chosen else contract.PLACEHOLDER.format(name=names.name_of(number, tag))
        if base is not None and base.number > 0:
            source = _taken_over(base, says, chosen.config if chosen else {}, tree.short(base.path))
        else:  # a copy of iter000 would call the library, which no other iteration may
            families = Families.of(tree.root)
            draft = families.draft(problem, gpu) if families.taking(problem, gpu) else None
            base = base or ladder.baseline()
            pinned = kernel(draft.family, says, draft.config, base.name) if draft else None
            source = pinned or skeleton(problem, gpu, says, base.name)
        return ladder.write(number, tag, source).path


def bind(tree: Tree, gpu_key: str, shape: str, model: str, named: str, others: Sequence[str]) -> list[Path]:
    """Copy an iteration as it is to the ladders of other problems, as the next of each; its path, then the new ones.

    A ladder that has the same source is left alone. Raises UsageError, and then nothing is written.
    """
    gpu, problem, problems = gpus.find(gpu_key), parse_shape_key(shape), [parse_shape_key(each) for each in others]
    require_fit([(each.shape_key, each) for each in problems], gpu, None)
    with alone(tree):
        base = LadderFiles(tree, gpu, problem, model).named(named)
        try:
            parent = contract.check(base).parent
            source = base.path.read_text(encoding="utf-8")
        except contract.Breach as breach:
            raise UsageError(f"{tree.short(base.path)}: {breach}") from None
        first = names.name_of(0, baseline_tag(problem))
        if parent != first or {each.operator for each in problems} != {problem.operator}:
            raise UsageError(
                f"{base}: only an iteration with PARENT {first} stands in ladders of other {problem.operator}s"
            )
        ladders = [LadderFiles(tree, gpu, each, model) for each in problems]
        return [base.path, *(path for each in ladders for path in _bound(each, base, source))]


def _bound(ladder: "LadderFiles", base: Iteration, source: str) -> Iterator[Path]:
    if any(source_sha256(each.path) == source_sha256(base.path) for each in ladder.present):
        return
    if not ladder.present:
        ladder.baseline()
    yield ladder.write(ladder.next_number, base.tag, source).path


def starter(tree: Tree, gpu: Gpu) -> list[Path]:
    """Write a small ladder for each of a few problems, where a GPU key has no iterations. Returns the new paths.

    Raises UsageError for an architecture without such ladders.
    """
    with alone(tree):
        if tree.scan(gpu.key, Selection())[0]:
            return []
        ladders = Families.of(tree.root).starter(gpu)
        if not ladders:
            raise UsageError(
                f"GPU key '{gpu.key}' has no iterations, and no starter ladder is made for {gpu.arch}; "
                f"write the first by hand under {tree.short(tree.folder(gpu.key))}/srcs/"
            )
        return [path for key, drafts in ladders.items() for path in _climb(tree, gpu, parse_shape_key(key), drafts)]


def first_ladders(tree: Tree, gpu: Gpu, shape_keys: Sequence[str]) -> list[Path]:
    """iter000 for each problem without a ladder, and the first kernel of a family that takes it; the new paths."""
    families, written = Families.of(tree.root), list[Path]()
    with alone(tree):
        present = {each.shape_key for each in tree.scan(gpu.key, Selection())[0]}
        for problem in (parse_shape_key(key) for key in shape_keys if key not in present):
            drafts = list[Draft]()
            with suppress(UsageError):  # no family takes it
                drafts.append(families.draft(problem, gpu))
            written += _climb(tree, gpu, problem, drafts)
    return written


def _climb(tree: Tree, gpu: Gpu, problem: Problem, drafts: Sequence[Draft]) -> list[Path]:
    """iter000 and one iteration per draft, each the parent of the next."""
    ladder = LadderFiles(tree, gpu, problem, MODEL)
    steps = [ladder.baseline()]
    for number, draft in enumerate(drafts, start=1):
        source = kernel(draft.family, draft.idea, draft.config, steps[-1].name)
        steps.append(ladder.write(number, draft.tag, source))
    return [step.path for step in steps]


def ensure_baseline(tree: Tree, problem: Problem, gpu: Gpu, model: str) -> Iteration:
    """iter000 of a ladder, written where it is missing."""
    ladder = LadderFiles(tree, gpu, problem, model)
    with alone(tree):
        return next((each for each in ladder.present if each.number == 0), None) or ladder.baseline()


# Source text


def baseline_tag(problem: Problem) -> str:
    """The tag of iter000: the name of the baseline's module. Raises UsageError for an operator without a baseline."""
    return _baseline_module(problem).stem


def _baseline_module(problem: Problem) -> Path:
    module = baseline_module(ADOPTED.root, problem.operator)
    if module is None:
        advice = "add one, as docs/how-to/add-an-operator.md shows"
        raise UsageError(f"no module of baselines/ has a function '{problem.operator}'; {advice}")
    return module


def baseline(problem: Problem) -> str:
    """The source of iter000, the library's call."""
    name = baseline_name(_baseline_module(problem))
    return _TEMPLATE.format(
        docstring=_docstring(f"{name}, which a user would call instead of a kernel of this ladder."),
        imports="from baselines import library\n"
        "from baselines.interface import Baseline\n"
        "from harness.iteration import Problem, bench_with, main, verify_with",
        parent=None,
        config="CONFIG: dict[str, object] = {}",
        returns="Baseline",
        result="library(problem)",
    )


def kernel(family: str, idea: str, config: Mapping[str, object], parent: str, *, wrapped: bool = False) -> str:
    """The source of an iteration that pins a family. ``wrapped``: CONFIG also holds options of the compiler."""
    parts = [each.rpartition(".") for each in ((COMPILED, family) if wrapped else (family,))]
    called, *given = (name for _, _, name in parts)
    return _TEMPLATE.format(
        docstring=_docstring(idea),
        imports="from harness.iteration import Problem, Program, bench_with, main, verify_with\n"
        + "\n".join(f"from {module} import {name}" for module, _, name in parts),
        parent=_literal(parent),
        config=_pinned(config),
        returns="Program",
        result=f"{called}({', '.join([*given, 'problem', '**CONFIG'])})",
    )


def skeleton(problem: Problem, gpu: Gpu, idea: str, parent: str) -> str:
    """The source of an iteration with a kernel of its own, which compiles and writes zeros."""
    operator = OPERATORS[problem.operator]
    given = zip(operator.outputs.items(), problem.outputs, strict=True)
    outputs = {each.inplace or name: shape for (name, each), (shape, _) in given}
    first = max(outputs, key=lambda name: len(outputs[name]))
    alike = itertools.takewhile(lambda sizes: len(set(sizes)) == 1, zip(*outputs.values(), strict=False))
    lead = min(len(list(alike)), len(outputs[first]) - 1)  # axes that all outputs share
    grid = [f"{first}_shape[{axis}]" for axis in range(lead)] or ["1"]
    blocks = [f"b{axis}" for axis in range(len(grid))]
    named = dict.fromkeys((*operator.inputs, *outputs))
    parameters = "\n".join(f"        {name}: T.Tensor({name}_shape, {name}_dtype)," for name in named)
    tensors = ", ".join(f"({name}_shape, {name}_dtype)" for name in named)
    loops = "\n".join(_zeros(name, len(shape), blocks[:lead], gpu) for name, shape in outputs.items())
    threads = "" if gpu.is_cpu else ', threads=CONFIG["threads"]'
    text = _TEMPLATE.format(
        docstring=_docstring(idea),
        imports=f"import tilelang{'.cpu' if gpu.is_cpu else ''}.language as T\n\n"
        "from harness.iteration import Problem, Program, bench_with, main, verify_with",
        parent=_literal(parent),
        config=_pinned({} if gpu.is_cpu else {"threads": 128}),
        returns="Program",
        result="Program(kernel)",
    )
    body = f"""\
    {tensors} = problem.tensors

    @T.prim_func
    def kernel(
{parameters}
    ):
        with T.Kernel({", ".join(grid)}{threads}) as {blocks[0] if len(blocks) == 1 else f"({', '.join(blocks)})"}:
{loops}

    return"""
    return text.replace("    return", body, 1)


def _zeros(name: str, rank: int, blocks: Sequence[str], gpu: Gpu) -> str:
    """The loop that a block writes its part of an output with, as zeros."""
    axes = range(len(blocks), rank)
    indices = [f"i{axis}" if len(axes) > 1 else "i" for axis in axes]
    store = f"{name}[{', '.join([*blocks, *indices])}] = 0  # compute the element here"
    if not indices:
        return f"            {store}"
    lanes = "T.Parallel" if not gpu.is_cpu else "T.serial" if len(axes) == 1 else "T.grid"
    sizes = ", ".join(f"{name}_shape[{axis}]" for axis in axes)
    return f"            for {', '.join(indices)} in {lanes}({sizes}):\n                {store}"


def _docstring(idea: str) -> str:
    return textwrap.fill(f'"""{idea}"""', WIDTH, break_long_words=False, break_on_hyphens=False)


def _pinned(config: Mapping[str, object]) -> str:
    items = [f"{name}={_literal(value)}" for name, value in config.items()]
    line = f"CONFIG = dict({', '.join(items)})"
    if len(line) <= WIDTH:
        return line
    return "\n".join(("CONFIG = dict(", *(f"    {item}," for item in items), ")"))


def _literal(value: object) -> str:
    return repr(value).replace("'", '"')  # names and flags hold no quotes


def _taken_over(parent: Iteration, idea: str, config: Mapping[str, object], where: str) -> str:
    """The parent's source with another docstring, another PARENT, and new values of some levers in CONFIG."""
    try:
        source = parent.path.read_text(encoding="utf-8-sig")
        module = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise UsageError(f"{where} does not parse ({error}); repair it, or name another with --parent") from None
    text = source.encode()  # ast counts columns in bytes of UTF-8
    starts = list(itertools.accumulate((len(line) + 1 for line in text.split(b"\n")), initial=0))

    def span(node: ast.expr) -> tuple[int, int]:
        last, column = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
        return starts[node.lineno - 1] + node.col_offset, starts[last - 1] + column

    described, named = _docstring_of(module), contract.constant(module, "PARENT")
    says, follows = _docstring(idea), _literal(parent.name)
    head = starts[max((node.end_lineno or 0 for node in module.body if _is_head(node)), default=0)]
    edits = [
        (*span(described), says) if described is not None else (0, 0, f"{says}\n\n"),
        (*span(named), follows) if named is not None else (head, head, f"\nPARENT = {follows}\n"),
    ]
    pinned = contract.constant(module, "CONFIG")
    levers = _levers(pinned) if pinned is not None else ()
    edits += [(*span(value), _literal(config[lever])) for lever, value in levers if lever in config]
    for start, end, new in sorted(edits, reverse=True):  # from the end, so that earlier places stay valid
        text = text[:start] + new.encode() + text[end:]
    return text.decode()


def _docstring_of(module: ast.Module) -> ast.expr | None:
    first = module.body[0] if module.body else None
    return first.value if isinstance(first, ast.Expr) and ast.get_docstring(module) is not None else None


def _levers(config: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """The levers in CONFIG and their values."""
    if isinstance(config, ast.Call):
        yield from ((keyword.arg, keyword.value) for keyword in config.keywords if keyword.arg is not None)
    elif isinstance(config, ast.Dict):
        for key, value in zip(config.keys, config.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield key.value, value


def _is_head(node: ast.stmt) -> bool:
    """Whether PARENT comes after this statement: the docstring or an import."""
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_text or isinstance(node, ast.Import | ast.ImportFrom)


# Files


@dataclass(frozen=True)
class LadderFiles:
    """The iterations of one ladder on the disk."""

    tree: Tree
    gpu: Gpu
    problem: Problem
    model: str

    @property
    def folder(self) -> Path:
        return self.tree.sources(self.gpu.key, self.problem.shape_key, self.model)

    @cached_property
    def present(self) -> list[Iteration]:
        """Those that there were at the first look, in order."""
        found, _ = self.tree.scan(self.gpu.key, Selection(self.problem.shape_key, self.model))
        return [each for each in found if each.path.parent == self.folder]

    @property
    def next_number(self) -> int:
        """Raises UsageError where none is left."""
        number = max((each.number for each in self.present), default=0) + 1
        if number > LAST_NUMBER:
            where = self.tree.short(self.folder)
            raise UsageError(f"{where} is full: {LAST_NUMBER} is the last number; go on under another --model")
        return number

    def named(self, name: str) -> Iteration:
        """The iteration that a name means. Raises UsageError."""
        found = [each for each in self.present if each.name == name or each.number == names.short_number(name)]
        if len(found) == 1:
            return found[0]
        if found:
            raise UsageError(
                f"parent '{name}' is ambiguous: {', '.join(each.name for each in found)}; name one in full"
            )
        known = ", ".join(each.name for each in self.present) or "none: leave --from out, and iter000 is written first"
        raise UsageError(f"parent '{name}' is no iteration of {self.tree.short(self.folder)}; there are {known}")

    def parent(self, name: str | None) -> Iteration | None:
        """The one that a name means, or by default the newest; None in an empty ladder. Raises UsageError."""
        return self.named(name) if name is not None else self.present[-1] if self.present else None

    def baseline(self) -> Iteration:
        """Write iter000."""
        return self.write(0, baseline_tag(self.problem), baseline(self.problem))

    def write(self, number: int, tag: str, source: str) -> Iteration:
        """Write a new file and its scripts, never over an existing one. Raises UsageError."""
        iteration = self.tree.parse(self.folder / f"{names.name_of(number, tag)}.py")
        if iteration.path.exists():
            raise UsageError(f"{self.tree.short(iteration.path)} is there already; nothing was overwritten")
        files.put(iteration.path, source.encode())
        commands.write(self.tree, iteration)
        return iteration


@contextmanager
def alone(tree: Tree) -> Iterator[None]:
    """One writer per tree at a time, so that no number is given twice."""
    base = tree.root / "tuning"
    base.mkdir(parents=True, exist_ok=True)
    handle = os.open(base, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
