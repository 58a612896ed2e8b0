"""What a contestant hands over of a compiled kernel: its source, its cubin, and how it will be launched."""

import re
from typing import Final

import msgspec

_KERNEL: Final = re.compile(r"__global__((?:\s+|void\b|__\w+__\s*\([^()]*\))+)(?P<name>(?!__\w+__\s*\()\w+)\s*\(")
MOST_BYTES: Final = 8 << 20  # of a cubin in a message; a GEMM's has about 100 KB

Dimensions = tuple[int, int, int]


class Launch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One device kernel and the geometry it is launched with: x, y, z of blocks, of threads, of blocks a cluster."""

    name: str
    grid: Dimensions
    block: Dimensions
    cluster: Dimensions
    dynamic_shared_bytes: int


class Compilation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One compiled kernel; ``cubin`` is None where it was made by other means than nvcc, or is too large to send."""

    source: str
    launches: tuple[Launch, ...] = ()
    cubin: bytes | None = None
    log: str = ""


def kernel_names(source: str) -> tuple[str, ...]:
    """The kernels of a generated CUDA source, each once, in its order; a declaration and its definition are one."""
    return tuple(dict.fromkeys(match["name"] for match in _KERNEL.finditer(source)))
