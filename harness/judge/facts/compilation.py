"""A compiled kernel as a contestant hands it over: source, cubin, and launch geometry."""

import math
import re
from typing import Final

import msgspec

from harness.judge.facts.architectures import WARP_GROUP

_KERNEL: Final = re.compile(r"__global__((?:\s+|void\b|__\w+__\s*\([^()]*\))+)(?P<name>(?!__\w+__\s*\()\w+)\s*\(")
MOST_BYTES: Final = 8 << 20  # of a cubin in a message; a GEMM's has about 100 KB

Dimensions = tuple[int, int, int]


class Launch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One device kernel with x, y, z of its grid in blocks, its block in threads, its cluster in blocks."""

    name: str
    grid: Dimensions
    block: Dimensions
    cluster: Dimensions
    dynamic_shared_bytes: int


class Compilation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One compiled program; ``cubin`` is None if nvcc did not make it, or if it is too large to send."""

    source: str
    launches: tuple[Launch, ...] = ()
    cubin: bytes | None = None
    log: str = ""


def other_threads(compilation: Compilation | None, pinned: object) -> str | None:
    """The complaint if no kernel has the threads that CONFIG pins; TileLang may add a warp group that only copies."""
    found = [math.prod(launch.block) for launch in compilation.launches] if compilation else []
    if not isinstance(pinned, int) or not found or any(pinned <= each <= pinned + WARP_GROUP for each in found):
        return None
    return f"CONFIG pins threads={pinned}, and a block of the compiled kernel has {found[0]}"


def kernel_names(source: str) -> tuple[str, ...]:
    """The kernels of a generated CUDA source in order, each once, though declared and defined."""
    return tuple(dict.fromkeys(match["name"] for match in _KERNEL.finditer(source)))
