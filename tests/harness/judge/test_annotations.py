"""Annotations that may be texts, and types that ``type`` makes; and those that are what they say."""

import ast

import pytest

from harness.judge import annotations
from harness.judge.breach import Breach

ENUM = "from enum import StrEnum\nclass E(StrEnum):\n    A = 'int(3)'\n"
DATA = "from dataclasses import dataclass\n@dataclass\n"
HEADER = "import functools, operator, torch, typing\nimport tilelang.language as T\n"

TEXTS = {
    "a class's text": ("class W:\n    text = 'int(3)'\ndef f(a: W.text): pass", "annotation 'W.text' may be a text"),
    "a class's element": ("class W:\n    all = ['int(3)']\ndef f(a: W.all[0]): pass", "'W.all\\[0\\]' may be"),
    "an enum's member": (f"{ENUM}def f(a: E.A): pass", "annotation 'E.A' may be a text"),
    "an enum's member by name": (f"{ENUM}N = 'A'\ndef f(a: E[N]): pass", "annotation 'E\\[N\\]' may be a text"),
    "a matched text": ("match 'int(3)':\n    case W:\n        pass\ndef f(a: W): pass", "annotation 'W' may be a text"),
    "a caught name": ("try:\n    pass\nexcept OSError as W:\n    pass\ndef f(a: W): pass", "'W' may be a text"),
    "a text by cast": ("def f(a: typing.cast(str, 'int(3)')): pass", "annotation 'typing.cast.* may be a text"),
    "a text by reduce": ("def f(a: functools.reduce(min, ['int(3)'])): pass", "'functools.reduce.* may be a text"),
    "a text by operator": ("def f(a: operator.getitem(['int(3)'], 0)): pass", "'operator.getitem.* may be a text"),
    "another Literal": ("from typing import List as Literal\ndef f(a: Literal['int(3)']): pass", "in quotes"),
    "brackets of another name": ("import typing as t\ndef f(a: t.List['int(3)']): pass", "in quotes"),
    "brackets of a module": ("from collections import abc\ndef f(a: abc.Sequence['int(3)']): pass", "in quotes"),
    "brackets of no type": ("def f(a: functools.partial['int(3)']): pass", "'functools.partial.* may be a text"),
    "an imported dict": ("from harness.iteration import DTYPE_BYTES as D\ndef f(a: D[int]): pass", "may be a text"),
    "a constant": ("WORD = 'int(3)'\ndef f(a: WORD): pass", "annotation 'WORD' may be a text"),
    "an argument": ("def f(word):\n    def g(a: word): pass", "annotation 'word' may be a text; write the type"),
    "a class that is a text": (
        "def deco(made):\n    return 'int(3)'\n@deco\nclass W:\n    pass\ndef f(a: W): pass", "annotation 'W' may be"
    ),
    "a type bound anew": ("class W:\n    pass\nW = 'int(3)'\ndef f(a: W): pass", "annotation 'W' may be a text"),
    "Python's type bound anew": ("int = 'str'\ndef f(a: int): pass", "annotation 'int' may be a text"),
    "a type by an equal of its own": (
        "class C:\n    def __eq__(self, other): return other\nmade = type(3) == C()", "'type' may only be compared"
    ),
    "a type in a holder of its own": ("c = holder()\nmade = type(3) in c", "'type' may only be compared"),
    "a type that is less": ("made = type(3) < int", "'type' may only be compared"),
    "an isinstance of its own": ("def isinstance(a, b): return b\nmade = isinstance(3, type)", "may only be compared"),
}  # fmt: skip
TYPES = {
    "types of Python, torch and TileLang": (
        "def f(a: int, b: tuple[int, ...], c: torch.Tensor, d: T.Tensor((1, 2), 'int8'), e: list[int] | None): pass"
    ),
    "brackets of TileLang": "from tilelang.language import Tensor\ndef f(m, a: Tensor[(m,)], b: T.Tensor[[m]]): pass",
    "words": "from typing import Literal\ndef f(a: Literal['left'], b: typing.Literal['right']): pass",
    "a remark": "def f(a: typing.Annotated[int, 'rows'], b: typing.Callable[[int], int]): pass",
    "a type by another name": "Shape = tuple[int, ...]\nPair: typing.TypeAlias = tuple[Shape]\ndef f(a: Pair): pass",
    "a tensor by another name": "def f(m):\n    Rows = T.Tensor((m,), 'int8')\n    def g(a: Rows): pass",
    "a variable for types": "Item = typing.TypeVar('Item')\ndef f(a: list[Item]) -> Item: pass",
    "a dataclass": f"{DATA}class Tile:\n    rows: int\ndef f(a: list[Tile]) -> Tile: pass",
    "its own class in quotes": "class A:\n    def f(self) -> 'A': pass",
    "a type that is compared": "def f(x): return type(x) is int or type(x) in (int, float) or type(x) == type(f)",
    "a type's name": "def f(x: type[int]): return type(x).__name__, isinstance(x, type)",
}  # fmt: skip


def check(source: str) -> None:
    annotations.check(list(ast.walk(ast.parse(HEADER + source))))


@pytest.mark.parametrize(("source", "says"), TEXTS.values(), ids=TEXTS)
def test_what_may_be_a_text_is_named(source: str, says: str) -> None:
    with pytest.raises(Breach, match=says):
        check(source)


@pytest.mark.parametrize("source", TYPES.values(), ids=TYPES)
def test_a_type_is_allowed(source: str) -> None:
    check(source)


def test_a_chain_of_names_is_read_once() -> None:
    """Each name would double the time if it were read anew wherever it stands."""
    chain = "\n".join(f"a{number} = tuple[a{number - 1}, a{number - 1}]" for number in range(1, 60))
    check(f"a0 = int\n{chain}\ndef f(a: a59): pass")
