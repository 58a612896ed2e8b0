"""Classes, ``self``, types and annotations that lead to what is not an iteration's own, and those that do not."""

import ast

import pytest

from harness.judge import classes
from harness.judge.breach import Breach

OWN = "class P:\n    def __init__(self):\n        self._x = 1\n    def go(self):\n        return self._x\n"
ENUM = "from enum import StrEnum\nclass E(StrEnum):\n    A = 'int(3)'\n"
DATA = "from dataclasses import dataclass, field\n@dataclass\n"
HEADER = "import functools, operator, torch, typing\nimport tilelang.language as T\n"

LEADS_ELSEWHERE = {
    "a class's text": ("class W:\n    text = 'int(3)'\ndef f(a: W.text): pass", "annotation 'W.text' may be a text"),
    "a class's element": ("class W:\n    all = ['int(3)']\ndef f(a: W.all[0]): pass", "annotation 'W.all' may be"),
    "an enum's member": (f"{ENUM}def f(a: E.A): pass", "annotation 'E.A' may be a text"),
    "an enum's member by name": (f"{ENUM}N = 'A'\ndef f(a: E[N]): pass", "annotation 'E\\[N\\]' may be a text"),
    "a matched text": ("match 'int(3)':\n    case W:\n        pass\ndef f(a: W): pass", "annotation 'W' may be a text"),
    "a caught name": ("try:\n    pass\nexcept OSError as W:\n    pass\ndef f(a: W): pass", "'W' may be a text"),
    "a text by cast": ("def f(a: typing.cast(str, 'int(3)')): pass", "annotation 'typing.cast.* may be a text"),
    "a text by reduce": ("def f(a: functools.reduce(min, ['int(3)'])): pass", "'functools.reduce.* may be a text"),
    "a text by operator": ("def f(a: operator.getitem(['int(3)'], 0)): pass", "'operator.getitem.* may be a text"),
    "another Literal": ("from typing import List as Literal\ndef f(a: Literal['int(3)']): pass", "in quotes"),
    "a constant": ("WORD = 'int(3)'\ndef f(a: WORD): pass", "annotation 'WORD' may be a text"),
    "a class that is a text": (
        "def deco(made):\n    return 'int(3)'\n@deco\nclass W:\n    pass\ndef f(a: W): pass", "annotation 'W' may be"
    ),
    "a type bound anew": ("class W:\n    pass\nW = 'int(3)'\ndef f(a: W): pass", "annotation 'W' may be a text"),
    "Python's type bound anew": ("int = 'str'\ndef f(a: int): pass", "annotation 'int' may be a text"),
    "self is another object": ("class P:\n    def __init__(self):\n        self = T\n        self.x = 3", "bound anew"),
    "self of a function within": (
        "class P:\n    def __init__(self):\n        def patch(self): self.x = 3", "first argument of a method alone"
    ),
    "self of a function": (f"{OWN}def go(self): return self._x", "first argument of a method alone"),
    "self of a lambda": (f"{OWN}go = lambda self: self._x", "first argument of a method alone"),
    "self of no object": (f"{OWN}    @staticmethod\n    def all(self): return self._x", "first argument of a method"),
    "self by a decorator": (
        f"{OWN}    @functools.partial(staticmethod)\n    def all(self): return self._x", "first argument of a method"
    ),
    "a method without its object": (f"{OWN}P.go(T)", "'P.go' is a method without its object"),
    "the same of a class below": (f"{OWN}class R(P):\n    pass\nR.go(T)", "'R.go' is a method without its object"),
    "the same by cls": (f"{OWN}    @classmethod\n    def all(cls, x): return cls.go(x)", "'cls.go' is a method"),
    "cls by another name": (f"{OWN}    @classmethod\n    def all(it, x): return it.go(x)", "is cls, not it"),
    "classmethod by another name": (f"{OWN}other = classmethod", "'classmethod' may only stand above a method"),
    "a class by another name": (f"{OWN}Q = P\nQ.go(T)", "class P is passed on"),
    "a class in a list": (f"{OWN}[Q] = [P]", "class P is passed on"),
    "an enum by another name": (f"{ENUM}F = E\nF('F', [('A', 1)])", "class E is passed on"),
    "a type by an equal of its own": (
        "class C:\n    def __eq__(self, other): return other\nmade = type(3) == C()", "'type' may only be compared"
    ),
    "a type in a holder of its own": ("c = holder()\nmade = type(3) in c", "'type' may only be compared"),
    "a type that is less": ("made = type(3) < int", "'type' may only be compared"),
}  # fmt: skip
STAYS = {
    "types of Python, torch and TileLang": (
        "def f(a: int, b: tuple[int, ...], c: torch.Tensor, d: T.Tensor((1, 2), 'int8'), e: list[int] | None): pass"
    ),
    "words": "from typing import Literal\ndef f(a: Literal['left'], b: typing.Literal['right']): pass",
    "a type by another name": "Shape = tuple[int, ...]\nPair: typing.TypeAlias = tuple[Shape]\ndef f(a: Pair): pass",
    "a dataclass": f"{DATA}class Tile:\n    rows: int\ndef f(a: list[Tile]) -> Tile: pass",
    "an object of its own": f"{OWN}    @property\n    def x(self): return self._x\np = P()\nisinstance(p, P)\np.go()",
    "a kernel in a method": "class P:\n    def go(self):\n        @T.macro\n        def inner(x): return x + self.k\n",
    "a list of its own": f"{OWN}{DATA}class A:\n    b: P = field(default_factory=P)",
    "members of an enum": f"{ENUM}def f(x: E): return E('int(3)'), E.A, E['A'], [e for e in E], x in E, type(x) is E",
    "a type that is compared": "def f(x): return type(x) is int or type(x) in (int, float) or type(x) == type(f)",
    "a type's name": "def f(x): return type(x).__name__",
}  # fmt: skip


def check(source: str) -> None:
    classes.check(list(ast.walk(ast.parse(HEADER + source))))


@pytest.mark.parametrize(("source", "says"), LEADS_ELSEWHERE.values(), ids=LEADS_ELSEWHERE)
def test_what_leads_elsewhere_is_named(source: str, says: str) -> None:
    with pytest.raises(Breach, match=says):
        check(source)


@pytest.mark.parametrize("source", STAYS.values(), ids=STAYS)
def test_what_stays_within_is_allowed(source: str) -> None:
    check(source)


def test_an_attribute_that_is_set_deeper_is_not_selfs_own() -> None:
    source = "class P:\n  def __init__(self):\n    self.k = T\n    self.k.x = 3\n    def within(): self.y = 3\n"
    nodes = list(ast.walk(ast.parse(source)))
    made = classes.OwnClasses.of(nodes).made
    assert [each.attr for each in nodes if isinstance(each, ast.Attribute) and id(each) in made] == ["k"]


def test_a_variable_with_two_values_is_no_object_of_its_own() -> None:
    nodes = list(ast.walk(ast.parse("class Tile:\n    mm = 3\na = Tile()\nb = Tile()\nb = T\n")))
    assert classes.OwnClasses.of(nodes).objects == {"Tile", "a", "self"}
