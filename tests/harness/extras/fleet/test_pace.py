"""A GPU that is hot, or slower than its siblings, is found by a copy and a product."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from harness.extras.fleet.pace import ChipPace, slow
from harness.extras.fleet.seat import Seat

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


@pytest.mark.slow
@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
def test_a_seat_measures_its_pace_in_a_process_of_its_own() -> None:
    found = Seat("cpu", "notebook", str(Path(__file__).parents[4]), 0, 1).pace()
    assert found.copy_gbs > 0.1
    assert found.tflops > 1e-4
    assert found.throttle == ()
