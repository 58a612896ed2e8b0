"""Products with 4-bit weights, judged by what the generated text computes on the CPU."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.judge.facts.problem import parse_shape_key
from kernels.gemm import int4_weights
from tests.harness.operators.launches import wrong
from tests.kernels.emulation import generated
from tests.kernels.emulation.numbers import emulated, faults

KEY = "int4linear_bf16fp32_16x64x8192"  # one block; 64 steps of K
PLAIN: dict[str, Any] = {"num_stages": 6, "consumer_groups": 2}
BY_TMA: dict[str, Any] = {"num_stages": 6, "consumer_groups": 3, "scales_by_tma": True}
SWIZZLED: dict[str, Any] = {**BY_TMA, "swizzled": True}
WEIGHTS: dict[str, Any] = {**SWIZZLED, "scaled": "weights"}
TWO_STEPS: dict[str, Any] = {**SWIZZLED, "steps_at_once": 2}
REORDERED: dict[str, Any] = {**TWO_STEPS, "reordered": True}
FOUR: dict[str, Any] = {**SWIZZLED, "num_stages": 8, "consumer_groups": 4}


def launch(folder: Path, broken: tuple[str, str] | None = None, **levers: Any) -> Callable[..., None]:
    boxes = {"X": ((1, 0), (64, 16)), "packed": ((1, 0), (64, 64)), "scales": ((1, 0), (64, 64))}
    swizzled, reordered = levers.get("swizzled", False), levers.get("reordered", False)
    swizzles = {"packed": 64 * (swizzled and not reordered), "scales": 128 * swizzled}
    program = int4_weights(parse_shape_key(KEY), block_M=16, **levers)
    return emulated(program, 1, boxes, folder, broken, swizzles=swizzles)


@pytest.mark.slow
@pytest.mark.parametrize(
    "levers",
    [
        PLAIN,
        {**PLAIN, "reordered": True},
        BY_TMA,
        WEIGHTS,
        FOUR,
        TWO_STEPS,
        REORDERED,
        {**REORDERED, "scaled": "weights"},
    ],
)
def test_the_product_is_that_of_the_operator(levers: dict[str, Any], tmp_path: Path) -> None:
    assert wrong(KEY, launch(tmp_path, **levers)) == set()


BROKEN_REORDERED = {
    "activations keep their order": (r"reorder<16, 2>\([^;]*\);", ";"),
    "nothing waits for their new order": (r"\breordered(\[[^;]*\.wait)", r"full\1"),
    "a lane writes before another has read": (r"__syncwarp\(\);", ";"),
    "the first step's sums are added before they are there": (r"tl::wait_wgmma<1>\(\);", ";"),
}
BROKEN = {
    "nothing waits for the scales": (r"scales_full\[0\]\.wait\(0\);", ";"),
    "nothing waits for a stage": (r"\bfull\[[^;]*\.wait\([^;]*\);", ";"),
    "weights are read as if they were not swizzled": (r"unpack<true>", "unpack<false>"),
    "scales are read as if they were not swizzled": (r"scale_rows<true>", "scale_rows<false>"),
    "a group's sums are left out": (r"if \(128 < [^;{]*\)|tl::__sync_thread_partial\(9, 256\);", ";"),
}


@pytest.mark.slow
@pytest.mark.parametrize("broken", BROKEN_REORDERED)
def test_a_mistake_in_the_new_order_shows_in_the_numbers(broken: str, tmp_path: Path) -> None:
    assert faults(KEY, launch(tmp_path, BROKEN_REORDERED[broken], **REORDERED))


@pytest.mark.slow
@pytest.mark.parametrize("broken", BROKEN)
def test_a_mistake_in_the_text_shows_in_the_numbers(broken: str, tmp_path: Path) -> None:
    assert faults(KEY, launch(tmp_path, BROKEN[broken], **(WEIGHTS if "scale_rows" in BROKEN[broken][1] else SWIZZLED)))


def test_with_scales_by_tma_no_step_has_a_fence() -> None:
    def fences(**levers: Any) -> int:
        source = generated(int4_weights(parse_shape_key(KEY), block_M=16, **levers))
        return len(re.findall(r"fence_proxy_async\(\);", source[source.rindex("__launch_bounds__") :]))

    plain = {key: value for key, value in BY_TMA.items() if key != "scales_by_tma"}
    assert (fences(**plain), fences(**BY_TMA), fences(**WEIGHTS)) == (1 + 3, 0, 0)


@pytest.mark.parametrize(
    ("K", "levers", "named"),
    [
        (512, {"scales_by_tma": True}, "multiples of 1024, not 512"),
        (1024, {"swizzled": True}, "multiples of 8192, not 1024"),
        (8192, {"consumer_groups": 5}, "consumer_groups=5"),
        (384, {"steps_at_once": 2}, "1 or 2 of the 3 steps"),
        (8192, {"block_M": 32, "reordered": True}, "only 16 rows of X"),
    ],
)
def test_what_cannot_work_is_refused(K: int, levers: dict[str, Any], named: str) -> None:
    problem = parse_shape_key(f"int4linear_bf16fp32_16x64x{K}")
    with pytest.raises(ValueError, match=named):
        int4_weights(problem, **{"block_M": 16, "num_stages": 4, **levers})
