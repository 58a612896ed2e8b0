"""What ``kernels.gemm.grouped`` takes, its search space and its first draft."""

from typing import Any, Final

from harness.catalog.families import Draft, Family, Gpu
from harness.iteration import DTYPE_BYTES, Problem

NAME: Final = "kernels.gemm.grouped"
TMA_PITCH_BYTES: Final = 16


def space(problem: Problem, gpu: Gpu) -> list[dict[str, Any]]:
    """Shared tiles, and tiles in turns, which are lower or narrower."""
    return [
        {
            "block_M": block_M,
            "block_N": block_N,
            "block_K": 64,
            "num_stages": num_stages,
            "turns": turns,
            "skip_idle": not turns,
            "wgmma_in_flight": in_flight,
            "epilogue_buffers": 1 if turns else 2,
        }
        for block_M, block_N, turns in (
            (128, 256, False),
            (128, 128, False),
            (128, 192, True),
            (128, 128, True),
            (64, 256, True),
        )
        for num_stages in (3, 4, 5, 6)
        for in_flight in (1, 0)
    ]


def draft(problem: Problem, gpu: Gpu) -> Draft:
    return Draft(
        "warp_specialized",
        "Warp specialization by hand on 128x256 tiles; resident blocks walk the tiles of all experts.",
        NAME,
        {"block_M": 128, "block_N": 256, "block_K": 64, "num_stages": 4},
    )


def refuses(problem: Problem, gpu: Gpu) -> str | None:
    pitches = (size * DTYPE_BYTES[problem.input] for size in problem.dims[1:3])
    if any(pitch % TMA_PITCH_BYTES for pitch in pitches):
        return f"{problem}: TMA needs rows in multiples of {TMA_PITCH_BYTES} bytes"
    return None


FAMILY: Final = Family(
    name=NAME,
    operators={"groupedlinear": ("bf16", "fp16")},
    architectures=("sm_90a",),
    space=space,
    refuses=refuses,
    draft=draft,
)
