"""Classes and ``self`` that lead to what is not an iteration's own, and those that do not."""

import ast

import pytest

from harness.judge import classes
from harness.judge.breach import Breach

OWN = "class P:\n    def __init__(self):\n        self._x = 1\n    def go(self):\n        return self._x\n"
ENUM = "from enum import StrEnum\nclass E(StrEnum):\n    A = 'int(3)'\n"
DATA = "from dataclasses import dataclass, field\n@dataclass\n"
HEADER = "import functools\nimport tilelang.language as T\n"

LEADS_ELSEWHERE = {
    "self is another object": ("class P:\n    def __init__(self):\n        self = T\n        self.x = 3", "bound anew"),
    "self is imported": ("from tilelang import JITKernel as self", "'self' is the first argument of a method"),
    "self of a function within": (
        "class P:\n    def __init__(self):\n        def patch(self): self.x = 3", "first argument of a method alone"
    ),
    "self of a function": (f"{OWN}def go(self): return self._x", "first argument of a method alone"),
    "self of a lambda": (f"{OWN}go = lambda self: self._x", "first argument of a method alone"),
    "self of no object": (f"{OWN}    @staticmethod\n    def all(self): return self._x", "first argument of a method"),
    "self by a decorator": (
        f"{OWN}    @functools.partial(staticmethod)\n    def all(self): return self._x", "first argument of a method"
    ),
    "self by a property of its own": (
        f"def property(f): return f\n{OWN}    @property\n    def all(self): return self._x", "first argument"
    ),
    "a method without its object": (f"{OWN}P.go(T)", "'P.go' is a method without its object"),
    "a method within its class": (f"{OWN}    stolen = go(3)", "'go' is a method without its object"),
    "a method as a default": (f"{OWN}    def all(self, f=go): return f(3)", "'go' is a method without its object"),
    "the same of a class below": (f"{OWN}class R(P):\n    pass\nR.go(T)", "'R.go' is a method without its object"),
    "the same by cls": (f"{OWN}    @classmethod\n    def all(cls, x): return cls.go(x)", "'cls.go' is a method"),
    "cls by another name": (f"{OWN}    @classmethod\n    def all(it, x): return it.go(x)", "of a classmethod is cls"),
    "classmethod by another name": (f"{OWN}other = classmethod", "'classmethod' may only stand above a method"),
    "a class within a class": (f"{OWN}    class Q:\n        pass", "class Q lies within another"),
    "a class by another name": (f"{OWN}Q = P\nQ.go(T)", "class P is passed on"),
    "a class in a list": (f"{OWN}[Q] = [P]", "class P is passed on"),
    "a class to an equal of its own": (f"{OWN}made = C() == P", "class P is passed on"),
    "a class to an isinstance of its own": (f"def isinstance(a, b): pass\n{OWN}isinstance(3, P)", "P is passed on"),
    "a class in an annotation": (f"{OWN}def f(a: T.Tensor(steal(P), 'int8')): pass", "class P is passed on"),
    "a class as a default": (f"{OWN}steal(default_factory=P)", "class P is passed on"),
    "an enum by another name": (f"{ENUM}F = E\nF('F', [('A', 1)])", "class E is passed on"),
}  # fmt: skip
STAYS = {
    "an object of its own": f"{OWN}    @property\n    def x(self): return self._x\np = P()\nisinstance(p, P)\nP().go()",
    "a kernel in a method": "class P:\n    def go(self):\n        @T.macro\n        def inner(x): return x + self.k\n",
    "a method that is a macro": "class P:\n    @T.macro\n    def go(self, x): return x + self.k\n",
    "a list of its own": f"{OWN}{DATA}class A:\n    b: P = field(default_factory=P)",
    "an error of its own": f"{OWN}class Un(OSError): pass\ntry:\n    raise Un\nexcept (Un, KeyError): pass",
    "members of an enum": f"{ENUM}def f(x: E): return E('int(3)'), E.A, E['A'], [e for e in E], x in E, type(x) is E",
    "all members of an enum": f"{ENUM}found = list(E), len(E), max(E), sorted(E), [*zip(E, E)]",
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


def own(source: str) -> dict[str, classes.OwnNames]:
    """The own names after each path of a source."""
    nodes = list(ast.walk(ast.parse(HEADER + source)))
    found = classes.OwnClasses.of(nodes)
    return {ast.unparse(each): found.names_of(each) for each in nodes if isinstance(each, ast.Attribute)}


def test_an_attribute_that_is_set_deeper_is_not_selfs_own() -> None:
    source = "class P:\n  def __init__(self):\n    self.k = T\n    self.k.x = 3\n    def within(): self.y = 3\n"
    nodes = list(ast.walk(ast.parse(source)))
    made = classes.OwnClasses.of(nodes).made
    assert [each.attr for each in nodes if isinstance(each, ast.Attribute) and id(each) in made] == ["k"]


def test_the_fields_of_a_class_are_those_of_its_objects_alone() -> None:
    found = own(
        "class A:\n  mm = 3\nclass B(A): pass\nclass C: pass\na = B()\nb = A()\nb = T\nc = C()\na.x, b.x, c.x, B().x"
    )
    assert {path: "mm" in each.fields for path, each in found.items()} == {
        "a.x": True, "b.x": False, "c.x": False, "B().x": True
    }  # fmt: skip


def test_a_class_of_another_base_has_no_private_names() -> None:
    text = "class P({}):\n  def __init__(self):\n    self._x = 1\n"
    for base, private in (("", {"_x", "__init__"}), ("ValueError", {"_x", "__init__"}), ("T.Kernel", set())):
        assert own(text.format(base))["self._x"].private == private
