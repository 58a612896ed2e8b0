"""How many builds go at once: no more than a container's quota of cores and its memory take, whatever the node has."""

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any, cast

import pytest

from harness.catalog import gpus
from harness.catalog.tree import Tree
from harness.extras.profile import run as profiles
from harness.extras.tune import screen as screens
from harness.judge.candidate import Settings
from harness.judge.child.brief import Brief
from harness.judge.facts.problem import parse_shape_key
from harness.judge.processes import memory_limit_bytes
from harness.machine import cores, memory
from harness.machine.progress import Quiet
from harness.records.base import Stage
from harness.runs import run
from tests.harness.checkout import ROOT

PROBLEM = parse_shape_key("matmul_bf16fp32_4096x4096x4096")
NODE_CORES = 192
GIB = 1 << 30


class Node:
    """192 cores and a container on it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.quota = folder / "cpu.max"
        self.old_quota, self.old_period = folder / "cpu.cfs_quota_us", folder / "cpu.cfs_period_us"
        monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(NODE_CORES)))
        monkeypatch.setattr(cores, "QUOTAS", ((self.quota,), (self.old_quota, self.old_period)))
        self.give(1024 * GIB)

    def give(self, memory_bytes: int) -> None:
        self._monkeypatch.setattr(memory, "total_bytes", lambda: memory_bytes)


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    return Node(tmp_path, monkeypatch)


class Heard(Quiet):
    def __init__(self) -> None:
        self.said: list[str] = []

    def doing(self, text: str) -> None:
        self.said.append(text)


@pytest.mark.parametrize(
    ("quota", "usable"),
    [
        ("max 100000", NODE_CORES),
        ("1600000 100000", 16),
        ("250000 100000", 2),
        ("50000 100000", 1),
        ("99999900000 100000", NODE_CORES),
        ("odd", NODE_CORES),
    ],
)
def test_the_quota_of_a_control_group_limits_cores(node: Node, quota: str, usable: int) -> None:
    node.quota.write_text(f"{quota}\n")
    assert cores.usable() == usable


@pytest.mark.parametrize(("quota", "usable"), [("-1", NODE_CORES), ("1600000", 16), ("50000", 1)])
def test_so_does_that_of_version_1(node: Node, quota: str, usable: int) -> None:
    node.old_quota.write_text(f"{quota}\n")
    node.old_period.write_text("100000\n")
    assert cores.usable() == usable


def test_without_a_quota_cores_are_those_of_the_affinity(node: Node) -> None:
    assert cores.usable() == NODE_CORES


@pytest.mark.parametrize("gib", [2, 5, 64, 1024])
def test_each_job_may_take_a_gib(node: Node, gib: int) -> None:
    node.give(gib * GIB)
    assert memory_limit_bytes(cores.jobs()) >= GIB


def test_there_is_always_a_job(node: Node) -> None:
    node.give(GIB)
    assert cores.jobs() == 1
    node.give(64 * GIB)
    node.quota.write_text("100000 100000\n")
    assert cores.jobs(spare=2) == 1


@pytest.mark.parametrize(("quota", "gib", "jobs"), [("1600000 100000", 64, 14), ("max 100000", 64, 32)])
def test_a_run_builds_no_more_at_once(node: Node, quota: str, gib: int, jobs: int) -> None:
    node.quota.write_text(quota)
    node.give(gib * GIB)
    plan = run.Plan(Tree(ROOT), gpus.find("h200"), None, (), Settings(3.0), upto=Stage.BENCH)
    heard = Heard()
    assert not list(run._carry_out(plan, [], heard))
    assert heard.said == [f"importing torch and TileLang, then building 0 iterations on {jobs} cores"]


@pytest.mark.parametrize(("quota", "gib", "jobs"), [("1600000 100000", 64, 14), ("max 100000", 64, 32)])
def test_a_screen_builds_no_more_at_once(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str, gib: int, jobs: int
) -> None:
    node.quota.write_text(quota)
    node.give(gib * GIB)
    chosen: list[int] = []

    def run_ahead(work: object, items: object, threads: int, **_: object) -> AbstractContextManager[Iterator[Any]]:
        chosen.append(threads)
        return nullcontext(iter(()))

    monkeypatch.setattr(screens, "run_ahead", run_ahead)
    brief = Brief(ROOT, PROBLEM, gpus.find("h200"), None)
    screens.screen(brief, [cast(Any, None)] * 500, Settings(3.0), tmp_path, lambda screened: None)
    assert chosen == [jobs]


def test_profiles_go_on_the_cores_of_the_quota(node: Node) -> None:
    node.quota.write_text("800000 100000")
    heard = Heard()
    children = type("Children", (), {"stop": lambda self: None})()
    session: Any = type("Session", (), {"time": lambda self, iteration: iteration, "children": children})()
    iterations: Any = list(range(8))
    assert list(profiles.in_lanes(iterations, session, None, profiles.Profiles(), heard)) == iterations
    assert heard.said == ["profiling 8 iterations, 2 at a time"]


@pytest.mark.parametrize(("lanes", "each"), [(1, 192), (4, 48), (8, 24), (64, 3)])
def test_runs_beside_each_other_share_no_core(node: Node, lanes: int, each: int) -> None:
    slices = [cores.slice_of(lane, lanes) for lane in range(lanes)]
    taken = [cpu for one in slices for cpu in one]
    assert len(taken) == len(set(taken))
    assert {len(one) for one in slices} == {each}


def test_runs_have_no_more_cores_together_than_the_quota(node: Node) -> None:
    node.quota.write_text("1600000 100000\n")
    assert len(cores.slice_of(1, 2)) == 8
    assert len(cores.slice_of(0, 8)) == NODE_CORES  # two each are too few to measure with


def test_neither_the_threads_of_a_core_nor_those_of_a_full_quota_are_apart(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cores, "_topology", lambda cpu: (0, cpu % (NODE_CORES // 2)))
    others = set(range(NODE_CORES)) - {NODE_CORES // 2 - 1, NODE_CORES - 1}
    assert cores.apart_from(NODE_CORES - 1) == others
    node.quota.write_text("1600000 100000\n")
    assert cores.apart_from(NODE_CORES - 1) == set()


def test_all_threads_of_a_process_are_pinned_and_those_that_they_start() -> None:
    core = max(os.sched_getaffinity(0))
    code = (
        "import os, threading, time; inner = threading.Thread(target=time.sleep, args=(60,), daemon=True)\n"
        "threading.Thread(target=time.sleep, args=(60,), daemon=True).start(); print(flush=True); input()\n"
        "inner.start(); print(flush=True); input()"
    )
    with Popen([sys.executable, "-c", code], stdin=PIPE, stdout=PIPE) as process:
        assert process.stdin and process.stdout
        process.stdout.readline()
        cores.pin(process.pid, core)
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.stdout.readline()
        tasks = [int(task.name) for task in Path(f"/proc/{process.pid}/task").iterdir()]
        assert [os.sched_getaffinity(task) for task in tasks] == [{core}] * 3
        process.kill()
    cores.pin(process.pid, core)  # it is gone, which its next order tells
