"""The import reader names every import of a source, whatever its form, without running it."""

import ast

import pytest

from harness.judge.facts.import_reader import Imported, imports


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import a.b", Imported(("a", "b"), None, "a", 1)),
        ("import a.b as c", Imported(("a", "b"), None, "c", 1)),
        ("from a.b import c", Imported(("a", "b"), "c", "c", 1)),
        ("from a import b as c", Imported(("a",), "b", "c", 1)),
        ("from a import *", Imported(("a",), "*", "*", 1)),
        ("from . import a", Imported(("here", "now"), "a", "a", 1, relative=True)),
        ("from ..a import b", Imported(("here", "a"), "b", "b", 1, relative=True)),
        ("def f():\n    import a", Imported(("a",), None, "a", 2)),
        ("if True:\n    from a import b", Imported(("a",), "b", "b", 2)),
    ],
)
def test_every_form_of_import_is_read(source: str, expected: Imported) -> None:
    assert list(imports(ast.parse(source), ("here", "now"))) == [expected]


def test_one_statement_may_import_several_names() -> None:
    assert [each.full for each in imports(ast.parse("import a, b.c\nfrom d import e, f"))] == ["a", "b.c", "d.e", "d.f"]


def test_a_source_without_imports_has_none() -> None:
    assert list(imports(ast.parse("a = 1\na.b.c()\n'import d'"))) == []
