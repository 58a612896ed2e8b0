"""Families: what each folder under ``kernels/`` says of its kernel, read without importing the kernel.

A family is a folder with a ``family.py`` that sets ``FAMILY``. The harness knows no family by name, so adding one
means adding its folder. A ``family.py`` imports from ``harness`` alone: ``kernels`` would import TileLang.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from harness.errors import UsageError
from harness.judge.facts.dtypes import TOKENS
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.hashes import FAMILIES
from harness.judge.facts.problem import Problem
from harness.machine.repository import described_at, folders

__all__ = ["Draft", "Families", "Family", "Gpu", "Space", "imported"]

DESCRIPTION: Final = "family.py"
COMPILED: Final = "kernels.compiled.compiled"  # calls a family, and gives the compiler its own levers
COMPILER_LEVERS: Final = ("pass_configs", "compile_flags")  # unless the family takes them as its own

# A list of configurations; or each lever's values, for their product; or a function that returns one of these.
Space = Sequence[Mapping[str, Any]] | Mapping[str, Sequence[Any]] | Callable[[Problem, Gpu], Any]


@dataclass(frozen=True, slots=True)
class Draft:
    """An iteration before it has a number and a parent; ``family`` is a family's name."""

    tag: str
    idea: str
    family: str
    config: Mapping[str, object]


@dataclass(frozen=True, kw_only=True)
class Family:
    """What a family says of itself.

    name           dotted name of its function, as iterations import it: ``kernels.package.function``
    operators      the operators that it takes, each with its input dtypes as shape keys write them
    architectures  where it runs, as ``gpus.toml`` writes them; ``c`` is a CPU
    space          what ``tune`` searches
    follows        a family that this one improves on: ``tune`` takes this one in its place, and in a starter ladder the
                   steps of this one come later
    ideas          tags of ideas in a profile's advice that this family carries out, each with its levers or ""
    refuses        why a problem gets no draft though ``operators`` has it, else None
    draft          the first kernel for a problem, None where another family begins
    starter        steps of the starter ladder by shape key, for a GPU key without iterations
    """

    name: str
    operators: Mapping[str, tuple[str, ...]]
    architectures: tuple[str, ...]
    space: Space
    follows: str | None = None
    ideas: Mapping[str, str] = field(default_factory=dict)
    refuses: Callable[[Problem, Gpu], str | None] = lambda problem, gpu: None
    draft: Callable[[Problem, Gpu], Draft | None] = lambda problem, gpu: None
    starter: Callable[[Gpu], Mapping[str, Sequence[Draft]]] = lambda gpu: {}

    def suits(self, problem: Problem, gpu: Gpu) -> bool:
        """Whether it names the problem's operator and input dtype, and the architecture."""
        return gpu.arch in self.architectures and problem.input in self._inputs(problem.operator)

    def refusal(self, problem: Problem, gpu: Gpu) -> str | None:
        """Why it has no draft for a problem, though it takes the operator; None if it may have one."""
        if problem.input in self._inputs(problem.operator):
            return self.refuses(problem, gpu)
        others = [each for each in self.operators if problem.input in self._inputs(each)]
        use = f"operator {' or '.join(others)}" if others else " or ".join(self.operators[problem.operator])
        return f"{problem.input} in operator {problem.operator} on {_place(gpu)}; use {use}"

    def _inputs(self, operator: str) -> list[str]:
        return [TOKENS[token] for token in self.operators.get(operator, ())]


@dataclass(frozen=True)
class Families:
    """The families of a tree; each comes after the one that it follows."""

    members: tuple[Family, ...]

    @classmethod
    def of(cls, root: Path) -> "Families":
        """Read the shipped families and a repository's own. Raises UsageError for one that cannot be read."""
        found: dict[str, Family] = {}
        for path in (each for folder in folders(root, FAMILIES) for each in sorted(folder.rglob(DESCRIPTION))):
            family = _read(path)
            if family.name in found:
                raise UsageError(f"{path}: another folder describes family {family.name}; rename one of the two")
            found[family.name] = family
        before = {name: {family.follows or ""} & found.keys() for name, family in found.items()}
        try:
            return cls(tuple(found[name] for name in TopologicalSorter(before).static_order()))
        except CycleError as error:
            raise UsageError(
                f"{root / FAMILIES}: families follow each other in a circle: {', '.join(error.args[1])}"
            ) from None

    def named(self, name: str, gpu: Gpu) -> Family:
        """The family that a full name or its last part means; raises UsageError."""
        found = [each for each in self.members if name in (each.name, each.name.rpartition(".")[2])]
        if not found:
            known = ", ".join(each.name for each in self.members if gpu.arch in each.architectures)
            raise UsageError(f"there is no family '{name}'; those for {_place(gpu)} are {known or 'none'}")
        here = [each for each in found if gpu.arch in each.architectures]
        if not here:
            made_for = ", ".join(found[0].architectures)
            raise UsageError(f"family {found[0].name} is for {made_for}, not for {_place(gpu)}")
        if len(here) > 1:
            raise UsageError(f"family '{name}' is ambiguous: {', '.join(each.name for each in here)}")
        return here[0]

    def fitting(self, name: str, problem: Problem, gpu: Gpu) -> Family:
        """The family that ``named`` finds; raises UsageError too where it does not take the problem."""
        family = self.named(name, gpu)
        if not family.suits(problem, gpu):
            takes = ", ".join(f"{operator} in {' or '.join(tokens)}" for operator, tokens in family.operators.items())
            raise UsageError(f"family {family.name} does not take {problem}; it takes {takes}")
        return family

    def draft(self, problem: Problem, gpu: Gpu) -> Draft:
        """The first kernel for a problem; raises UsageError where no family takes the problem."""
        here = self.taking(problem, gpu)
        for family in here:
            draft = family.draft(problem, gpu) if family.refusal(problem, gpu) is None else None
            if draft is not None:
                return draft
        reason = f"operator '{problem.operator}'"
        if here:
            refusals = filter(None, (each.refusal(problem, gpu) for each in here))
            reason = next(refusals, f"{problem} as its first kernel; tune one of {', '.join(e.name for e in here)}")
        elif taking := [each for each in self.members if problem.operator in each.operators]:
            elsewhere = sorted({arch for each in taking for arch in each.architectures})
            reason += f" on {_place(gpu)}; one does on {', '.join(elsewhere)}"
        raise UsageError(f"no family in {FAMILIES}/ takes {reason}")

    def taking(self, problem: Problem, gpu: Gpu) -> list[Family]:
        """The families that take a problem's operator on a GPU, though some may refuse this problem."""
        return [each for each in self.members if problem.operator in each.operators and gpu.arch in each.architectures]

    def searched(self, problem: Problem, gpu: Gpu) -> Family:
        """The family that ``tune`` searches by default; raises UsageError where none takes the problem."""
        name = self.draft(problem, gpu).family
        for family in self.members:
            if family.follows == name and family.suits(problem, gpu):
                name = family.name
        return self.named(name, gpu)

    def starter(self, gpu: Gpu) -> dict[str, list[Draft]]:
        """The steps of a starter ladder by shape key; none for an architecture that no family has steps for."""
        steps: dict[str, list[Draft]] = {}
        for family in self.members:
            for shape_key, drafts in family.starter(gpu).items() if gpu.arch in family.architectures else ():
                steps.setdefault(shape_key, []).extend(drafts)
        return steps

    def examples(self, gpu: Gpu) -> dict[str, str]:
        """By the tag of an idea, the families on this GPU that carry it out."""
        found: dict[str, list[str]] = {}
        for family in self.members:
            for tag, levers in family.ideas.items() if gpu.arch in family.architectures else ():
                found.setdefault(tag, []).append(f"{family.name} with {levers}" if levers else family.name)
        return {tag: " and ".join(names) for tag, names in found.items()}


def imported(name: str) -> Callable[..., Any]:
    """What a dotted name such as a family's stands for. It imports TileLang, so children call it, the parent never.

    Raises ImportError or AttributeError.
    """
    module, _, attribute = name.rpartition(".")
    found: Callable[..., Any] = getattr(import_module(module), attribute)
    return found


def _read(path: Path) -> Family:
    family = described_at(path, "FAMILY")
    if not isinstance(family, Family):
        raise UsageError(f"{path}: FAMILY must be a harness.catalog.families.Family")
    return family


def _place(gpu: Gpu) -> str:
    return "a CPU" if gpu.is_cpu else gpu.arch
