"""Builds run ahead; on a CPU only on cores that share nothing with the one that measures."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from harness.catalog import gpus
from harness.machine import cores, memory
from harness.runs import builders
from harness.runs.builders import Builders

CPU, H200 = gpus.find("cpu"), gpus.find("h200")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A process in the forkserver's place."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        monkeypatch.setattr(builders, "server_pids", lambda: [process.pid])
        yield process.pid
        process.kill()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="all cores measure here")
def test_builds_keep_off_the_core_that_measures_while_the_run_lasts(
    server: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed = os.sched_getaffinity(0)
    monkeypatch.setattr(cores, "apart_from", lambda core: allowed - {core})
    with builders.builders(CPU, measures=True) as by:
        assert os.sched_getaffinity(server) == allowed - {max(allowed)}
        jobs = min(len(allowed) - 1, cores.jobs(1))
        assert by == Builders(jobs, builders.CPU_WINDOW, jobs)
    assert os.sched_getaffinity(server) == allowed


def test_builds_take_turns_with_measurements_where_every_core_would_disturb(
    server: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cores, "apart_from", lambda core: set())
    with builders.builders(CPU, measures=True) as by:
        assert os.sched_getaffinity(server) == os.sched_getaffinity(0)
        assert by == Builders(cores.jobs(), builders.CPU_WINDOW, cores.jobs(), in_batches=True)


@pytest.mark.parametrize("key", ["cpu", "h200"])
def test_builds_alone_take_all_cores(server: int, key: str) -> None:
    with builders.builders(gpus.find(key), measures=False) as by:
        assert by == Builders(cores.jobs(), 2 * cores.jobs(), 2 * cores.jobs())


@pytest.mark.parametrize(("usable", "first"), [(16, 4), (4, 2)])
def test_a_gpu_leaves_two_cores_to_what_measures_and_begins_with_few_builds(
    server: int, monkeypatch: pytest.MonkeyPatch, usable: int, first: int
) -> None:
    monkeypatch.setattr(cores, "usable", lambda: usable)
    monkeypatch.setattr(memory, "total_bytes", lambda: 1 << 40)
    with builders.builders(H200, measures=True) as by:
        assert by == Builders(usable - builders.SPARE_CORES, 2 * (usable - builders.SPARE_CORES), first)
        assert os.sched_getaffinity(server) == os.sched_getaffinity(0)
