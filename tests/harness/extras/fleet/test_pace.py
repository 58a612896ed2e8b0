"""A GPU that is hot, or slower than its siblings, is found by a copy and a product."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

import pytest

from harness.catalog import gpus
from harness.catalog.tree import Tree
from harness.extras.fleet import cluster
from harness.extras.fleet.cluster import Caller, Node, SeatFailed, SeatLost
from harness.extras.fleet.driver import Driver, Fleet
from harness.extras.fleet.pace import ChipPace, slow
from harness.extras.fleet.seat import Seat
from harness.extras.fleet.station import Station
from harness.judge.candidate import Settings
from harness.machine.nvml import Device
from harness.runs.run import Plan

USUAL = ChipPace(copy_gbs=4000.0, tflops=700.0, throttle=("power cap",), temperature_c=60.0)


@pytest.mark.parametrize(
    ("pace", "why"),
    [
        (ChipPace(3760.0, 700.0), "its copy reaches 3760 GB/s, and 4000 is the median of the others"),
        (ChipPace(4000.0, 658.0), "its product reaches 658 TFLOPS, and 700 is the median of the others"),
        (
            ChipPace(4000.0, 700.0, ("power cap", "hardware thermal"), 91.0),
            "heat slows it down (hardware thermal at 91 °C)",
        ),
    ],
)
@pytest.mark.parametrize("siblings", [1, 7])
def test_a_slow_or_hot_gpu_is_named(pace: ChipPace, why: str, siblings: int) -> None:
    assert slow({"slow": pace} | {f"GPU {number}": USUAL for number in range(siblings)}) == {"slow": why}


def test_differences_below_the_limit_and_a_faster_gpu_are_no_fault() -> None:
    assert slow({"a": USUAL, "b": ChipPace(3840.0, 672.0), "c": USUAL}) == {}
    assert slow({"faster": ChipPace(4400.0, 770.0), "a": USUAL, "b": USUAL}) == {}


def test_a_gpu_without_siblings_is_not_compared() -> None:
    assert slow({"a": ChipPace(1.0, 1.0)}) == {}


class Answering:
    """A seat's actor that answers with a pace, or with what has become of it."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    @property
    def pace(self) -> Self:
        return self

    def remote(self) -> object:
        return self.answer


def given(answer: Any, seconds: float) -> Any:
    if isinstance(answer, Exception):
        raise answer
    return answer


@pytest.mark.parametrize("insists", [False, True])
def test_the_driver_leaves_slow_gpus_out_unless_the_user_insists(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, insists: bool
) -> None:
    monkeypatch.setattr(cluster, "ready", lambda references, seconds: references)
    monkeypatch.setattr(cluster, "answered", given)
    h200 = gpus.find("h200")
    plan = Plan(tree, h200, None, (), Settings.of(h200))
    answers = (USUAL, ChipPace(4000.0, 600.0), SeatFailed("no kernel image"), SeatLost("GetTimeoutError"))
    stations = [Station("host", "code", Device(index, "NVIDIA H200", f"GPU-{index}", "1", 700.0)) for index in range(4)]
    callers = [Caller(Node("id", "host", 4), lane, Answering(answer)) for lane, answer in enumerate(answers)]
    made = Driver(Fleet(plan, (), slow=insists), None)
    left_out = made._slow(dict(zip(callers, stations, strict=True)))
    assert left_out.pop(stations[2]) == "a copy and a product fail there: no kernel image"
    said = " ".join(capsys.readouterr().err.split())
    assert "host GPU 3: its pace is not known: GetTimeoutError" in said
    slower = "its product reaches 600 TFLOPS, and 700 is the median of the others"
    if insists:
        assert left_out == {}
        assert f"host GPU 1 is used all the same: {slower}" in said
    else:
        assert left_out == {stations[1]: f"{slower}; --slow-gpus uses it"}


@pytest.mark.slow
@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
def test_a_seat_measures_its_pace_in_a_process_of_its_own() -> None:
    found = Seat("cpu", "notebook", str(Path(__file__).parents[4]), 0, 1).pace()
    assert found.copy_gbs > 0.1
    assert found.tflops > 1e-4
    assert found.throttle == ()
