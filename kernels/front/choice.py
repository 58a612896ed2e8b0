"""A choice: which family computes a problem, with which levers, and why; or the library."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

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
        module, _, name = self.family.rpartition(".")
        family = getattr(import_module(module), name)
        added: dict[str, Any] = {"pass_configs": self.pass_configs} if self.pass_configs else {}
        added |= {"compile_flags": self.compile_flags} if self.compile_flags else {}
        return compiled(family, problem, **added, **self.levers) if added else family(problem, **self.levers)

    def __str__(self) -> str:
        return f"{self.family or 'the library'}: {self.why}"


def library(why: str) -> Choice:
    return Choice(why)
