"""A choice: which family computes a problem, with which levers, and why; or the library."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.catalog.families import COMPILER_LEVERS, imported
from harness.iteration import Program
from harness.judge.facts.problem import Problem
from kernels.compiled import compiled


@dataclass(frozen=True, slots=True)
class Choice:
    """``family`` is a dotted name, None for the library's call; ``why`` is one phrase.

    ``launch`` is the kernel where a race has compiled it already.
    """

    why: str
    family: str | None = None
    levers: Mapping[str, Any] = field(default_factory=dict)
    pass_configs: Mapping[str, Any] = field(default_factory=dict)
    compile_flags: tuple[str, ...] = ()
    launch: Callable[..., object] | None = None

    def program(self, problem: Problem) -> Program:
        assert self.family is not None, "the library has no program"
        family = imported(self.family)
        added = {name: given for name in COMPILER_LEVERS if (given := getattr(self, name))}
        return compiled(family, problem, **added, **self.levers) if added else family(problem, **self.levers)

    def __str__(self) -> str:
        return f"{self.family or 'the library'}: {self.why}"


def library(why: str) -> Choice:
    return Choice(why)
