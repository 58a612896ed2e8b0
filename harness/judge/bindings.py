"""Bindings: the problems that one source with a dynamic kernel stands for, each in a ladder of its own."""

from collections.abc import Collection
from pathlib import Path

from harness.catalog.tree import Iteration, Tree
from harness.errors import UsageError
from harness.judge.facts.hashes import source_sha256
from harness.judge.facts.problem import Problem, parse_shape_key


def others(root: Path, iteration: Iteration, dynamic: Collection[str]) -> list[Iteration]:
    """The files with the same bytes in the model's ladders of problems that differ in dynamic dimensions only."""
    tree, own = Tree(root), source_sha256(iteration.path)
    return [
        tree.parse(path)
        for key in tree.shapes(iteration.gpu)
        if _binds(key, iteration.problem, dynamic)
        for path in sorted(tree.sources(iteration.gpu, key, iteration.model).glob("iter*.py"))
        if source_sha256(path) == own
    ]


def _binds(key: str, problem: Problem, dynamic: Collection[str]) -> bool:
    try:
        other = parse_shape_key(key)
    except UsageError:  # no problem's folder
        return False
    return other != problem and other.static(dynamic) == problem.static(dynamic)
