"""Occupancy: how many blocks share an SM, and what limits them; rounding as in the toolkit's ``cuda_occupancy.h``."""

from typing import Final

from harness.judge.facts.architectures import MAX_THREADS, REGISTERS, RESERVED_SHARED, SUB_PARTITIONS, WARP, SmLimits

REGISTER_UNIT: Final = 256  # registers are given to a warp in such pieces
SHARED_UNIT: Final = 128  # bytes


def registers_of(threads: int, registers: int) -> int:
    """Registers that a block of so many threads, each with so many registers, is held to take when it is launched."""
    warps = _up(-(-threads // WARP), SUB_PARTITIONS)
    return warps * _up(registers * WARP, REGISTER_UNIT)


def blocks_per_sm(
    most: SmLimits, threads: int, registers: int, shared_bytes: int, barriers: int = 0
) -> tuple[int, str]:
    """How many blocks fit on an SM, and by what they are limited: registers, shared memory, threads, …

    ``shared_bytes`` is what the block asks for, static and dynamic; the system's own part is added here.
    """
    warps = -(-threads // WARP)
    per_warp = max(_up(registers * WARP, REGISTER_UNIT), REGISTER_UNIT)
    if registers_of(threads, registers) > REGISTERS:
        by_registers = 0
    else:
        by_registers = REGISTERS // SUB_PARTITIONS // per_warp * SUB_PARTITIONS // warps
    fits = shared_bytes <= most.block_shared_bytes
    bounds = {
        "shared memory": most.shared_bytes // _up(shared_bytes + RESERVED_SHARED, SHARED_UNIT) if fits else 0,
        "registers": by_registers,
        "threads": most.threads // WARP // warps if threads <= MAX_THREADS else 0,
        "barriers": most.barriers // barriers if barriers else most.blocks,
        "blocks": most.blocks,
    }
    limiter = min(bounds, key=lambda name: bounds[name])
    return bounds[limiter], limiter


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
