"""What ``kernels.gemm.split_k`` takes, and its search space."""

from typing import Any, Final

from harness.catalog.families import Family, Gpu
from harness.iteration import DTYPE_BYTES, Problem


def space(problem: Problem, gpu: Gpu) -> list[dict[str, Any]]:
    """Two blocks a tile, for tiles that are too few or load too much; as many stages as fit beside the sums."""
    unit = 64 * 2 // DTYPE_BYTES[problem.input]
    return [
        {
            "block_M": block_M,
            "block_N": block_N,
            "block_K": block_K,
            "num_stages": num_stages,
            "consumer_groups": groups,
            "split": 2,
            "wgmma_in_flight": in_flight,
        }
        for block_M, block_N, groups in ((64, 128, 1), (128, 128, 1), (128, 128, 2), (64, 256, 1))
        for block_K, num_stages in ((unit, 3), (unit, 4), (unit, 6), (unit, 7), (2 * unit, 2), (2 * unit, 3))
        for in_flight in (1, 0)
    ]


FAMILY: Final = Family(
    name="kernels.gemm.split_k",
    operators={"matmul": ("bf16", "fp16"), "linear": ("bf16", "fp16", "e4m3")},
    architectures=("sm_90a",),
    space=space,
    ideas={"split_k": ""},
)
