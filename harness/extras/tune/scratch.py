"""The scratch tree: every candidate as a real iteration in a folder of its own, beside the checkout's own code."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from harness.authoring import scaffold
from harness.catalog.tree import Iteration, Tree
from harness.extras.tune.survey import Entry
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.problem import Problem
from harness.machine import files

# Links, not copies: what was judged must still be what lies in the checkout, and the judge looks.
LINKED: Final = ("harness", "kernels", "baselines")
_IDEA: Final = "Candidate {number} of a search, which never leaves its scratch tree."
_TAG: Final = "candidate"


@contextmanager
def scratch(tree: Tree, use: str = "tune", linked: tuple[str, ...] = LINKED) -> Iterator[Tree]:
    """A tree without iterations or records, whose ``linked`` parts are the checkout's; removed afterwards."""
    with files.scratch(use) as root:
        for part in linked:
            (root / part).symlink_to(tree.root / part, target_is_directory=True)
        yield Tree(root)


def write(tree: Tree, problem: Problem, gpu: Gpu, entries: Sequence[Entry]) -> dict[str, Iteration]:
    """One iteration a candidate, by the candidate's key."""
    iterations = {}
    for number, entry in enumerate(entries):
        folder = tree.folder(gpu.key) / "srcs" / problem.shape_key / f"candidate{number:05d}"
        folder.mkdir(parents=True)
        parent = folder / f"iter000_{scaffold.baseline_tag(problem)}.py"
        parent.write_text(scaffold.baseline(problem))
        path = folder / f"iter001_{_TAG}.py"
        idea = _IDEA.format(number=number)
        path.write_text(scaffold.kernel(entry.family, idea, entry.config, parent.stem, wrapped=entry.wrapped))
        iterations[entry.key] = tree.parse(path)
    return iterations
