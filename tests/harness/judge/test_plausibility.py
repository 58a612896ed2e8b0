"""What cannot be true is said in words, and what can be is not."""

import pytest

from harness.catalog import gpus
from harness.judge import plausibility
from harness.judge.facts.problem import parse_shape_key
from tests.harness.examples import measurement

PROBLEM = parse_shape_key("matmul_bf16fp32_4096x4096x4096")
H200, CPU = gpus.find("h200"), gpus.find("cpu")


def test_nothing_is_faster_than_the_roofline() -> None:
    floor_ms = H200.floor_ms(PROBLEM)
    assert plausibility.speed(floor_ms, PROBLEM, H200) is None
    said = plausibility.speed(floor_ms * 0.5, PROBLEM, H200)
    assert said is not None and "under the roofline's 0.139 ms" in said
    assert plausibility.speed(1e-9, PROBLEM, CPU) is None  # no peak is claimed of a CPU


@pytest.mark.parametrize(
    ("late_ms", "baseline_late_ms", "believed"),
    [(0.07, 0.0, True), (0.08, 0.0, False), (-9.0, 0.0, True), (0.08, 0.7, False), (0.07, None, True)],
)
def test_a_block_on_a_gpu_takes_as_long_by_its_outputs(
    late_ms: float, baseline_late_ms: float | None, believed: bool
) -> None:
    made = measurement(1, 1, time_ms=0.18, launches=28, late_ms=late_ms, baseline_late_ms=baseline_late_ms)
    assert (plausibility.time(made, H200) is None) is believed


@pytest.mark.parametrize(
    ("late_ms", "baseline_late_ms", "believed"),
    [(1.5, 0.0, True), (1.7, 0.0, False), (8.0, 7.0, True), (8.7, 7.0, False), (1.7, -7.0, False)],
)
def test_a_block_on_a_cpu_is_not_later_than_the_baselines(
    late_ms: float, baseline_late_ms: float, believed: bool
) -> None:
    made = measurement(1, 1, time_ms=0.18, launches=28, late_ms=late_ms, baseline_late_ms=baseline_late_ms)
    assert (plausibility.time(made, CPU) is None) is believed


@pytest.mark.parametrize(("time_ms", "launches"), [(0.18, 28), (2.5, 2), (5.0, 1), (12.0, 1)])
def test_a_fiftieth_shaved_off_a_block_is_seen_on_a_gpu(time_ms: float, launches: int) -> None:
    off_ms = launches * time_ms * 0.02
    made = measurement(1, 1, time_ms=time_ms * 0.98, launches=launches, late_ms=off_ms)
    said = plausibility.time(made, H200)
    assert said is not None and f"took {off_ms:.3g} ms longer by the referee's clock" in said


@pytest.mark.parametrize(
    ("alone_ms", "launches", "believed"),
    [(1.0, 5, True), (0.99, 5, True), (1.2, 5, True), (0.96, 5, False), (0.96, 1, True), (0.9, 1, False)],
)
def test_the_baseline_is_as_fast_with_the_contestant_as_without(alone_ms: float, launches: int, believed: bool) -> None:
    made = measurement(1, 1, baseline_ms=1.0, baseline_launches=launches, baseline_alone_ms=alone_ms)
    assert (plausibility.baseline(made) is None) is believed
