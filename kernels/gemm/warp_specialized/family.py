"""What ``kernels.gemm.warp_specialized`` takes, its search space, its first draft and its steps in a starter ladder."""

from typing import Any, Final

from harness.catalog.families import Draft, Family, Gpu
from harness.iteration import DTYPE_BYTES, Problem

NAME: Final = "kernels.gemm.warp_specialized"
TMA_PITCH_BYTES: Final = 16

_CONSUMERS: Final[dict[str, object]] = {
    "block_M": 128,
    "block_N": 256,
    "block_K": 64,
    "num_stages": 4,
    "consumer_groups": 2,
    "cluster_M": 1,
    "cluster_N": 1,
    "group_M": 8,
    "persistent": False,
    "wgmma_in_flight": 1,
    "epilogue": "tma",
    "epilogue_N": 64,
    "epilogue_buffers": 2,
}


def space(problem: Problem, gpu: Gpu) -> list[dict[str, Any]]:
    """About a hundred: wide tiles for many waves, narrow ones for few, deep rings, with and without clusters.

    Small problems get one tile a block, large ones the persistent grid too, both also with a dependent launch. A skinny
    A that a cluster multicasts gets a stagger, and sums of many 8-bit products are promoted.
    """
    rows, columns, depth = problem.dims
    promoted = DTYPE_BYTES[problem.input] == 1 and depth > 1024
    unit = 64 * 2 // DTYPE_BYTES[problem.input]  # 128 bytes of K: one swizzled row
    small = -(-rows // 128) * -(-columns // 128) <= (gpu.sms or 0)
    tiles = (
        [(64, 64, 1), (64, 128, 1), (128, 64, 2), (128, 128, 2), (128, 256, 2)]
        if small
        else [(128, 128, 2), (128, 192, 2), (128, 224, 2), (128, 256, 2), (256, 128, 2), (192, 128, 3), (64, 256, 1)]
    )
    return [
        {
            "block_M": block_M,
            "block_N": block_N,
            "block_K": block_K,
            "num_stages": num_stages,
            "consumer_groups": groups,
            "cluster_M": cluster_M,
            "cluster_N": cluster_N,
            "group_M": 16 if persistent else 8,
            "persistent": persistent,
            "wgmma_in_flight": in_flight,
            "epilogue_N": 64 if block_N % 64 == 0 else 32,
            "stagger": 2 if rows <= block_M and cluster_N == 2 else 0,
            "dependent_launch": dependent,
            "promote_steps": 4 if promoted else 0,
        }
        for block_M, block_N, groups in tiles
        for block_K, num_stages in ((unit, 4), (unit, 6), (unit, 8), (2 * unit, 3), (2 * unit, 6))
        for cluster_M, cluster_N in ((1, 1), (2, 1), (1, 2))
        for persistent in ((False,) if small else (True, False))
        for in_flight, dependent in ((1, False), (0, False), (1 if small else 0, True))
        if small or persistent or not dependent
    ]


def starter(gpu: Gpu) -> dict[str, tuple[Draft, ...]]:
    steps = (
        Draft(
            "warp_specialized",
            "Warp specialization by hand, since T.gemm waits for its WGMMA in every k step and this keeps one "
            "batch in flight.",
            NAME,
            _CONSUMERS,
        ),
        Draft(
            "persistent",
            "Resident blocks walk the tiles: the producer loads the next tile while the consumers store the last one.",
            NAME,
            _CONSUMERS | {"group_M": 16, "persistent": True, "num_sms": gpu.sms},
        ),
    )
    return dict.fromkeys(("matmul_bf16fp32_4096x4096x4096", "linear_bf16fp32_4096x14336x4096"), steps)


def draft(problem: Problem, gpu: Gpu) -> Draft | None:
    """The step that the H200's ladders of ``scaledlinear`` began with; ``pipelined`` begins the others."""
    if problem.operator != "scaledlinear":
        return None
    width = DTYPE_BYTES[problem.input]
    config = _CONSUMERS | {"block_N": 192, "block_K": 128 // width, "epilogue": "direct"}
    return Draft(
        "warp_specialized",
        "Warp specialization by hand on 128x192 tiles; their sums are scaled in registers.",
        NAME,
        config | {"promote_steps": 4 if width == 1 else 0},
    )


def refuses(problem: Problem, gpu: Gpu) -> str | None:
    _, columns, depth = problem.dims
    pitches = depth * DTYPE_BYTES[problem.input], columns * DTYPE_BYTES[problem.output]
    if any(pitch % TMA_PITCH_BYTES for pitch in pitches):
        return f"{problem}: TMA needs rows in multiples of {TMA_PITCH_BYTES} bytes"
    return None


FAMILY: Final = Family(
    name=NAME,
    operators={
        "matmul": ("bf16", "fp16"),
        "linear": ("bf16", "fp16", "e4m3"),
        "scaledlinear": ("e4m3", "bf16", "fp16"),
    },
    architectures=("sm_90a",),
    space=space,
    follows="kernels.gemm.pipelined",
    ideas={"warp_specialized": "", "persistent": "persistent=True"},
    refuses=refuses,
    draft=draft,
    starter=starter,
)
