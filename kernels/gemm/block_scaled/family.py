"""What ``kernels.gemm.block_scaled`` takes, its search space and its first draft."""

from typing import Any, Final

from harness.catalog.families import Draft, Family, Gpu
from harness.iteration import DTYPE_BYTES, Problem

NAME: Final = "kernels.gemm.block_scaled"
TMA_PITCH_BYTES: Final = 16
SCALE_BYTES: Final = 4


def space(problem: Problem, gpu: Gpu) -> list[dict[str, Any]]:
    """Square tiles in chains, and tiles that load less per flop but leave no room for a chain."""
    steps = -(-problem.dims[2] // 128)
    return [
        {
            "block_M": block_M,
            "block_N": block_N,
            "num_stages": num_stages,
            "consumer_groups": groups,
            "chain": chain,
            "cluster_M": cluster_M,
            "group_M": group_M,
            "epilogue_N": 32 if block_M == 256 else 64,
            "epilogue_buffers": buffers,
        }
        for block_M, block_N, groups, chains in (
            (128, 128, 2, (1, 2, 4, 8)),
            (128, 192, 2, (1,)),
            (192, 128, 3, (1,)),
            (256, 128, 2, (1,)),
        )
        for chain in chains
        if steps % chain == 0
        for num_stages in (4, 5, 6)
        for cluster_M in (1, 2)
        for group_M in (8, 16)
        for buffers in (1, 2)
    ]


def draft(problem: Problem, gpu: Gpu) -> Draft:
    return Draft(
        "warp_specialized",
        "Warp specialization by hand: one consumer group scales and adds while the other's products are made.",
        NAME,
        {
            "block_M": 128,
            "block_N": 128,
            "num_stages": 4,  # leaves room for an output of float32
            "consumer_groups": 2,
            "chain": 1,
            "cluster_M": 1,
            "cluster_N": 1,
            "group_M": 16,
            "epilogue_N": 64,
            "epilogue_buffers": 2,
            "num_sms": gpu.sms,
        },
    )


def refuses(problem: Problem, gpu: Gpu) -> str | None:
    rows, columns, depth = problem.dims
    pitches = depth * DTYPE_BYTES[problem.input], columns * DTYPE_BYTES[problem.output], rows * SCALE_BYTES
    if any(pitch % TMA_PITCH_BYTES for pitch in pitches):
        return f"{problem}: TMA needs rows in multiples of {TMA_PITCH_BYTES} bytes"
    return None


FAMILY: Final = Family(
    name=NAME,
    operators={"blockscaledlinear": ("e4m3",)},
    architectures=("sm_90a",),
    space=space,
    refuses=refuses,
    draft=draft,
)
