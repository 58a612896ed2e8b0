"""Sizes: expressions in an operator's dimensions and scalars, such as ``"M, ceildiv(K, 128)"``."""

import ast
import math
from collections.abc import Mapping
from functools import cache
from types import CodeType
from typing import Any, Final

Size = str | float  # a number, or an expression that gives one
Shape = tuple[int, ...]
Values = Mapping[str, float]  # of dimensions and scalars, by name

KNOWN: Final[dict[str, Any]] = {
    "ceildiv": lambda whole, part: -(-whole // part),
    "min": min,
    "max": max,
    "sqrt": math.sqrt,
    "log": math.log,
    "e": math.e,
}


def evaluated(size: Size, values: Values) -> Any:
    return eval(_compiled(size), {"__builtins__": {}, **KNOWN}, values) if isinstance(size, str) else size


def shape_of(text: str, values: Values) -> Shape:
    """The shape that a list of sizes gives; its entries may be wrong, such as negative."""
    return tuple(evaluated(f"{text},", values))


def axes(text: str) -> list[str]:
    """The sizes of a shape, each in a form that is equal where the size is written alike."""
    listed = ast.parse(f"({text},)", mode="eval").body
    assert isinstance(listed, ast.Tuple)
    return [ast.unparse(each) for each in listed.elts]


def names_in(size: Size) -> set[str]:
    """The dimensions and scalars that a size depends on. Raises SyntaxError for a text that is no expression."""
    nodes = ast.walk(ast.parse(f"({size},)", mode="eval"))
    return {node.id for node in nodes if isinstance(node, ast.Name)} - KNOWN.keys()


@cache
def _compiled(size: str) -> CodeType:
    return compile(size, "<size>", "eval")
