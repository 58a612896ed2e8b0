"""What ``kernels.gemm.ping_pong`` takes, and its search space."""

from typing import Any, Final

from harness.catalog.families import Family, Gpu
from harness.iteration import DTYPE_BYTES, Problem


def space(problem: Problem, gpu: Gpu) -> list[dict[str, Any]]:
    """The widest tiles that one consumer group can hold, with and without clusters."""
    unit = 64 * 2 // DTYPE_BYTES[problem.input]
    return [
        {
            "block_M": 128,
            "block_N": block_N,
            "block_K": unit,
            "num_stages": num_stages,
            "cluster_M": cluster_M,
            "cluster_N": cluster_N,
            "group_M": group_M,
            "wgmma_in_flight": in_flight,
            "epilogue_N": 64 if block_N % 64 == 0 else 32,
            "epilogue_buffers": buffers,
        }
        for block_N in (128, 160, 192)
        for num_stages in (3, 4, 5)
        for cluster_M, cluster_N in ((1, 1), (2, 1), (1, 2))
        for group_M in (8, 16)
        for in_flight in (1, 0)
        for buffers in (1, 2)
    ]


FAMILY: Final = Family(
    name="kernels.gemm.ping_pong",
    operators={"matmul": ("bf16", "fp16"), "linear": ("bf16", "fp16", "e4m3")},
    architectures=("sm_90a",),
    space=space,
    ideas={"ping_pong": ""},
)
