"""A Hopper SM as warp-specialised kernels see it: its warp groups, its shared memory, and the start of consumers."""

from collections.abc import Callable
from typing import Any

import tilelang.language as T

from kernels.operands import require

NUM_SMS = 132  # H100 SXM and H200
GROUP = 128  # threads of a warp group
SHARED_BYTES_MAX = 227 * 1024  # what one block may have, static and dynamic together
SHARED_BYTES_RESERVED = 1024  # mbarriers and the alignment of swizzled tiles


def require_shared(shared_bytes: int) -> None:
    """Raise ValueError where the tiles of a block do not fit."""
    limit = SHARED_BYTES_MAX - SHARED_BYTES_RESERVED
    require(shared_bytes <= limit, f"the tiles take {shared_bytes} bytes of shared memory; a block has {limit}")


@T.macro
def wait_for_kernel_before(let_next_start: bool) -> None:
    """Wait until the kernel before has written all of its results, then let the kernel after start if asked.

    TileLang starts every cluster before the kernel before has ended, so every cluster waits here.
    """
    T.pdl_sync()
    if let_next_start:
        T.pdl_trigger()


@T.macro
def run_consumers(groups: int, registers: int | None, thread: Any, consume: Callable[[int], None], group: int) -> None:
    """Send each warp group after the first to ``consume`` with its number, from ``group`` on.

    A thread first takes ``registers`` of those that the producer gave back. None: it keeps what it was launched with.
    """
    if group == groups - 1:
        if registers is not None:
            T.set_max_nreg(registers, 1)
        consume(group)
    else:
        if thread < GROUP * (group + 2):
            if registers is not None:
                T.set_max_nreg(registers, 1)
            consume(group)
        else:
            run_consumers(groups, registers, thread, consume, group + 1)
