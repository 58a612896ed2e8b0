"""What sets one GPU architecture apart from another, and what all of them share.

Limits: "Technical Specifications per Compute Capability" of the CUDA C++ Programming Guide. nvcc: CUDA release notes.
"""

from dataclasses import dataclass
from typing import Final

WARP: Final = 32
WARP_GROUP: Final = 128  # threads that issue one WGMMA together
SUB_PARTITIONS: Final = 4  # of an SM, each with a quarter of the registers
REGISTERS: Final = 65_536  # of an SM, and at most of a block
MAX_THREADS: Final = 1024  # of a block
MAX_REGISTERS: Final = 255  # of a thread
DEFAULT_SHARED: Final = 48 << 10  # bytes of a block that does not opt in to more
RESERVED_SHARED: Final = 1024  # bytes of each block that the system takes, from compute capability 8.0 on
MAX_GRID: Final = (2**31 - 1, 65_535, 65_535)
MAX_CLUSTER: Final = 16  # blocks
PORTABLE_CLUSTER: Final = 8  # blocks that every GPU with clusters can schedule
WGMMA: Final = "WGMMA"
MMA_SYNC: Final = "mma.sync"
_KIB: Final = 1024


@dataclass(frozen=True, slots=True)
class SmLimits:
    """Of one SM: blocks, threads, bytes of shared memory, named barriers; and bytes that one block may opt in to."""

    blocks: int
    threads: int
    shared_bytes: int
    block_shared_bytes: int
    barriers: int


@dataclass(frozen=True, slots=True)
class Architecture:
    """``mma`` is the instruction that reaches the tensor cores' rate, ``least_nvcc`` the first nvcc that compiles."""

    limits: SmLimits
    mma: str
    least_nvcc: tuple[int, int]


_TABLE: Final = {
    "80": Architecture(SmLimits(32, 2048, 164 * _KIB, 163 * _KIB, 64), MMA_SYNC, (11, 0)),
    "86": Architecture(SmLimits(16, 1536, 100 * _KIB, 99 * _KIB, 16), MMA_SYNC, (11, 1)),
    "89": Architecture(SmLimits(24, 1536, 100 * _KIB, 99 * _KIB, 24), MMA_SYNC, (11, 8)),
    "90": Architecture(SmLimits(32, 2048, 228 * _KIB, 227 * _KIB, 64), WGMMA, (12, 0)),
    "100": Architecture(SmLimits(32, 2048, 228 * _KIB, 227 * _KIB, 64), "tcgen05.mma", (12, 8)),
    "120": Architecture(SmLimits(24, 1536, 100 * _KIB, 99 * _KIB, 24), MMA_SYNC, (12, 8)),
}


def find(arch: str) -> Architecture | None:
    """The row of a name such as ``sm_90a``; None for a CPU or an architecture without a row."""
    return _TABLE.get(arch.removeprefix("sm_").rstrip("af"))


def limits(arch: str) -> SmLimits | None:
    row = find(arch)
    return None if row is None else row.limits


def has_wgmma(arch: str) -> bool:
    row = find(arch)
    return row is not None and row.mma == WGMMA
