"""Scratch trees: folders like a checkout, in which candidates, foreign scripts and samples are judged."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from harness.authoring import scaffold
from harness.catalog.names import name_of
from harness.catalog.tree import Iteration, Tree
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.problem import Problem
from harness.machine import files

CODE: Final = ("harness", "kernels", "baselines")


@contextmanager
def linked_tree(tree: Tree, use: str, parts: tuple[str, ...] = CODE) -> Iterator[Tree]:
    """A tree without iterations and records; removed afterwards.

    ``parts`` are links, not copies: the judge checks that the code in the checkout stays what was judged.
    """
    with files.scratch(use) as root:
        for part in parts:
            (root / part).symlink_to(tree.root / part, target_is_directory=True)
        yield Tree(root)


@contextmanager
def copied_tree(tree: Tree) -> Iterator[Tree]:
    """A copy of the checkout's code without iterations and records; removed afterwards."""
    with files.scratch("selftest") as root:
        for part in CODE:
            shutil.copytree(tree.root / part, root / part, ignore=shutil.ignore_patterns("__pycache__"))
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
