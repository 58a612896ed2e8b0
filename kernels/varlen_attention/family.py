"""What ``kernels.varlen_attention`` takes, its search space and its first draft."""

from itertools import product
from typing import Any, Final

from harness.catalog.families import Draft, Family, Gpu
from harness.iteration import Problem

NAME: Final = "kernels.varlen_attention.varlen"
DEPTHS: Final = (64, 128)
POWERS_FIRST: Final = (24, 32, 40)
KEPT_BLOCK_N: Final = 128  # wider ones have no registers left for scores that outlive their powers
# block_N, epilogue_buffers
BLOCKS: Final = ((128, 2), (176, 1), (160, 2), (112, 2), (128, 0))


def space(problem: Problem, gpu: Gpu) -> list[dict[str, Any]]:
    """Blocks of keys with the epilogue buffers that fit; softmaxes; as many heads at a time as divide them all.

    One array holds a group's buffers, so that what was measured is what is built later.
    """
    kept = [{"keeps_maxima": True, "powers_first": count} for count in POWERS_FIRST]
    orders = [{"rescale_first": first, "early_wait": early} for first, early in product((False, True), repeat=2)]
    return [
        {
            "block_N": block_N,
            "epilogue_buffers": epilogue_buffers,
            "one_array": epilogue_buffers > 0,
            **softmax,
            "heads_at_once": heads_at_once,
        }
        for block_N, epilogue_buffers in BLOCKS
        for softmax in (kept if block_N == KEPT_BLOCK_N else []) + orders
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
