"""What ``kernels.flash_attention.forward`` takes, its search space and its first draft."""

from typing import Any, Final

from harness.catalog.families import Draft, Family, Gpu
from harness.iteration import Problem

NAME: Final = "kernels.flash_attention.forward"
SHORT_TOKENS: Final = 1024
GROWTH: Final = 8.0  # as in FlashAttention-4
# block_N, ahead, epilogue_buffers; the kernel refuses those that do not fit the width of the heads.
BLOCKS: Final = (
    (176, False, 1),
    (160, False, 2),
    (128, False, 2),
    (128, False, 1),
    (112, False, 2),
    (128, True, 2),
    (112, True, 2),
    (96, True, 2),
)


def space(problem: Problem, gpu: Gpu) -> list[dict[str, Any]]:
    """Wide blocks of keys, or narrower ones with a second buffer of Q; as many epilogue buffers as fit; orders.

    Short sequences also with a dependent launch, which saves a hundredth of their time. They and causal ones also with
    maxima that must grow before the output is scaled; where blocks are wide that loses.
    """
    batches, heads, kv_heads, tokens, *_ = problem.dims
    shared = heads // kv_heads
    causal, short = problem.operator == "causalattention", tokens <= SHORT_TOKENS
    at_once = {count * shared for count in (1, 2, 4, 8, 16)} if causal else {shared}
    growths = (0.0, GROWTH) if causal or short else (0.0,)
    return [
        {
            "block_N": block_N,
            "ahead": ahead,
            "epilogue_buffers": epilogue_buffers,
            "rescale_first": rescale_first,
            "early_wait": early_wait,
            "heads_at_once": heads_at_once,
            "dependent_launch": dependent_launch,
            "growth": growth,
        }
        for block_N, ahead, epilogue_buffers in BLOCKS
        for rescale_first in (True, False)
        for early_wait in (True, False)
        for heads_at_once in sorted(at_once)
        for dependent_launch in ((False, True) if short else (False,))
        for growth in growths
        if batches * heads % heads_at_once == 0
    ]


def draft(problem: Problem, gpu: Gpu) -> Draft:
    return Draft(
        "overlap_and_turns",
        "Each group's softmax under its own P V and under the other group's products, which its turn keeps apart.",
        NAME,
        {"block_N": 128, "overlap": True, "ping_pong": True},
    )


FAMILY: Final = Family(
    name=NAME,
    operators={"attention": ("bf16", "fp16"), "causalattention": ("bf16", "fp16")},
    architectures=("sm_90a",),
    space=space,
    draft=draft,
)
