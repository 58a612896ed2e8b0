"""Opponents: other kernels that a user could install in the library's place, as their files describe them.

Each file in ``baselines/opponents/`` sets ``OPPONENTS``. The parent reads it without importing the package that it
calls, so such an import stands inside ``build``. Adding an opponent means adding its file.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from harness.catalog.tree import OPPONENTS_MODEL, Iteration
from harness.errors import UsageError
from harness.judge.facts.dtypes import TOKENS
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.hashes import BASELINES
from harness.judge.facts.problem import Problem
from harness.machine.hints import in_checkout, installed, pip_install
from harness.machine.repository import described_at, folders

FOLDER: Final = f"{BASELINES}/opponents"


@dataclass(frozen=True, kw_only=True)
class Opponent:
    """What a file says of one opponent.

    name           as rows show it
    what           the kernel, in one line
    build          what an iteration's ``build`` is: a Program, a prim_func, or a call that takes inputs and output
    prepare        what a user does once with the inputs, untimed: it returns what takes their places
    operators      the operators that it takes, each with its input dtypes as shape keys write them
    architectures  where it runs, as ``gpus.toml`` writes them; ``c`` is a CPU
    requires       the packages that bring it, pinned; none where TileLang and torch are enough
    extra          the extra of pyproject.toml with the same pins
    licence        of the package, by its SPDX identifier
    source         where the package's source lies
    copies         whether a launch ends with a copy into the output, because it cannot write there; the copy is timed
    refuses        why it does not take a problem though ``operators`` has it, else None
    path           its file
    """

    name: str
    what: str
    build: Callable[[Problem], object]
    operators: Mapping[str, tuple[str, ...]]
    architectures: tuple[str, ...]
    licence: str
    source: str
    requires: tuple[str, ...] = ()
    extra: str = ""
    copies: bool = False
    refuses: Callable[[Problem], str | None] = lambda problem: None
    prepare: Callable[..., Sequence[Any]] | None = None
    path: Path = field(default=Path(), compare=False)

    def serves(self, problem: Problem, gpu: Gpu) -> bool:
        inputs = [TOKENS[token] for token in self.operators.get(problem.operator, ())]
        return gpu.arch in self.architectures and problem.input in inputs and self.refuses(problem) is None

    @property
    def missing(self) -> str | None:
        """The packages that are not here as pinned, with the command that adds them; None if all are."""
        lacking = [pin for pin in self.requires if not _installed(pin)]
        if not lacking:
            return None
        return f"{', '.join(lacking)} {'is' if len(lacking) == 1 else 'are'} not installed; {self.remedy}"

    @property
    def remedy(self) -> str:
        """The command that adds its packages: a target of this checkout's make, or pip's for another's opponent."""
        return f"make {self.extra}" if self.extra and in_checkout(self.path) else pip_install(*self.requires)

    @property
    def config(self) -> str:
        """Its packages, as a row shows them."""
        return ", ".join((*self.requires, *(("with a copy of the output",) if self.copies else ())))

    def entry(self, problem: Problem, gpu: Gpu) -> "OpponentEntry":
        return OpponentEntry(self.path, gpu.key, problem, OPPONENTS_MODEL, 0, self.name)


@dataclass(frozen=True)
class OpponentEntry(Iteration):
    """An opponent as a contestant: like iteration 0 it may launch what others compiled; its name is its own."""

    @property
    def name(self) -> str:
        return self.tag


@dataclass(frozen=True)
class Opponents:
    members: tuple[Opponent, ...]

    @classmethod
    def of(cls, root: Path) -> "Opponents":
        """Read the files of a tree. Raises UsageError for one that cannot be read, and for a name that is taken."""
        found: dict[str, Opponent] = {}
        for path in (each for base in folders(root, BASELINES) for each in sorted(base.glob("opponents/[!_]*.py"))):
            for each in described_in(path):
                if each.name in found:
                    raise UsageError(f"{path}: {found[each.name].path.name} describes opponent {each.name} too")
                found[each.name] = each
        return cls(tuple(found.values()))

    def named(self, name: str) -> Opponent | None:
        return next((each for each in self.members if each.name == name), None)

    def serving(self, problem: Problem, gpu: Gpu) -> Iterator[Opponent]:
        return (each for each in self.members if each.serves(problem, gpu))


def described_in(path: Path) -> Sequence[Opponent]:
    """The opponents of one file. Raises UsageError if it cannot be read."""
    found = described_at(path, "OPPONENTS")
    if not all(isinstance(each, Opponent) for each in found):
        raise UsageError(f"{path}: OPPONENTS holds something that is no harness.catalog.opponents.Opponent")
    return [replace(each, path=path) for each in found]


def _installed(pin: str) -> bool:
    name, _, pinned = pin.partition("==")
    return installed(name.partition("[")[0]) == pinned
