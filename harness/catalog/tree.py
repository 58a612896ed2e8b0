"""The tree under ``tuning/``: the place of each file, and the iteration that a path names."""

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, cached_property
from pathlib import Path
from typing import Final, Protocol, TypeVar

from harness.catalog import names
from harness.catalog.settings import check_settings
from harness.catalog.share import Share
from harness.errors import UsageError, meant
from harness.judge.facts.hashes import families_sha256, source_sha256
from harness.judge.facts.problem import Problem, parse_shape_key
from harness.machine import repository
from harness.operators import OPERATORS, UNREADABLE, adopt

_MODEL: Final = re.compile(r"[a-z0-9][a-z0-9.-]*", re.ASCII)
OPPONENTS_MODEL: Final = "opponents"  # in the model's place, where records of opponents lie
_FORM: Final = f"tuning/<gpu>/tilelang/srcs/<shape_key>/<model>/{names.FORM}.py"


@dataclass(frozen=True)
class Iteration:
    """One iteration, by its absolute path."""

    path: Path
    gpu: str
    problem: Problem
    model: str
    number: int
    tag: str

    @property
    def name(self) -> str:
        return names.name_of(self.number, self.tag)

    @property
    def ordinal(self) -> str:
        return names.ordinal(self.number)

    @cached_property
    def shape_key(self) -> str:
        return self.problem.shape_key

    @property
    def ladder(self) -> tuple[str, str, str]:
        """GPU key, problem and model, as ``Tree`` places its records by them."""
        return self.gpu, self.shape_key, self.model

    @property
    def key(self) -> tuple[str, str, str]:
        """Problem, model and name, as the records of one GPU key name it."""
        return self.shape_key, self.model, self.name

    def __str__(self) -> str:
        return f"{self.gpu}/{self.shape_key}/{self.model}/{self.name}"


@dataclass(frozen=True)
class Misplaced:
    """A file under ``srcs/`` that is not an iteration, or an operator's that does not fit."""

    path: Path
    reason: str


class Named(Protocol):
    """An iteration, or a record that names one."""

    @property
    def shape_key(self) -> str: ...

    @property
    def model(self) -> str: ...

    @property
    def number(self) -> int: ...

    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=Named)


@dataclass(frozen=True)
class Selection:
    """The shape, model, iteration, share and set of a run; None takes all.

    ``shape`` is a shape key, or an operator's name for all of its problems; ``shapes`` are the keys of the set.
    """

    shape: str | None = None
    model: str | None = None
    iteration: str | None = None
    share: Share | None = None
    set: str | None = None
    shapes: frozenset[str] | None = None

    def problems(self, found: Iterable[Named]) -> frozenset[str]:
        """The selected shape keys; shares are dealt over what shape and model leave. Raises NothingToDo."""
        names = frozenset(each.shape_key for each in found if self._takes_ladder(each))
        return self.share.of_names(names) if self.share else names

    def taken(self, found: Iterable[N], problems: frozenset[str] | None = None) -> list[N]:
        """The selected of ``found``; ``problems`` are the shape keys where they were found elsewhere."""
        near = [each for each in found if self._takes_ladder(each)]
        own = self.problems(near) if problems is None else problems
        same = (each for each in near if each.shape_key in own)
        if self.iteration is None:
            return list(same)
        number, name = self._wanted
        return [each for each in same if each.number == number and name in (None, each.name)]

    def takes_problem(self, shape_key: str) -> bool:
        """Whether a problem has the shape, and is of the set."""
        named = self.shape in (None, shape_key, shape_key.partition("_")[0])
        return named and (self.shapes is None or shape_key in self.shapes)

    def _takes_ladder(self, one: Named) -> bool:
        return self.takes_problem(one.shape_key) and one.model == (self.model or one.model)

    def may_mean(self, parts: tuple[str, ...]) -> bool:
        """Whether a misnamed file may be one of the selected; ``parts`` are its path below ``srcs/``."""
        folders = parts[:-1]
        narrowed = self.shape is not None or self.shapes is not None
        if narrowed and not any(map(self.takes_problem, folders)):
            return False
        if self.model is not None and self.model not in folders:
            return False
        return self.iteration is None or names.resembles(parts[-1], self._wanted[0])

    @cached_property
    def _wanted(self) -> tuple[int, str | None]:
        return names.wanted(self.iteration or "")

    def check(self) -> None:
        """Raise UsageError if a part is not valid."""
        if self.shape is not None and self.shape not in OPERATORS:
            parse_shape_key(self.shape)
        if self.model is not None:
            check_model(self.model)
        if self.iteration is not None:
            _ = self._wanted


def check_model(model: str) -> None:
    if _MODEL.fullmatch(model) is None:
        raise UsageError(f"model '{model}' does not match {_MODEL.pattern}")
    if model == OPPONENTS_MODEL:
        raise UsageError(f"model '{model}' is where the records of opponents lie; choose another name")


@dataclass(frozen=True)
class Tree:
    """The repository that holds ``tuning/``."""

    root: Path

    @classmethod
    def here(cls) -> "Tree":
        """The repository of the working directory, with its settings and operators. Raises UsageError."""
        return cls.opened(repository.here())

    @classmethod
    def of(cls, path: Path) -> "Tree":
        """The repository that holds an iteration's path, or else ``here``."""
        parents = path.absolute().parents
        return cls.opened(parents[6]) if len(parents) > 6 and parents[5].name == "tuning" else cls.here()

    @classmethod
    def opened(cls, root: Path) -> "Tree":
        check_settings(root)
        adopt(root)
        return cls(root)

    @property
    def python_path(self) -> str:
        """PYTHONPATH of a child that runs this checkout's code; this process's own path follows."""
        return os.pathsep.join((str(self.root), *filter(None, (os.environ.get("PYTHONPATH"),))))

    def folder(self, gpu: str) -> Path:
        return self.root / "tuning" / gpu / "tilelang"

    def sources(self, gpu: str, shape_key: str, model: str) -> Path:
        """The folder of one model's iterations of a problem."""
        return self.folder(gpu) / "srcs" / shape_key / model

    def source(self, gpu: str, shape_key: str, model: str, name: str) -> Path:
        return self.sources(gpu, shape_key, model) / f"{name}.py"

    def parse(self, path: Path, problem_of: Callable[[str], Problem] = parse_shape_key) -> Iteration:
        """The iteration of a path. Raises UsageError."""
        path = path.absolute()
        base = self.root / "tuning"
        parts = path.relative_to(base).parts if path.is_relative_to(base) else ()
        if len(parts) != 6 or parts[1:3] != ("tilelang", "srcs"):
            raise UsageError(f"{self.short(path)}: not an iteration; its path must be {_FORM}")
        gpu, _, _, shape_key, model, file = parts
        named = names.parsed(file.removesuffix(".py")) if file.endswith(".py") else None
        if named is None:
            raise UsageError(f"{self.short(path)}: the file name is not {names.FORM}.py, tag {names.TAG}")
        try:
            check_model(model)
            problem = problem_of(shape_key)
        except UsageError as error:
            raise UsageError(f"{self.short(path)}: {error}") from None
        return Iteration(path, gpu, problem, model, *named)

    def scan(self, gpu: str, selection: Selection) -> tuple[list[Iteration], list[Misplaced]]:
        """The selected iterations of a GPU key, in ladder order, and the files that are not iterations."""
        try:
            selection.check()
        except UsageError as error:
            # Neither an operator that cannot be read, nor a key that says how it is written.
            misspelt = str(error).startswith("shape key") and " is written " not in str(error)
            raise UsageError(f"{error}{self.like(gpu, selection.shape) if misspelt else ''}") from None
        present: list[Iteration] = []
        misplaced: list[Misplaced] = []
        base, problem_of = self.folder(gpu) / "srcs", cache(parse_shape_key)
        broken = set[str]()
        for path in sorted(base.rglob("*.py")):
            if "__pycache__" in path.parts:
                continue
            try:
                iteration = self.parse(path, problem_of)
                if not (path.is_file() and os.access(path, os.R_OK)):
                    raise UsageError(f"{self.short(path)}: not a file that can be read")
            except UsageError as error:
                parts = path.relative_to(base).parts
                told = UNREADABLE.get(parts[0].partition("_")[0], str(error))
                if told not in broken and selection.may_mean(parts):
                    misplaced.append(Misplaced(path, told))
                    broken.add(told)  # of an operator, once for all of its iterations
                continue
            present.append(iteration)
        found = selection.taken(present)
        found.sort(key=lambda each: (each.shape_key, each.model, each.number, each.tag))
        return found, misplaced

    def like(self, gpu: str, shape: str | None) -> str:
        """A question for the nearest problem of the same operator, or of the one with the nearest name."""
        shapes = self.shapes(gpu)
        operator, *rest = (shape or "").split("_")
        operators = dict.fromkeys(each.partition("_")[0] for each in shapes)
        if not rest:
            return meant(operator, operators)
        if operator not in OPERATORS:
            operator = next(iter(get_close_matches(operator, operators, n=1)), operator)
        return meant(shape, (each for each in shapes if each.startswith(f"{operator}_")))

    def shapes(self, gpu: str) -> list[str]:
        """The names of the problems' folders of a GPU key."""
        return sorted(path.name for path in (self.folder(gpu) / "srcs").glob("*"))

    def records(self, gpu: str, shape_key: str, model: str) -> Path:
        return self.folder(gpu) / "logs" / shape_key / model / "results.jsonl"

    def builds(self, gpu: str, shape_key: str, model: str) -> Path:
        return self.records(gpu, shape_key, model).with_name("builds.jsonl")

    def rebuilds(self, gpu: str, shape_key: str, model: str) -> Path:
        """Builds that gave code which ``builds`` already holds; git ignores them."""
        return self.builds(gpu, shape_key, model).with_name("rebuilds.jsonl")

    def same_code(self, gpu: str, shape_key: str, model: str) -> Path:
        return self.records(gpu, shape_key, model).with_name("same_code.jsonl")

    def sustained(self, gpu: str, shape_key: str, model: str) -> Path:
        return self.records(gpu, shape_key, model).with_name("sustained.jsonl")

    def ceilings(self, gpu: str) -> Path:
        return self.folder(gpu) / "ceilings.jsonl"

    def play_offs(self, gpu: str, shape_key: str) -> Path:
        """One file for all models, since a play-off may compare two."""
        return self.folder(gpu) / "logs" / shape_key / "play_offs.jsonl"

    def opponents(self, gpu: str, shape_key: str) -> Path:
        return self.records(gpu, shape_key, OPPONENTS_MODEL)

    def pairs(self, gpu: str, shape_key: str) -> Path:
        """The measurements of a problem's leaders against opponents."""
        return self.folder(gpu) / "logs" / shape_key / "pairs.jsonl"

    def versus(self, gpu: str, shape_key: str) -> Path:
        """The measurements of a problem's iterations in two environments."""
        return self.folder(gpu) / "logs" / shape_key / "versus.jsonl"

    def all_records(self, gpu: str) -> list[Path]:
        return sorted((self.folder(gpu) / "logs").glob("*/*/results.jsonl"))

    def baseline(self, gpu: str, shape_key: str) -> Path:
        return self.folder(gpu) / "baseline" / shape_key / "results.jsonl"

    def timing(self, iteration: Iteration) -> Path:
        return self._beside("perf", iteration) / f"timing_{iteration.ordinal}.txt"

    def profiles(self, gpu: str, shape_key: str, model: str) -> Path:
        return self.records(gpu, shape_key, model).with_name("profiles.jsonl")

    def ncu(self, iteration: Iteration, suffix: str) -> Path:
        """The profiler's report; ``suffix`` is ``ncu-rep`` or ``csv``."""
        return self._beside("perf", iteration) / f"ncu_{iteration.ordinal}.{suffix}"

    def script(self, verb: str, iteration: Iteration) -> Path:
        """``verb`` is ``build`` or ``run``."""
        return self._beside("cmd", iteration) / f"{verb}_{iteration.ordinal}.sh"

    def hashes(self, iteration: Iteration) -> tuple[str, str]:
        """Of an iteration's source and families as they lie on the disk."""
        return source_sha256(iteration.path), families_sha256(self.root, iteration.path)

    def short(self, path: Path) -> str:
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)

    def _beside(self, part: str, iteration: Iteration) -> Path:
        return self.folder(iteration.gpu) / part / iteration.shape_key / iteration.model
