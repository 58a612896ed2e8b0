"""Scratch trees: folders like a checkout, in which candidates, foreign scripts and samples are judged."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from harness.authoring import scaffold
from harness.catalog.names import name_of
from harness.catalog.tree import Iteration, Tree
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.problem import Problem
from harness.machine import files
from harness.machine.repository import copy, link, take_over


@contextmanager
def linked_tree(tree: Tree, use: str, without: str = "") -> Iterator[Tree]:
    """A tree without iterations and records; removed afterwards.

    Its parts are links, not copies: the judge checks that the code in the repository stays what was judged.
    """
    with files.scratch(use) as root:
        take_over(tree.root, root, link, without)
        yield Tree(root)


@contextmanager
def copied_tree(tree: Tree) -> Iterator[Tree]:
    """A copy of the repository's code without iterations and records; removed afterwards."""
    with files.scratch("selftest") as root:
        take_over(tree.root, root, copy)
        yield Tree(root)


def write_iteration(
    tree: Tree, problem: Problem, gpu: Gpu, model: str, tag: str, source: Callable[[str], str]
) -> Iteration:
    """Write iter000, the library's call, and iter001; ``source`` makes its text from the name of its parent."""
    folder = tree.sources(gpu.key, problem.shape_key, model)
    folder.mkdir(parents=True)
    parent = folder / f"{name_of(0, scaffold.baseline_tag(problem))}.py"
    parent.write_text(scaffold.baseline(problem))
    path = folder / f"{name_of(1, tag)}.py"
    path.write_text(source(parent.stem))
    return tree.parse(path)
