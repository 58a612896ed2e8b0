"""The fast lane: what it refuses, whoever asks."""

import subprocess
import sys
from collections.abc import Callable
from multiprocessing import forkserver

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
