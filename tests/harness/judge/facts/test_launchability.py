"""A launch is refused just above a limit, and nothing is claimed that no tool told."""

from typing import Any

import msgspec
import pytest

from harness.judge.facts.architectures import limits
from harness.judge.facts.compilation import Compilation, Launch, other_threads
from harness.judge.facts.launchability import Footprint, does_not_fit, refusals
from harness.judge.facts.ptxas import Usage

LAUNCH = Launch("main_kernel", (264, 1, 1), (384, 1, 1), (1, 1, 1), 196_608)


@pytest.mark.parametrize(
    ("launch", "registers", "says"),
    [
        ({"block": (1024, 1, 1)}, 64, None),
        ({"block": (1025, 1, 1)}, 32, "1,025 threads a block, 1,024 at most"),
        ({"block": (32, 32, 2)}, 16, "2,048 threads a block"),
        ({"dynamic_shared_bytes": 231_424}, 168, None),
        (
            {"dynamic_shared_bytes": 231_425},
            168,
            "232,449 bytes of shared memory, sm_90a has 232,448 for a block, 1 fewer",
        ),
        ({"block": (512, 1, 1)}, 128, None),
        ({"block": (512, 1, 1)}, 129, "129 registers x 512 threads take 69,632 registers, an SM has 65,536"),
        ({"grid": (1, 65_536, 1)}, 32, "the grid has 65,536 blocks in y, 1 to 65,535 are possible"),
        ({"grid": (0, 1, 1)}, 32, "the grid has 0 blocks in x"),
        ({"grid": (131, 1, 1), "cluster": (2, 1, 1)}, 32, "131 blocks in x are no multiple of the cluster's 2"),
        ({"cluster": (32, 1, 1), "grid": (64, 1, 1)}, 32, "a cluster of 32 blocks, 16 at most"),
    ],
)
def test_a_launch_is_refused_just_above_a_limit(launch: dict[str, Any], registers: int, says: str | None) -> None:
    changed = msgspec.structs.replace(LAUNCH, **launch)
    refused = refusals(Footprint(changed, "sm_90a", limits("sm_90a"), Usage(registers, 0, 0, 0, 1024, 1)))
    assert len(refused) == (says is not None)
    assert says is None or says in refused[0]


@pytest.mark.parametrize(("pinned", "agrees"), [(384, True), (256, True), (128, False), (512, False), (None, True)])
def test_a_block_has_the_threads_that_config_pins_or_a_warp_group_more(pinned: int | None, agrees: bool) -> None:
    said = other_threads(Compilation("", (LAUNCH,)), pinned)
    assert (said is None) is agrees
    assert agrees or said == f"CONFIG pins threads={pinned}, and a block of the compiled kernel has 384"
    assert other_threads(None, pinned) is None


def test_the_kernel_that_cannot_be_launched_is_named() -> None:
    small, large = LAUNCH, msgspec.structs.replace(LAUNCH, name="too_wide", block=(2048, 1, 1))
    assert does_not_fit(Compilation("", (small,)), "sm_90a") is None
    said = does_not_fit(Compilation("", (small, large)), "sm_90a")
    assert said is not None
    assert said.startswith("too_wide: 2,048 threads a block")
