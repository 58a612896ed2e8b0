"""The survey: a child process that reads a family's space, asks the carver, and tries each configuration on the family.

The parent imports neither torch nor the families. What a family's own checks refuse is out before anything compiles.
"""

import inspect
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from harness.catalog.families import COMPILER_LEVERS, Families, imported
from harness.catalog.tree import Tree
from harness.errors import InfrastructureError, UsageError, described
from harness.extras.tune import carver_hints
from harness.extras.tune.space import Config, expand, frozen, text, unique
from harness.judge.child.body import child_body
from harness.judge.child.brief import Brief
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.hashes import FAMILIES
from harness.judge.facts.problem import Problem
from harness.judge.messages import Message, Trouble, send
from harness.judge.places import UserCode
from harness.judge.processes import UNLIMITED_BYTES, Ended, Worker

DEADLINE_S: Final = 300.0


class SpaceEntry(Message, frozen=True, tag="Entry"):
    """One configuration; ``origin`` is ``space`` or ``carver``; ``wrapped``: more than the family takes."""

    family: str
    config: dict[str, Any]
    origin: str
    wrapped: bool = False

    @property
    def key(self) -> str:
        return f"{self.family} {text(self.config)}"


class Surveyed(Message, frozen=True):
    """The candidates, how many configurations the family refused and the first reasons, and the carver's message."""

    entries: tuple[SpaceEntry, ...]
    refused: int
    reasons: tuple[str, ...]
    carver: str


def survey(tree: Tree, problem: Problem, gpu: Gpu, families: tuple[str, ...], *, carver: bool) -> Surveyed:
    """All that may race. Raises UsageError where a family or its space is missing; the forkserver must be running."""
    asked = Brief(tree.root, problem, gpu, None), families, carver
    worker = Worker("survey", run_survey, asked, UNLIMITED_BYTES)
    try:
        said = worker.hear(Surveyed | Trouble, DEADLINE_S)
    except Ended as ended:
        raise InfrastructureError(f"{problem}: the survey of the space failed: {ended.reason}") from None
    finally:
        worker.end()
    if isinstance(said, Trouble):
        raise UsageError(said.reason)
    assert isinstance(said, Surveyed)
    thawed = [SpaceEntry(each.family, frozen(each.config), each.origin, each.wrapped) for each in said.entries]
    return Surveyed(tuple(thawed), said.refused, said.reasons, said.carver)


def run_survey(brief: Brief, families: tuple[str, ...], carver: bool, parent: Connection) -> None:

    def unusable(error: BaseException) -> Trouble:
        known = isinstance(error, UsageError)
        return Trouble(str(error) if known else f"the space cannot be read: {attributed(error, brief.root)}")

    with child_body(brief, parent, unusable):
        quieten()
        send(parent, look(brief, families, carver=carver))


def quieten() -> None:
    """Silence TileLang's warnings about traced kernels; the build of a raced candidate holds its warnings."""
    import tilelang

    tilelang.set_log_level("ERROR")


def attributed(error: BaseException, root: Path, family: str | None = None, what: str = "") -> str:
    """An exception in one line, or ``what`` stands for it, and the line of a family's code that it is about."""
    from harness.judge.child.failure import frames_of, located

    held = [path for file, _ in frames_of(error) if (path := Path(file)).is_relative_to(root / FAMILIES)]
    if not held and family is not None:
        held = [Path(inspect.getfile(inspect.unwrap(imported(family))))]
    return located(error, UserCode(held[-1], root), what) if held else what or described(error)


def look(brief: Brief, names: tuple[str, ...], *, carver: bool) -> Surveyed:
    """The survey itself, where TileLang may be imported."""
    entries: list[SpaceEntry] = []
    reasons: list[str] = []
    carved = "not asked"
    problem, gpu, families = brief.problem, brief.gpu, Families.of(brief.root)
    for name in names:
        space = families.named(name, gpu).space
        family, levers = load_family(name)
        chosen = expand(space, problem, gpu)
        if not chosen:
            raise UsageError(f"the space of {name} is empty for {problem}")
        suggested: list[Config] = []
        if carver:
            try:
                suggested = unique(carver_hints.suggest(problem, gpu, chosen[0], levers))
                carved = f"{len(suggested)} suggestions of the carver"
            except carver_hints.NoSuggestions as none:
                carved = f"no suggestions: {none}"
        known = set(map(text, suggested))
        for origin, configs in (("carver", suggested), ("space", [c for c in chosen if text(c) not in known])):
            for config in configs:
                refusal = _refusal(family, levers, brief, config)
                if refusal is None:
                    wrapped = any(lever in config and lever not in levers for lever in COMPILER_LEVERS)
                    entries.append(SpaceEntry(name, config, origin, wrapped))
                else:
                    reasons.append(refusal)
    return Surveyed(tuple(entries), len(reasons), tuple(dict.fromkeys(reasons))[:5], carved)


def load_family(name: str) -> tuple[Callable[..., Any], frozenset[str]]:
    """The function of a dotted name and its levers; raises UsageError."""
    try:
        family = imported(name)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"family {name} cannot be imported: {error}") from None
    return family, frozenset(inspect.signature(family).parameters)


def _refusal(family: Callable[..., Any], levers: frozenset[str], brief: Brief, config: Config) -> str | None:
    """Why the family does not take a configuration; None where it makes a program of it."""
    own = {name: value for name, value in config.items() if name in levers or name not in COMPILER_LEVERS}
    try:
        family(brief.problem, **own)
    except ValueError as error:  # what a family refuses names the argument
        return described(error, 200)
    except Exception as error:
        return attributed(error, brief.root, what=described(error, 200))
    return None
