"""A contestant as its parent sees it: its confinement, its PID, and what is left when it has ended."""

import importlib.util
import os
import py_compile
import time
from pathlib import Path

import psutil
import pytest

from harness.catalog import gpus
from harness.judge.child import namespaces
from harness.judge.child.contestant import load
from harness.judge.facts.problem import parse_shape_key
from harness.judge.processes import Contestant, memory_bytes, start_forkserver
from tests.harness.checkout import ROOT
from tests.harness.checkout import until as soon

ORPHAN = """
import os, time
if os.fork() == 0:
    if os.fork():
        os._exit(0)
    while True:
        time.sleep(1)
os.wait()
time.sleep(600)
"""
DEADLINE_S = 60.0
PROBLEM = parse_shape_key("matmul_f32fp32_16x16x16")


@pytest.fixture(scope="module", autouse=True)
def _forkserver() -> None:
    start_forkserver(gpus.find("cpu"), None)


def group(leader: int) -> list[psutil.Process]:
    """The living processes of a group."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getpgid(process.pid) == leader and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (ProcessLookupError, psutil.Error):
            continue
    return found


def until(leader: int, count: int) -> list[psutil.Process]:
    """The group when it has so many processes."""
    end = time.monotonic() + DEADLINE_S
    while len(found := group(leader)) != count and time.monotonic() < end:
        time.sleep(0.01)
    return found


def test_an_orphan_of_a_contestant_is_ended_before_it_is_timed_or_with_its_end(tmp_path: Path) -> None:
    path = tmp_path / "iter001_orphan.py"
    path.write_text(ORPHAN)
    for early in (True, False):
        contestant = Contestant(ROOT, path, PROBLEM, gpus.find("cpu"))
        try:
            contestant._await_confinement(DEADLINE_S)
            leader = contestant.pid
            assert len(until(leader, 2)) == 2
            if early:
                contestant.end_children()
                assert [each.pid for each in until(leader, 1)] == [leader]
        finally:
            contestant.end()
        assert until(leader, 0) == []


def test_the_memory_of_an_orphan_counts(tmp_path: Path) -> None:
    if not namespaces.offered():
        pytest.skip("without namespaces an orphan is another process's child")
    path = tmp_path / "iter001_orphan.py"
    path.write_text(ORPHAN.replace("    while True", "    held = b'x' * (64 << 20)\n    while True"))
    contestant = Contestant(ROOT, path, PROBLEM, gpus.find("cpu"))
    try:
        contestant._await_confinement(DEADLINE_S)

        def counted() -> bool:
            return memory_bytes(contestant.pid, contestant.process.pid) - memory_bytes(contestant.pid) > 64 << 20

        assert soon(counted, DEADLINE_S)
    finally:
        contestant.end()


def test_the_file_s_text_runs_and_no_bytecode_beside_it(tmp_path: Path) -> None:
    path, other = tmp_path / "iter001_honest.py", tmp_path / "other.py"
    other.write_text("WHO = 'the bytecode'\n")
    compiled = Path(importlib.util.cache_from_source(str(path)))
    py_compile.compile(str(other), str(compiled), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    path.write_text("WHO = 'the text'\n")
    assert load(path).WHO == "the text"


def test_the_parent_knows_the_pid_that_the_contestant_itself_may_not_know(tmp_path: Path) -> None:
    path = tmp_path / "iter001_waits.py"
    path.write_text("import time\nprint('here', flush=True)\ntime.sleep(600)\n")
    contestant = Contestant(ROOT, path, PROBLEM, gpus.find("cpu"))
    try:
        contestant._await_confinement(DEADLINE_S)
        process = psutil.Process(contestant.pid)
        assert os.getpgid(contestant.pid) == contestant.pid
        apart = namespaces.offered()
        assert (process.pid != contestant.process.pid) == apart
        contestant.kill()
        process.wait(DEADLINE_S)
        assert contestant.fate() == "was killed by SIGKILL"
    finally:
        contestant.end()
