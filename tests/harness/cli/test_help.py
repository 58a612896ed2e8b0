"""What helps a person at the command line: groups of verbs, suggestions, a pipe that ends early, make."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.cli.app import app, carry_out
from harness.cli.groups import GROUPS
from harness.errors import ExitCode, meant
from harness.machine import hints
from tests.harness.checkout import ROOT, one_line

H200 = ("--gpu", "h200")


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    monkeypatch.setenv("TILEBENCH_ROOT", str(ROOT))

    def said(*words: str) -> str:
        assert carry_out(words) is ExitCode.USAGE
        return one_line(capsys.readouterr().err)

    return said


def make(*words: str) -> subprocess.CompletedProcess[str]:
    """A target in the mode of the container, where the environment is there already, without our own make's flags."""
    folder = Path(sys.executable).parent
    outside = {name: value for name, value in os.environ.items() if name != "ARGS" and not name.startswith("MAKE")}
    found = outside | {"TILEBENCH_IMAGE": "here", "PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    return subprocess.run(["make", *words], cwd=ROOT, env=found, capture_output=True, text=True, check=False)


def test_every_verb_is_in_one_group(capsys: pytest.CaptureFixture[str]) -> None:
    verbs = [verb for verb in app if not verb.startswith("-") and app[verb].show]
    assert len(GROUPS) == 4
    assert sorted(each for group in GROUPS.values() for each in group) == sorted(verbs)
    carry_out(["--help"])
    printed = capsys.readouterr().out
    places = [printed.index(name) for name in GROUPS]
    assert places == sorted(places)
    assert printed.index("│ searches ") > places[2] > printed.index("│ tune ") > places[1]


def test_help_may_stand_first(capsys: pytest.CaptureFixture[str]) -> None:
    for words, verb in ((["help"], "COMMAND"), (["help", "bench"], "bench")):
        assert carry_out(words) is ExitCode.PASSED
        assert capsys.readouterr().out.startswith(f"Usage: tilebench {verb}")


def test_help_keeps_what_stands_in_angle_brackets(capsys: pytest.CaptureFixture[str]) -> None:
    carry_out(["report", "--help"])
    assert "tuning/<gpu>/report.html" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "suggestion"),
    [
        (("leaderbord",), 'Did you mean "leaderboard"?'),
        (("bogus",), f'Unknown command "bogus". `{hints.program()} --help` lists them'),
        (("bench", "--budgt", "3"), "Did you mean --budget?"),
        (
            ("compare",),
            "compare needs A: The records before: a revision, a file or folder of records, last, or previous",
        ),
        (("publish",), "publish needs --gpu: GPU key, such as h200"),
        (("publish", "--gpu"), "publish needs a value for --gpu: GPU key, such as h200"),
        (("bench", "h200"), "bench takes no 'h200'; its options begin with --, such as --gpu h200"),
        (("leaderboard", "--gpu", "h20"), "; did you mean h200?"),
        (
            ("leaderboard", *H200, "--shape", "matmul_bf16fp32_4096x4096x4069"),
            "; did you mean matmul_bf16fp32_4096x4096x4096?",
        ),
        (
            ("check", *H200, "--shape", "matmull_bf16fp32_4096x4096x4096"),
            "; did you mean matmul_bf16fp32_4096x4096x4096?",
        ),
        (
            ("leaderboard", *H200, "--shape", "relumatmul_bf16fp32_8192x8192x8192"),
            "; did you mean relumatmul_bf16fp32_4096x4096x4096?",  # not the same size of another operator
        ),
        (("build", *H200, "--model", "tilebnch"), "; did you mean tilebench?"),
        (("leaderboard", *H200, "--format", "smple"), "; did you mean simple?"),
        (
            ("leaderboard", *H200, "--shape", "matmul_bf16fp32_1024x1024x1024", "--iter", "99"),
            "; the last is iter010_dependent_launch",
        ),
        (
            (
                *("leaderboard", *H200, "--shape", "matmul_bf16fp32_1024x1024x1024"),
                *("--model", "tuner", "--iter", "99"),
            ),
            "; the last is iter002_tuned_warp_specialized",
        ),
        (
            ("check", *H200, "--shape", "matmul_bf16fp32_1024x1024x1024", "--iter", "iter010_other"),
            "; number 10 is iter010_dependent_launch",
        ),
    ],
)
def test_a_typo_has_a_suggestion(refused: Callable[..., str], words: tuple[str, ...], suggestion: str) -> None:
    assert suggestion in refused(*words)


@pytest.mark.parametrize(
    ("words", "suggestion"),
    [
        (("matmul_bf16fp32_8192x8192x8192", "--model", "tilebnch"), "did you mean tilebench?"),
        (("matmul_bf16fp32_8192x8192x819", "--model", "tilebench"), "did you mean matmul_bf16fp32_8192x8192x8192?"),
        (("matmul_bf16fp32_8192x8192x8192", "--model", "zebra"), ""),
    ],
)
def test_next_of_an_empty_ladder_says_what_was_meant(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], suggestion: str
) -> None:
    assert carry_out(["next", *H200, "--shape", *words]) is ExitCode.PASSED
    out, err = capsys.readouterr()
    assert "new writes iter000 first" in out
    assert suggestion in err and bool(suggestion) == bool(err)


def test_no_shape_of_another_operator_is_suggested(refused: Callable[..., str]) -> None:
    assert "did you mean" not in refused("build", *H200, "--shape", "nosuch_bf16fp32_4096x4096x4096")


def test_nothing_is_suggested_for_what_is_known_or_far() -> None:
    assert meant("cpu", ["cpu", "gpu"]) == meant("zebra", ["cpu"]) == meant(None, ["cpu"]) == ""


@pytest.mark.parametrize("words", [["leaderboard"], ["leaderboard", "--json"], ["export"], ["--help"]], ids=" ".join)
def test_a_reader_that_leaves_early_is_no_error(words: list[str]) -> None:
    """As in ``tilebench leaderboard | head -1``, with ``pipefail``."""
    place = [] if words == ["--help"] else list(H200)
    with subprocess.Popen(
        [sys.executable, "-m", "harness", *words, *place], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        assert running.stdout is not None and running.stderr is not None
        running.stdout.close()
        assert running.stderr.read() == b""
    assert running.returncode == 0


def test_make_refuses_a_setting_that_it_would_ignore() -> None:
    for words in (("leaderboard", "shape=matmul"), ("-n", "bench", "GPUZ=h200")):
        done = make(*words)
        assert (done.returncode, done.stdout) == (2, "")
        name = words[-1].partition("=")[0]
        assert f"'{name}=' is no setting of this Makefile; it takes, in capitals: GPU SHAPE" in done.stderr
    for setting in ("GPU", "SHAPE", "MODEL", "ITER", "GPUS", "PYTHON"):
        assert make("-n", "bench", f"{setting}=a", "ARGS=--budget 3 --again").returncode == 0, setting


def test_make_says_the_exit_code_that_it_hides() -> None:
    done = make("leaderboard", "GPU=h200", "SHAPE=matmul_bf16fp32_4096x4096x4069")
    assert done.returncode == 2
    assert "did you mean matmul_bf16fp32_4096x4096x4096?" in done.stderr
    assert "tilebench: exit code 2 (usage); make ends with 2" in done.stderr
    done = make("profile", "GPU=cpu")
    assert "tilebench: exit code 3 (infrastructure); make ends with 2" in done.stderr
    assert make("leaderboard", "GPU=h200", "SHAPE=matmul_bf16fp32_4096x4096x4096").stderr == ""
