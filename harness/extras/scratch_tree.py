"""Scratch trees: folders like a checkout, in which candidates, foreign scripts and samples are judged."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from harness.authoring import scaffold
from harness.catalog.names import name_of
from harness.catalog.tree import Iteration, Tree
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.problem import Problem
from harness.machine import files
from harness.machine.repository import copy, link, take_over


@contextmanager
def linked_tree(tree: Tree, use: str, without: str = "", put: Callable[[Path, Path], object] = link) -> Iterator[Tree]:
    """A tree without iterations and records; removed afterwards.

    Its parts are links, not copies: the judge checks that the code in the repository stays what was judged.
    """
    with files.scratch(use) as root:
        take_over(tree.root, root, put, without)
        yield Tree(root)


def copied_tree(tree: Tree) -> AbstractContextManager[Tree]:
    """A copy of the repository's code without iterations and records; removed afterwards."""
    return linked_tree(tree, "selftest", put=copy)


def parent_of(problem: Problem) -> str:
    """The name of iter000, the library's call."""
    return name_of(0, scaffold.baseline_tag(problem))


def write_iteration(tree: Tree, problem: Problem, gpu: Gpu, model: str, tag: str, source: str) -> Iteration:
    """Write iter000 and iter001."""
    folder = tree.sources(gpu.key, problem.shape_key, model)
    folder.mkdir(parents=True)
    (folder / f"{parent_of(problem)}.py").write_text(scaffold.baseline(problem))
    path = folder / f"{name_of(1, tag)}.py"
    path.write_text(source)
    return tree.parse(path)
