"""The idea of an iteration's newest profile that the next iteration starts from."""

from harness.errors import UsageError
from harness.profile.advice import Idea
from harness.profile.record import ProfileRecord, newest
from harness.records import read
from harness.sources import families_sha256, source_sha256
from harness.tree import Iteration, Tree


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
        return ideas[0] if ideas else None
    if known is None:
        raise UsageError(
            f"--idea {number}: {parent.name if parent else 'iter000'} is not profiled; run tilebench profile"
        )
    if not 0 < number <= len(ideas):
        raise UsageError(f"--idea {number}: the profile of {known.iteration} has {len(ideas)} ideas")
    return ideas[number - 1]
