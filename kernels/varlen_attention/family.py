"""What ``kernels.varlen_attention`` takes, its search space and its first draft."""

from typing import Any, Final

from harness.catalog.families import Draft, Family, Gpu
from harness.iteration import Problem

NAME: Final = "kernels.varlen_attention.varlen"
DEPTHS: Final = (64, 128)
# block_N, epilogue_buffers
BLOCKS: Final = ((128, 2), (176, 1), (160, 2), (112, 2), (128, 0))


def space(problem: Problem, gpu: Gpu) -> list[dict[str, Any]]:
    """Blocks of keys with the epilogue buffers that fit; orders; as many heads at a time as divide them all."""
    return [
        {
            "block_N": block_N,
            "epilogue_buffers": epilogue_buffers,
            "rescale_first": rescale_first,
            "early_wait": early_wait,
            "heads_at_once": heads_at_once,
        }
        for block_N, epilogue_buffers in BLOCKS
        for rescale_first in (False, True)
        for early_wait in (False, True)
        for heads_at_once in (1, 2, 4)
        if problem.dims[1] % heads_at_once == 0
    ]


def draft(problem: Problem, gpu: Gpu) -> Draft:
    return Draft(
        "next_when_free",
        "Warp specialization by hand; each block takes the next tile when it is free, whatever the lengths are.",
        NAME,
        {"block_N": 128},
    )


def refuses(problem: Problem, gpu: Gpu) -> str | None:
    return None if problem.dims[5] in DEPTHS else f"{problem}: heads of {problem.dims[5]}, not of 64 or 128"


FAMILY: Final = Family(
    name=NAME,
    operators={"varlenattention": ("bf16", "fp16")},
    architectures=("sm_90a",),
    space=space,
    refuses=refuses,
    draft=draft,
)
