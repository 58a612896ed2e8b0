"""Each warning says what makes a kernel slow."""

from typing import Any

import msgspec
import pytest

from harness.evidence.rules import WARNINGS, KernelFacts, shared_bytes_per_cycle, warnings
from harness.evidence.sass import Code, WarpGroupMma
from harness.judge.facts.architectures import limits
from harness.judge.facts.compilation import Launch
from harness.judge.facts.launchability import refusals
from harness.judge.facts.ptxas import Usage

LAUNCH = Launch("main_kernel", (264, 1, 1), (384, 1, 1), (1, 1, 1), 196_608)
WIDE = WarpGroupMma(64, 256, 16, False)


def facts(arch: str = "sm_90a", launch: dict[str, Any] | None = None, **changes: Any) -> KernelFacts:
    fields: dict[str, Any] = {
        "launch": msgspec.structs.replace(LAUNCH, **launch or {}),
        "arch": arch,
        "limits": limits(arch),
        "sms": 132,
        "input_bits": 16,
        "usage": Usage(168, 0, 0, 0, 1024, 1),
        "code": Code(100, {"HGMMA.64x256x16.F32.BF16": 16}, frozenset({WIDE})),
        "blocks_per_sm": 1,
        "limited_by": "shared memory",
    }
    return KernelFacts(**fields | changes)


def test_a_kernel_that_fits_is_neither_refused_nor_warned_of() -> None:
    assert refusals(facts()) == warnings(facts()) == []


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"usage": Usage(255, 64, 60, 120, 0, 1)}, "spills: 60 bytes of stores and 120 of loads a thread"),
        ({"usage": Usage(255, 64, 0, 0, 0, 1)}, "local memory: 64 bytes a thread"),
        ({"remarks": ("Potential Performance Loss: x",)}, "ptxas: Potential Performance Loss: x"),
        (
            {"code": Code(9, {"HGMMA.64x64x16.F32.BF16": 8}, frozenset({WarpGroupMma(64, 64, 16, False)}))},
            "narrow WGMMA: 64x64x16 reads 128 bytes of shared memory a cycle",
        ),
        ({"code": Code(9, {"HMMA.16816.F32.BF16": 8})}, "mma.sync instead of WGMMA"),
        ({"code": Code(9, {"HMMA.16816.F32.BF16": 8}), "arch": "sm_100a"}, "mma.sync instead of tcgen05.mma"),
        ({"code": Code(9)}, "no tensor core instruction"),
        ({"launch": {"grid": (64, 1, 1)}}, "idle SMs: 64 blocks for 132 SMs"),
        (
            {"launch": {"grid": (140, 1, 1)}},
            "wave quantization: 140 blocks are 1.06 waves of 132 SMs x 1, the last one partly empty: 53% of",
        ),
        ({"conflicts": ("8-way, in A_shared",)}, "bank conflicts: 8-way, in A_shared"),
        ({"launch": {"cluster": (16, 1, 1), "grid": (1584, 1, 1)}}, "a cluster of 16 blocks is not portable"),
    ],
)
def test_what_will_be_slow_is_said_once(changes: dict[str, Any], says: str) -> None:
    (warning,) = warnings(facts(**changes))
    assert warning.startswith(says)


def test_narrow_tiles_are_no_trouble_where_memory_is_what_limits() -> None:
    narrow = Code(9, {"HGMMA.64x64x16.F32.BF16": 8}, frozenset({WarpGroupMma(64, 64, 16, False)}))
    assert warnings(facts(code=narrow, compute_bound=False)) == []


@pytest.mark.parametrize(
    ("grid", "warned"),
    [(119, False), (118, True), (128, False), (256, False), (238, False), (230, True), (1400, False)],
)
def test_waves_are_warned_of_from_a_tenth_that_is_lost(grid: int, warned: bool) -> None:
    assert bool(warnings(facts(launch={"grid": (grid, 1, 1)}))) == warned


@pytest.mark.parametrize(
    ("n", "k", "input_bits", "a_in_registers", "wanted"),
    [
        (64, 16, 16, False, 128),
        (128, 16, 16, False, 96),
        (256, 16, 16, False, 80),
        (64, 16, 16, True, 64),
        (64, 32, 8, False, 128),
    ],
)
def test_what_a_wgmma_asks_of_shared_memory(
    n: int, k: int, input_bits: int, a_in_registers: bool, wanted: float
) -> None:
    """64 x 64 x 16: 65,536 multiply-adds are 32 cycles of 2,048; A and B are 2 KiB each; 4 KiB / 32 cycles."""
    assert shared_bytes_per_cycle(WarpGroupMma(64, n, k, a_in_registers), input_bits) == wanted


def test_nothing_is_claimed_of_what_no_tool_told() -> None:
    unknown = facts(usage=None, code=None, blocks_per_sm=None, limits=None, sms=None)
    assert refusals(unknown) == warnings(unknown) == []


def test_every_rule_has_a_source() -> None:
    assert all(rule.__doc__ for rule in WARNINGS)
