"""Occupancy: how many blocks share an SM, and what limits them.

Limits: "Technical Specifications per Compute Capability" of the CUDA C++ Programming Guide. Rounding: NVIDIA's
``cuda_occupancy.h``, which comes with the toolkit.
"""

from dataclasses import dataclass
from typing import Final

WARP: Final = 32
SUB_PARTITIONS: Final = 4  # of an SM, each with a quarter of the registers
REGISTERS: Final = 65_536  # of an SM, and at most of a block
MAX_THREADS: Final = 1024  # of a block
MAX_REGISTERS: Final = 255  # of a thread
REGISTER_UNIT: Final = 256  # registers are given to a warp in such pieces
SHARED_UNIT: Final = 128  # bytes
RESERVED_SHARED: Final = 1024  # bytes of each block that the system takes, from compute capability 8.0 on
MAX_GRID: Final = (2**31 - 1, 65_535, 65_535)
MAX_CLUSTER: Final = 16  # blocks; above 8 the size is not portable


@dataclass(frozen=True, slots=True)
class SmLimits:
    """Of one SM: blocks, threads, bytes of shared memory, named barriers; and bytes that one block may opt in to."""

    blocks: int
    threads: int
    shared_bytes: int
    block_shared_bytes: int
    barriers: int


_KIB: Final = 1024
_LIMITS: Final = {
    "80": SmLimits(32, 2048, 164 * _KIB, 163 * _KIB, 64),
    "86": SmLimits(16, 1536, 100 * _KIB, 99 * _KIB, 16),
    "89": SmLimits(24, 1536, 100 * _KIB, 99 * _KIB, 24),
    "90": SmLimits(32, 2048, 228 * _KIB, 227 * _KIB, 64),
    "100": SmLimits(32, 2048, 228 * _KIB, 227 * _KIB, 64),
    "120": SmLimits(24, 1536, 100 * _KIB, 99 * _KIB, 24),
}


def limits(arch: str) -> SmLimits | None:
    """Of an architecture such as ``sm_90a``; None for one that is not known here."""
    return _LIMITS.get(arch.removeprefix("sm_").rstrip("af"))


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
