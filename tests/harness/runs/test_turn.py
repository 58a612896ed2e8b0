"""A run that began early waits for the process ahead with its device, and only then looks for others there."""

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from harness.catalog import gpus
from harness.catalog.tree import Tree
from harness.errors import InfrastructureError
from harness.judge.candidate import Settings
from harness.machine.identity import living
from harness.machine.nvml import Device
from harness.machine.progress import Quiet
from harness.records.base import Stage
from harness.runs import run, turn
from harness.runs.builders import FIRST_BUILDS
from harness.runs.turn import AFTER, Turn
from tests.harness.checkout import BUDGET, Checkout, until

H200 = gpus.find("h200")
DEVICE = Device(0, "NVIDIA H200", "GPU-0", "590.1", 700.0)


@pytest.fixture
def ahead() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has the device."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def name_of(process: subprocess.Popen[bytes]) -> str:
    found = living(process.pid)
    assert found is not None
    return found


@pytest.fixture
def waited(ahead: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Gets a line for each look at the process ahead while it lives; the third such look is the last."""
    looks: list[bool] = []

    def sleep(seconds: float) -> None:
        looks.append(living(ahead.pid) is not None)
        if len(looks) == 3:
            ahead.kill()  # nothing has reaped it yet

    monkeypatch.setattr("harness.runs.turn.time.sleep", sleep)
    return looks


def test_the_turn_comes_when_the_process_ahead_has_ended(ahead: subprocess.Popen[bytes], waited: list[bool]) -> None:
    own = Turn(name_of(ahead))
    own.take(None)
    assert waited[:3] == [True] * 3
    looks = len(waited)
    own.take(None)  # it has come
    assert (own.ahead, len(waited)) == (None, looks)


def test_another_process_of_the_same_number_is_not_waited_for(waited: list[bool]) -> None:
    Turn(f"{os.getpid()} 1").take(None)
    Turn("not a process").take(None)
    assert waited == []


def test_only_others_than_the_process_ahead_are_strangers(
    ahead: subprocess.Popen[bytes], waited: list[bool], tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process ahead is none, also where its children leave the device a moment after it."""
    users = [[ahead.pid], [], [7], [7], []]
    monkeypatch.setattr(turn, "released", lambda device: users.pop(0))
    monkeypatch.setattr(turn, "compute_processes", lambda device: users.pop(0))
    monkeypatch.setattr(run, "prepare", lambda *rest: None)
    monkeypatch.setattr(run, "own_turn", own := Turn(name_of(ahead)))
    with run.judging(tree, H200, DEVICE, Quiet()):
        assert own.ahead is None and waited
    assert users == [[7], [7], []]
    own.ahead = "not a process"
    with pytest.raises(InfrastructureError, match="in use by process 7"), run.judging(tree, H200, DEVICE, Quiet()):
        pass
    with run.alone(tree, H200, DEVICE):
        assert users == []


class Built:
    contestant = None

    def leave(self) -> None: ...


def test_the_first_builds_are_done_while_it_waits(
    ahead: subprocess.Popen[bytes], tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[Built] = []
    monkeypatch.setattr(run, "Candidate", lambda *rest, **more: Built())
    monkeypatch.setattr(run, "advance", lambda candidate, *rest, **more: built.append(candidate))
    monkeypatch.setattr(run, "own_turn", Turn(name_of(ahead)))
    monkeypatch.setattr("harness.runs.turn.time.sleep", lambda seconds: ahead.kill() if built else None)
    iterations: Any = list(range(20))
    plan = run.Plan(tree, H200, None, (), Settings(3.0), upto=Stage.VERIFY)
    with run.built_ahead(plan, iterations, Quiet(), 1.0) as given:
        next(given)
        assert living(ahead.pid) is None
        assert 1 <= len(built) <= FIRST_BUILDS
    plan = run.Plan(tree, H200, None, (), Settings(3.0), upto=Stage.BUILD)  # no device, and no turn
    monkeypatch.setattr(run, "own_turn", Turn(living(os.getpid())))
    with run.built_ahead(plan, iterations, Quiet(), 1.0) as given:
        assert len(list(given)) == 20


def test_no_child_gets_the_variable() -> None:
    code = f"import os; from harness.runs.turn import own_turn; print(own_turn.ahead, os.environ.get('{AFTER}'))"
    said = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {AFTER: "1 2"}, capture_output=True, text=True, check=True
    )
    assert said.stdout == "1 2 None\n"


def stopped(checkout: Checkout) -> list[psutil.Process]:
    """Contestants that are built, and stand still until they are measured."""
    return [each for each in checkout.processes() if stands_still(each)]


def stands_still(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_STOPPED
    except psutil.NoSuchProcess:  # it has ended since it was listed
        return False


@pytest.mark.slow
def test_a_bench_that_began_early_measures_nothing_before_its_turn(
    checkout: Checkout, ahead: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout.ladder((16,))
    monkeypatch.setenv(AFTER, name_of(ahead))
    with checkout.started("bench", "--gpu", "cpu", *BUDGET) as process:
        assert until(lambda: stopped(checkout) or process.poll() is not None)
        assert checkout.records() == []
        ahead.kill()
        assert process.wait(300) == 0, checkout.said
    assert [each.iteration for each in checkout.records()] == ["iter000_torch_matmul", "iter001_tiles_of_16"]
