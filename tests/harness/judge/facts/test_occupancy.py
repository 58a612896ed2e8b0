"""Blocks per SM, held against what Nsight Compute reported of real launches, and against each architecture."""

import pytest

from harness.judge.facts.architectures import REGISTERS, limits
from harness.judge.facts.occupancy import blocks_per_sm, registers_of


# launch__occupancy_limit_{registers,shared_mem,warps,barriers} by ncu, of 384 threads on an H200.
@pytest.mark.parametrize(
    ("registers", "shared_bytes", "barriers", "found"),
    [(168, 196_608 + 1024, 1, (1, 1, 5, 32)), (168, 229_376 + 1024, 10, (1, 1, 5, 6))],
)
def test_each_bound_is_that_of_nsight_compute(
    registers: int, shared_bytes: int, barriers: int, found: tuple[int, int, int, int]
) -> None:
    most = limits("sm_90a")
    assert most is not None
    by_registers, by_shared, by_warps, by_barriers = found
    assert blocks_per_sm(most, 384, registers, 0)[0] == by_registers
    assert blocks_per_sm(most, 384, 1, shared_bytes)[0] == by_shared
    assert blocks_per_sm(most, 384, 1, 0) == (by_warps, "threads")
    assert blocks_per_sm(most, 32, 1, 0, barriers)[0] == by_barriers
    assert blocks_per_sm(most, 384, registers, shared_bytes, barriers)[0] == 1


@pytest.mark.parametrize(
    ("arch", "shared_bytes", "blocks"),
    [
        ("sm_80", 166_912, 1),
        ("sm_80", 166_913, 0),
        ("sm_89", 101_376, 1),
        ("sm_89", 101_377, 0),
        ("sm_90a", 232_448, 1),
        ("sm_90a", 232_449, 0),
        ("sm_90a", 115_712, 2),  # half of 228 KiB, less the 1 KiB that the system takes of each block
        ("sm_90a", 115_713, 1),
        ("sm_100a", 232_448, 1),
    ],
)
def test_shared_memory_is_counted_to_the_byte(arch: str, shared_bytes: int, blocks: int) -> None:
    most = limits(arch)
    assert most is not None
    assert blocks_per_sm(most, 128, 32, shared_bytes) == (blocks, "shared memory")


@pytest.mark.parametrize(
    ("threads", "registers", "blocks"),
    [(256, 240, 1), (256, 128, 2), (256, 129, 1), (384, 168, 1), (384, 176, 0), (1024, 64, 1), (1024, 65, 0)],
)
def test_registers_are_given_in_pieces_of_256_to_a_warp(threads: int, registers: int, blocks: int) -> None:
    most = limits("sm_90a")
    assert most is not None
    assert blocks_per_sm(most, threads, registers, 0)[0] == blocks
    assert (registers_of(threads, registers) > REGISTERS) == (blocks == 0)


def test_an_architecture_that_is_not_known_has_no_limits() -> None:
    assert limits("sm_75") is None
    assert limits("c") is None
