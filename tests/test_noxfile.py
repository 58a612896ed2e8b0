"""Each nox session calls targets of make and verbs that are there."""

import re
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

import nox.registry
import pytest

from harness.cli.app import app
from tests.harness.checkout import ROOT, TARGETS


@pytest.fixture(scope="module")
def sessions() -> dict[str, Any]:
    spec = spec_from_file_location("noxfile", ROOT / "noxfile.py")
    assert spec is not None and spec.loader is not None
    spec.loader.exec_module(module_from_spec(spec))
    return dict(nox.registry.get())


class Session:
    """Notes its commands."""

    def __init__(self, *posargs: str) -> None:
        self.posargs = posargs
        self.commands: list[tuple[str, ...]] = []

    def run(self, *command: str) -> None:
        self.commands.append(command)


@pytest.mark.parametrize("posargs", [(), ("--gpu", "h200")])
def test_every_session_calls_what_is_there(sessions: dict[str, Any], posargs: tuple[str, ...]) -> None:
    assert {"lint", "check", "tests", "build", "verify", "bench", "profile", "tune"} <= sessions.keys()
    for name, function in sessions.items():
        session = Session(*posargs)
        function(session)
        for program, *words in session.commands:
            if program == "make":
                assert words[0] in TARGETS, name
            else:
                assert words[:2] == ["-m", "harness"] and words[2] in app and words[3:] == list(posargs), name


def test_a_stage_that_compiles_asks_for_the_compilers_of_its_gpu(sessions: dict[str, Any]) -> None:
    session = Session("--gpu", "h200", "--iter", "3")
    sessions["bench"](session)
    assert session.commands[0] == ("make", "toolchain", "GPU=h200")


def test_make_calls_verbs_that_are_there() -> None:
    text = (ROOT / "Makefile").read_text()
    called = set(re.findall(r"(?:-m harness|\$\(RUN\)) ([a-z][a-z-]*)", text))
    assert {"bench", "missing-extra", "run-in-docker"} <= called
    assert called <= set(app)
