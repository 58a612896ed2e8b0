"""The ideas of a profile: which are tried already, and which one the next iteration starts from."""

import ast
from collections.abc import Sequence

from harness.catalog import gpus
from harness.catalog.tree import Iteration, Selection, Tree
from harness.errors import UsageError
from harness.judge import contract
from harness.machine import hints
from harness.records.profiles import Idea, ProfileRecord, newest
from harness.records.store import read


def profile_of(tree: Tree, iteration: Iteration) -> ProfileRecord | None:
    """The newest profile of an iteration's present source and families."""
    profiles, _ = read(tree.profiles(*iteration.ladder), ProfileRecord)
    return newest(profiles, iteration.name, *tree.hashes(iteration))


def untried(tree: Tree, parent: Iteration, ideas: Sequence[Idea]) -> tuple[Idea, ...]:
    """The ideas with a CONFIG that no other iteration of the ladder pins, and those that change no lever."""
    ladder, _ = tree.scan(parent.gpu, Selection(shape=parent.shape_key, model=parent.model))
    pinned = [_config(each) for each in ladder if each.name != parent.name]
    own = _config(parent) or {}
    return tuple(idea for idea in ideas if not idea.config or {**own, **idea.config} not in pinned)


def suggested(tree: Tree, parent: Iteration | None, number: int | None) -> Idea | None:
    """The idea of the parent's profile with this number, from 1; by default the first untried one, and none for 0.

    Raises UsageError where the profile holds no idea of that number.
    """
    if number == 0:
        return None
    known = profile_of(tree, parent) if parent is not None else None
    ideas = known.ideas if known else ()
    if number is None:
        return next(iter(untried(tree, parent, ideas)), None) if parent is not None else None
    if parent is None:
        raise UsageError(f"--idea {number}: the ladder is empty; leave --idea out")
    if known is None:
        remedy = (
            "a CPU has no profile; leave --idea out"
            if gpus.find(parent.gpu).is_cpu
            else f"run {hints.program()} profile"
        )
        raise UsageError(f"--idea {number}: {parent.name} is not profiled; {remedy}")
    if not 0 < number <= len(ideas):
        raise UsageError(f"--idea {number}: the profile of {known.iteration} has {len(ideas)} ideas")
    return ideas[number - 1]


def parse_config(config: str | None) -> dict[str, object]:
    """CONFIG as a record holds it, ``block_M=128, policy='square'``; leaves out what is no literal."""
    try:
        call = ast.parse(f"dict({config or ''})", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    found = {}
    for keyword in call.keywords if isinstance(call, ast.Call) else ():
        try:
            found[keyword.arg or ""] = ast.literal_eval(keyword.value)
        except (ValueError, TypeError, RecursionError):
            continue
    return found


def _config(iteration: Iteration) -> dict[str, object] | None:
    """None where the source breaks the contract, since such a source tries nothing."""
    try:
        return parse_config(contract.check(iteration).config)
    except contract.Breach:
        return None
