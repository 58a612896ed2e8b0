"""Every command that a message names exists, and takes the options that the message gives it."""

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from harness.cli.app import app
from harness.machine import hints
from tests.harness.checkout import ROOT, TARGETS

MAKE: Final = re.compile(r"(?<![\w-])make ([a-z][\w-]*)(?= GPU|`|,|;|\)|$| does| adds| installs| then| shows)")
ADDS: Final = re.compile(r"\badds\(['\"]([a-z-]+)")
VERB: Final = re.compile(r"(?:tilebench|-m harness) ([a-z][a-z-]*)([^`';:]*)")
OPTION: Final = re.compile(r"(?<!\S)(--[a-z][a-z-]*)")
# What follows the program's name in a sentence, and is no verb.
WORDS: Final = frozenset({"of", "installed", "is", "cannot", "needs", "and", "in", "or", "with", "has", "iteration"})


@cache
def messages() -> tuple[tuple[str, str], ...]:
    """Every text in the harness that is no docstring, with its place; what is filled in reads ``…``."""
    return tuple(each for path in sorted((ROOT / "harness").rglob("*.py")) for each in texts(path))


def texts(path: Path) -> Iterator[tuple[str, str]]:
    nodes = list(ast.walk(ast.parse(path.read_text())))
    silent = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    silent |= {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if id(node) in silent:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield f"{path.relative_to(ROOT)}:{node.lineno}", node.value
        elif isinstance(node, ast.JoinedStr):
            yield f"{path.relative_to(ROOT)}:{node.lineno}", "".join(map(read, node.values))


def read(part: ast.expr) -> str:
    """A part of an f-string, with the program's name where that is filled in."""
    if isinstance(part, ast.Constant):
        return str(part.value)
    return "tilebench" if "hints.program()" in ast.unparse(part) else "…"


def named(pattern: re.Pattern[str]) -> list[tuple[str, re.Match[str]]]:
    return [(place, found) for place, text in messages() for found in pattern.finditer(text)]


def options(verb: str) -> frozenset[str]:
    return frozenset(name for argument in app[verb].assemble_argument_collection() for name in argument.names)


def test_every_target_of_make_exists() -> None:
    found = named(MAKE)
    assert found
    assert [(place, each[1]) for place, each in found if each[1] not in TARGETS] == []
    sources = (path.read_text() for path in (ROOT / "harness").rglob("*.py"))
    added = {target for source in sources for target in ADDS.findall(source)}
    assert added
    assert added <= set(TARGETS)


def test_every_verb_exists_and_takes_its_options() -> None:
    verbs = {verb for verb in app if not verb.startswith("-")}
    found = [(place, each) for place, each in named(VERB) if each[1] not in WORDS]
    assert len(found) > 5
    assert [(place, each[0]) for place, each in found if each[1] not in verbs] == []
    for place, each in found:
        assert set(OPTION.findall(each[2])) <= options(each[1]), (place, each[0])


def test_pip_installs_into_this_environment_what_is_pinned_or_lies_here() -> None:
    home = "harness/machine/hints.py"
    assert [place for place, text in messages() if "pip install" in text and not place.startswith(home)] == []
    assert Path(hints.pip_install("x==1").split()[0]).is_file()


@pytest.mark.parametrize("extra", ["build", "sass", "fleet"])
def test_an_extra_that_a_hint_names_exists(extra: str) -> None:
    assert re.search(rf"^{extra} = \[", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert hints.pip_install_here(extra).endswith(f"{ROOT}[{extra}]'")


def test_the_program_is_called_as_the_shell_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a checkout nothing is activated, so a bare name would be: command not found."""
    folder = tmp_path / "my env" / "bin"
    folder.mkdir(parents=True)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    monkeypatch.setenv("PATH", "/usr/bin")
    assert hints.program() == f"'{folder / 'python'}' -m harness"
    (folder / "tilebench").touch(mode=0o755)
    assert hints.program() == f"'{folder / 'tilebench'}'"
    monkeypatch.chdir(folder.parent)
    assert hints.program() == "bin/tilebench"
    monkeypatch.setenv("PATH", str(folder))
    assert hints.program() == "tilebench"
    monkeypatch.setattr(sys, "executable", "/usr/bin/python3")
    assert hints.program() == "tilebench"


@pytest.mark.parametrize("checkout", [True, False])
def test_make_is_named_where_it_is(monkeypatch: pytest.MonkeyPatch, checkout: bool) -> None:
    monkeypatch.setattr(hints, "in_checkout", lambda path: checkout)
    assert ("make build" in hints.adds("build", "sass")) is checkout
    assert hints.pip_install_here("sass") in hints.adds("build", "sass")
