"""What ``kernels.gemm.stationary`` takes, and its search space."""

from typing import Any, Final

from harness.catalog.families import Family, Gpu
from harness.iteration import DTYPE_BYTES, Problem


def space(problem: Problem, gpu: Gpu) -> list[dict[str, Any]]:
    """What fits beside the rows of A, with blocks in step and in echelon."""
    unit = 64 * 2 // DTYPE_BYTES[problem.input]
    return [
        {
            "block_M": 128,
            "block_N": block_N,
            "block_K": unit,
            "num_stages": num_stages,
            "lag": lag,
            "wgmma_in_flight": in_flight,
            "epilogue_N": epilogue_N,
        }
        for block_N in (128, 192)
        for num_stages in (3, 4, 5)
        for lag in (0, 1, 3)
        for in_flight in (1, 0)
        for epilogue_N in (32, 64)
    ]


FAMILY: Final = Family(
    name="kernels.gemm.stationary",
    operators={"matmul": ("bf16", "fp16"), "linear": ("bf16", "fp16", "e4m3")},
    architectures=("sm_90a",),
    space=space,
)
