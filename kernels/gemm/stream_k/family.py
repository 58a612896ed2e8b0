"""What ``kernels.gemm.stream_k`` takes, and its search space."""

from typing import Any, Final

from harness.catalog.families import Family, Gpu
from harness.iteration import DTYPE_BYTES, Problem


def space(problem: Problem, gpu: Gpu) -> list[dict[str, Any]]:
    """The tiles of a persistent grid; K is cut where its last wave would be partial."""
    unit = 64 * 2 // DTYPE_BYTES[problem.input]
    return [
        {
            "block_M": block_M,
            "block_N": block_N,
            "block_K": unit,
            "num_stages": num_stages,
            "consumer_groups": 2,
            "cluster_M": cluster_M,
            "group_M": group_M,
        }
        for block_M, block_N in ((128, 128), (128, 192), (128, 256), (256, 128))
        for num_stages in (3, 4, 5, 6)
        for cluster_M in (1, 2)
        for group_M in (8, 16)
    ]


FAMILY: Final = Family(
    name="kernels.gemm.stream_k",
    operators={"matmul": ("bf16", "fp16"), "linear": ("bf16", "fp16", "e4m3")},
    architectures=("sm_90a",),
    space=space,
    ideas={"split_k": ""},
)
