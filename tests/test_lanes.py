"""The lanes: what the fast one refuses, and which tests take turns because they measure."""

import re
import subprocess
import sys
from collections.abc import Callable
from multiprocessing import forkserver
from pathlib import Path

import pytest

from tests import lanes


@pytest.mark.parametrize(
    "event",
    [
        ("import", ("torch", None, None, None, None)),
        ("import", ("tilelang.language", None, None, None, None)),
        ("subprocess.Popen", (sys.executable, [], None, None)),
        ("subprocess.Popen", ("/usr/bin/python3.11", [], None, None)),
    ],
)
def test_a_fast_test_imports_no_torch_and_starts_no_python(event: tuple[str, tuple[object, ...]]) -> None:
    with pytest.raises(pytest.skip.Exception):
        lanes.watch(*event)


@pytest.mark.parametrize(
    "event", [("import", ("torchless", None, None, None, None)), ("subprocess.Popen", ("/bin/sh", [], None, None))]
)
def test_all_else_it_may(event: tuple[str, tuple[object, ...]]) -> None:
    lanes.watch(*event)


HEAVY: dict[str, Callable[[], object]] = {
    "torch": lambda: __import__("torch"),
    "python": lambda: subprocess.run([sys.executable, "--version"], check=True),
    "forkserver": lambda: forkserver.ensure_running(),
}


@pytest.mark.parametrize("what", HEAVY)
def test_the_lane_is_watched(what: str, request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("fast"):
        pytest.skip("make test-fast runs it")
    with pytest.raises(pytest.skip.Exception):
        HEAVY[what]()


CRASHES = """
import os, pytest

@pytest.mark.parametrize("number", range(4))
def test_it(number):
    if number == 1:
        os.abort()
"""


def test_a_test_that_kills_its_worker_fails_once_and_the_others_go_on(tmp_path: Path) -> None:
    folder = str(tmp_path)
    (tmp_path / "test_it.py").write_text(CRASHES)
    command = [sys.executable, "-m", "pytest", "-n", "2", "-p", "tests.conftest", "--rootdir", folder, folder]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    assert "1 failed, 3 passed" in done.stdout


ROOT = Path(__file__).parents[1]
MEASURES = re.compile(r'(?:run|json|started)\(\s*"(?:bench|tune|play-off|overhead|profile|selftest|foreign)"')


def test_what_measures_takes_turns() -> None:
    """The list names what is there, and every file with a command that measures."""
    assert [path for path in lanes.MEASURE if not (ROOT / path).exists()] == []
    files = {str(path.relative_to(ROOT)): path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}
    measuring = [name for name, text in files.items() if MEASURES.search(text) and name != "tests/test_lanes.py"]
    assert len(measuring) > 8
    assert [name for name in measuring if not name.startswith(lanes.MEASURE) and "_on_" not in name] == []
