"""Whatever stands on the command line or in the environment, the answer is a document, or one line and an exit code."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.catalog import gpus
from harness.catalog.tree import Tree
from harness.cli.app import app, carry_out, parsing
from harness.cli.options import BuildOptions
from harness.doctor import tools
from harness.errors import ExitCode, TilebenchError
from harness.evidence import toolchain
from harness.machine.guard import guarded
from harness.records.environment import image

VERBS: Final = [*sorted(each for each in app if not each.startswith("-")), "run", "bnech", ""]
OPTIONS: Final = [
    *("--gpu", "--shape", "--model", "--iter", "--json", "--force", "--again", "--budget", "--deadline", "--attempts"),
    *("--from", "--no-such", "-", "--", "--iter=", "--gpu=cpu", "--help", "--version", "-h"),
]
VALUES: Final = [
    *(
        "cpu",
        "h200",
        "auto",
        "matmul_f32fp32_64x64x64",
        "me",
        "3",
        "003",
        "-1",
        "1e999",
        "nan",
        "\x1b[31m",
        "\n",
        "é",
        " ",
    ),
]
TOOLS: Final = ["CUDA_HOME", "CUDA_PATH", "CXX", "CC"]
NAMES: Final = [*TOOLS, "CUDA_VISIBLE_DEVICES", "TILEBENCH_ROOT", "TILEBENCH_IMAGE"]

words = st.sampled_from(VALUES) | st.text(max_size=12)
lines = st.builds(
    lambda verb, rest: [verb, *rest],
    st.sampled_from(VERBS) | words,
    st.lists(st.sampled_from(OPTIONS) | words, max_size=8),
)


@given(line=lines)
def test_command_lines_are_taken_or_refused(capsys: pytest.CaptureFixture[str], line: list[str]) -> None:
    """Parsed and converted as the verbs do it, without carrying out what would take minutes."""

    def parsed() -> None:
        with parsing():
            _, bound, _ = app.parse_args(line, exit_on_error=False, print_error=False)
        for given_value in bound.arguments.values():
            if isinstance(given_value, BuildOptions):
                given_value.settings(gpus.find("cpu"))

    code = guarded(parsed)
    answered(code, capsys, ExitCode.USAGE)


@given(
    verb=st.sampled_from(["check", "leaderboard", "next", "tuning"]),
    rest=st.lists(st.sampled_from(OPTIONS) | words, max_size=6),
)
def test_commands_that_only_read(
    verb: str, rest: list[str], tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILEBENCH_ROOT", str(tmp_path_factory.getbasetemp()))
        code = carry_out([verb, *rest])
    answered(code, capsys, ExitCode.USAGE)


@given(name=st.sampled_from(NAMES), value=st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=40))
def test_environment_variables(name: str, value: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for each in NAMES:
            patch.delenv(each, raising=False)
        patch.setenv(name, value)
        patch.chdir(tmp_path_factory.getbasetemp())
        for reader in (_tools, _tree, image, gpus.detect, toolchain.ncu_path):
            assert _refusal(reader).isprintable()


def answered(code: ExitCode, capsys: pytest.CaptureFixture[str], refused: ExitCode) -> None:
    said = capsys.readouterr()
    assert code in (ExitCode.PASSED, refused), said.err
    if code is refused:
        text = " ".join(said.err.split())
        assert text.startswith("tilebench: "), said.err
        assert "Traceback" not in text
        assert text.isprintable(), repr(text)


def _tools() -> None:
    toolchain.find.cache_clear()
    toolchain.find()
    for finding in tools.compiler([]):
        assert finding.found


def _tree() -> None:
    Tree.here().short(Path(os.sep))


def _refusal(reader: Callable[[], object]) -> str:
    """What is said where it is refused; the command line says of a system's error which file it is about."""
    try:
        reader()
    except TilebenchError as error:
        return str(error)
    except OSError as error:
        return str(error) if error.filename else f"an error about no file:\n{error!r}"
    return ""
