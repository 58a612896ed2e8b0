"""The place of a failure: the iteration's lowest frame, a family's below it, or the kernel; foreign text is tame."""

import os
from pathlib import Path

import pytest

from harness.judge.candidate import Rejection
from harness.judge.places import NAMED, UserCode, parsed, stacked, words_of
from harness.records.base import Cause

SOURCE = """from kernels.mine import family

CONFIG = dict(block=8)


def build(problem):
    def launch(a, out):
        family(a, **CONFIG)

    return launch
"""
FAMILY = """def family(a, block):
    rest = a % block
    raise ValueError(rest)
"""


@pytest.fixture
def code(tmp_path: Path) -> UserCode:
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "mine.py").write_text(FAMILY)
    own = tmp_path / "tuning" / "iter001_idea.py"
    own.parent.mkdir()
    own.write_text(SOURCE)
    return UserCode(own, tmp_path)


def test_the_lowest_frames_of_the_iteration_and_of_its_family_are_named(code: UserCode) -> None:
    frames = [
        ("/usr/lib/python3/runpy.py", 9),
        (str(code.own), 6),
        (str(code.own), 8),
        (f"{code.root}/kernels/mine.py", 2),
    ]
    told = code.located("TypeError: no.", [*frames, ("/usr/lib/torch/nn.py", 70)])
    assert told == ("TypeError: no, at iter001_idea.py:8: family(a, **CONFIG); in kernels/mine.py:2: rest = a % block")
    assert NAMED.search(told)


def test_the_line_of_a_family_that_refuses_says_nothing_more(code: UserCode) -> None:
    told = code.located("ValueError: 3", [(str(code.own), 8), (f"{code.root}/kernels/mine.py", 3)])
    assert told == "ValueError: 3, at iter001_idea.py:8: family(a, **CONFIG)"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "iter001_idea.py:7: def launch(a, out):"),
        (("nowhere", "block"), "iter001_idea.py:7: def launch(a, out):; in kernels/mine.py:1: def family(a, block):"),
        (("CONFIG", "a"), "iter001_idea.py:3: CONFIG = dict(block=8)"),
    ],
)
def test_without_a_frame_it_is_what_a_compiler_names_or_the_kernel(
    code: UserCode, words: tuple[str, ...], told: str
) -> None:
    assert code.located("error", [], words) == f"error, at {told}"


def test_a_compiler_may_name_a_part_of_a_text(code: UserCode) -> None:
    code.own.write_text("def build(problem):\n    return asm('no.such.ptx;', 'float23')\n")
    for complaint in ("Unknown modifier '.such'", "Cannot convert type float23"):
        assert code.located(complaint, [], words_of(complaint)).endswith(":2: return asm('no.such.ptx;', 'float23')")


@pytest.mark.parametrize("source", ["", "def build(problem:\n", "\0", "def other():\n    return 1\n"])
def test_a_source_without_a_kernel_has_a_place_too(code: UserCode, source: str) -> None:
    code.own.write_text(source)
    assert code.located("it is empty", []).startswith("it is empty, at iter001_idea.py:")


def test_a_stack_is_read_from_the_outside_in() -> None:
    text = 'Current thread 0x7:\n  File "/b.py", line 3 in launch\n  File "/a.py", line 7 in run\n'
    assert list(stacked(text)) == [("/a.py", 7), ("/b.py", 3)]


def test_a_pipe_in_the_place_of_a_source_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    assert parsed(tmp_path / "pipe.py").body == []
    assert parsed(Path("/dev/zero")).body == []


def test_what_a_contestant_says_is_bounded_and_escaped() -> None:
    rejection = Rejection(Cause.COMPILE, "\x1b[2J" * 10_000, "\x1b]0;title\x07 \u202e\n" * 100_000)
    assert len(rejection.reason) < 8000
    assert rejection.traceback is not None
    assert len(rejection.traceback) < 6100
    assert all(line.isprintable() for line in rejection.traceback.split("\n"))
