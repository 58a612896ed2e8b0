"""The front of kernels/ beside torch: what a user's product costs the host, and what its first call costs."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.catalog.families import imported
from harness.judge.child.brief import Brief

Call = Callable[[], object]

# In this order: the first call of the one finds no kernel on the disk, that of the other finds the first's.
INTO: Final = "kernels.matmul, out="
MATMUL: Final = "kernels.matmul"
LINEAR: Final = "kernels.linear"
SPELLINGS: Final = (INTO, MATMUL, LINEAR)

CPU_DIMS: Final = (8, 32, 16)  # as little as a family takes: a core multiplies it in less than 0.1 µs
GPU_DIMS: Final = (1024, 1024, 1024)  # 5.5 µs on an H200, less than a call costs the host
LARGEST_ERROR: Final = 0.02  # of the norm; rounding to bfloat16 is 0.002


@dataclass(frozen=True, slots=True)
class TimedCall:
    """A call beside torch's for the same; ``is_right`` checks its value, ``first_ms`` is the first call's wall time."""

    call: Call
    torch_call: Call
    is_right: Callable[[object], bool]
    backend: str = ""
    first_ms: float | None = None


def case(brief: Brief, spelling: str, folder: Path) -> TimedCall:
    """A product by the front and by torch; compiled kernels are kept in ``folder``."""
    import torch

    os.environ["TILELANG_CACHE_DIR"] = str(folder / "cache")
    matmul, linear = imported(MATMUL), imported(LINEAR)
    cpu = brief.gpu.is_cpu
    dtype, device = (torch.float32, "cpu") if cpu else (torch.bfloat16, "cuda")
    M, N, K = CPU_DIMS if cpu else GPU_DIMS
    shapes = (M, K), (N, K) if spelling == LINEAR else (K, N)
    a, b = (torch.randn(shape, dtype=dtype, device=device) for shape in shapes)
    ours, theirs = (torch.empty((M, N), dtype=dtype, device=device) for _ in range(2))
    calls: dict[str, tuple[Call, Call]] = {
        INTO: (lambda: matmul(a, b, out=ours), lambda: torch.matmul(a, b, out=theirs)),
        MATMUL: (lambda: matmul(a, b), lambda: torch.matmul(a, b)),
        LINEAR: (lambda: linear(a, b), lambda: torch.nn.functional.linear(a, b)),
    }
    call, torch_call = calls[spelling]
    expected = (a.double() @ (b.t() if spelling == LINEAR else b).double()).to("cpu")

    def is_right(found: object) -> bool:
        assert isinstance(found, torch.Tensor)
        return bool((found.to("cpu") - expected).norm() < LARGEST_ERROR * expected.norm())

    started = time.perf_counter()
    call()
    if not cpu:
        torch.cuda.synchronize()
    return TimedCall(call, torch_call, is_right, first_ms=(time.perf_counter() - started) * 1e3)
