"""Lanes: the tests that need seconds, minutes, or all of CI.

A fast test imports neither torch nor TileLang, and starts no Python and no browser. It needs no mark: ``--fast`` skips
what tries to.
A slow one is marked. Tests that measure take turns on one worker, since all of them pin the last core.
"""

import sys
from collections.abc import Iterable
from multiprocessing import forkserver
from pathlib import PurePath
from typing import Any, Final, NoReturn

import pytest
from xdist.scheduler import LoadScopeScheduling

HEAVY: Final = frozenset({"torch", "tilelang", "tvm"})
PROGRAMS: Final = ("python", "node")  # and what drives a browser
# Files and folders of tests that measure on the CPU; those for a GPU say so in their names.
MEASURE: Final = (
    "tests/docs/test_tutorial.py",
    "tests/harness/authoring/test_scripted_tuner.py",
    "tests/harness/boards/test_play_off.py",
    "tests/harness/boards/test_reproduce.py",
    "tests/harness/boards/test_sustained.py",
    "tests/harness/cli/test_bad_input.py",
    "tests/harness/cli/test_repository.py",
    "tests/harness/extras/foreign/test_bench.py",
    "tests/harness/extras/overhead/test_overhead.py",
    "tests/harness/extras/profile/test_launch.py",
    "tests/harness/extras/profile/test_run.py",
    "tests/harness/extras/selftest/",
    "tests/harness/extras/tune/test_end_to_end.py",
    "tests/harness/extras/tune/test_screen.py",
    "tests/harness/operators/test_attention.py",
    "tests/harness/operators/test_scaled.py",
    "tests/harness/runs/",
)


class Scheduler(LoadScopeScheduling):  # type: ignore[misc]  # untyped
    """Gives a worker all tests of a file, which share what they set up, or all that measure."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "measuring" if file.startswith(MEASURE) or "_on_" in file else file

    def remove_node(self, node: Any) -> str | None:
        """The test that killed its worker, which no other worker then takes; None where a worker ended well."""
        files = self.assigned_work[node].values()
        work, killer = next(((file, test) for file in files for test, done in file.items() if not done), (None, None))
        if work is not None:
            work[killer] = True
        super().remove_node(node)
        return killer


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
