"""Lanes: the tests that need seconds, minutes, or all of CI.

A fast test imports neither torch nor TileLang, and starts no Python and no browser. Nobody marks it: ``--fast`` skips
what tries to.
A slow one is marked. Tests that measure take turns on one worker, since all of them pin the last core.
"""

import sys
from collections.abc import Iterable
from multiprocessing import forkserver
from pathlib import PurePath
from typing import Any, Final, NoReturn

import pytest

HEAVY: Final = frozenset({"torch", "tilelang", "tvm"})
PROGRAMS: Final = ("python", "node")  # and what drives a browser
# Folders and files whose tests measure on the CPU.
MEASURE: Final = (
    "tests/harness/boards",
    "tests/harness/cli",
    "tests/harness/extras/foreign",
    "tests/harness/extras/overhead",
    "tests/harness/extras/profile",
    "tests/harness/extras/selftest",
    "tests/harness/extras/tune/test_end_to_end.py",
    "tests/harness/operators",
    "tests/harness/runs",
)


def group(path: PurePath, gpu: bool) -> str:
    """The worker's share that a test belongs to: tests of one file share what they set up."""
    name = path.as_posix()
    return "measuring" if gpu or name.startswith(MEASURE) else name


def keep_fast() -> None:
    """From now on a test that imports torch or starts a Python process is skipped."""
    forkserver.ensure_running = refuse  # which no event tells of
    sys.addaudithook(watch)


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "import" and arguments[0].partition(".")[0] in HEAVY:
        refuse()
    if event == "subprocess.Popen" and PurePath(str(arguments[0])).name.startswith(PROGRAMS):
        refuse()


def refuse() -> NoReturn:
    # No Exception, so that the code under test does not handle it.
    raise pytest.skip.Exception("it imports torch, or starts Python or a browser", allow_module_level=True)


def few(cases: Iterable[Any], *chosen: Any) -> list[Any]:
    """All cases of a parameter; `make test` runs those that are chosen, and `make test-all` the others too."""
    found = list(cases)
    assert all(each in found for each in chosen), chosen
    return [each if each in chosen else pytest.param(*_values(each), marks=pytest.mark.slow) for each in found]


def _values(case: Any) -> tuple[Any, ...]:
    return case if isinstance(case, tuple) else (case,)
