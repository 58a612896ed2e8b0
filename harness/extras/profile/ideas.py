"""Which ideas of a profile nobody has tried yet, and the one that the next iteration starts from."""

from collections.abc import Iterator, Sequence

from harness.catalog.tree import Iteration, Selection, Tree
from harness.errors import UsageError
from harness.extras.profile.case import parse_config
from harness.judge import contract
from harness.judge.facts.hashes import families_sha256, source_sha256
from harness.records.profiles import Idea, ProfileRecord, newest
from harness.records.store import read


def untried(tree: Tree, parent: Iteration, ideas: Sequence[Idea]) -> tuple[Idea, ...]:
    """Those whose CONFIG no iteration of the parent's folder pins already; an idea without one is never known tried."""
    pinned = list(_configs(tree, parent))
    own = _config(parent) or {}
    return tuple(idea for idea in ideas if not idea.config or {**own, **idea.config} not in pinned)


def _configs(tree: Tree, parent: Iteration) -> Iterator[dict[str, object]]:
    for each in tree.scan(parent.gpu, Selection(shape=parent.shape_key, model=parent.model))[0]:
        config = _config(each)
        if config is not None and each.name != parent.name:
            yield config


def _config(iteration: Iteration) -> dict[str, object] | None:
    """None where the source breaks the contract: then it has tried nothing."""
    try:
        return parse_config(contract.check(iteration).config)
    except contract.Breach:
        return None


def suggested(tree: Tree, parent: Iteration | None, number: int | None) -> Idea | None:
    """The idea of the parent's profile that is asked for; raises UsageError where there is none of that number."""
    if number == 0:
        return None
    known = None
    if parent is not None:
        profiles, _ = read(tree.profiles(parent.gpu, parent.shape_key, parent.model), ProfileRecord)
        known = newest(profiles, parent.name, source_sha256(parent.path), families_sha256(tree.root, parent.path))
    ideas = known.ideas if known else ()
    if number is None:
        return next(iter(untried(tree, parent, ideas)), None) if parent is not None else None
    if known is None:
        raise UsageError(
            f"--idea {number}: {parent.name if parent else 'iter000'} is not profiled; run tilebench profile"
        )
    if not 0 < number <= len(ideas):
        raise UsageError(f"--idea {number}: the profile of {known.iteration} has {len(ideas)} ideas")
    return ideas[number - 1]
