"""What ``kernels.flash_attention.forward`` takes, its search space and its first draft."""

from collections.abc import Iterator
from itertools import product
from typing import Any, Final

from harness.catalog.families import Draft, Family, Gpu
from harness.iteration import Problem

NAME: Final = "kernels.flash_attention.forward"
SHORT_TOKENS: Final = 1024
GROWTH: Final = 8.0  # as in FlashAttention-4
POWERS_FIRST: Final = (24, 32, 40, 48)  # of the 64 of a thread in a block of 128 keys
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
    """Maxima kept from a tile's first block of keys, and softmaxes that find new ones in each.

    Kept maxima lead wherever they were measured, in blocks of 128 keys. Without a mask they need exact weights, since
    one measurement in ten is wrong else. Of the others, causal and short ones also come with maxima that must grow
    before the output is scaled; where blocks are wide that loses. Short sequences also have a dependent launch.
    All have one array of epilogue buffers, so that what was measured is what is built later. ``forward`` refuses what
    does not fit.
    """
    batches, heads, kv_heads, tokens, *_ = problem.dims
    shared = heads // kv_heads
    causal, short = problem.operator == "causalattention", tokens <= SHORT_TOKENS
    at_once = {count * shared for count in (1, 2, 4, 8, 16)} if causal else {shared}
    growths = (0.0, GROWTH) if causal or short else (0.0,)
    return [
        {**levers, "one_array": True, "heads_at_once": heads_at_once, "dependent_launch": dependent_launch}
        for levers in (*_of_kept_maxima(exact=not causal), *_of_new_maxima(growths))
        for heads_at_once in sorted(at_once)
        for dependent_launch in ((False, True) if short else (False,))
        if batches * heads % heads_at_once == 0
    ]


def _of_kept_maxima(exact: bool) -> Iterator[dict[str, Any]]:
    for (ahead, buffers), powers_first, keys_ahead in product(((True, 2), (False, 1)), POWERS_FIRST, (True, False)):
        block = {"block_N": 128, "ahead": ahead, "epilogue_buffers": buffers}
        kept = {"keeps_maxima": True, "exact_weights": exact, "powers_first": powers_first}
        yield {**block, **kept, "keys_ahead": keys_ahead}


def _of_new_maxima(growths: tuple[float, ...]) -> Iterator[dict[str, Any]]:
    orders = product((True, False), repeat=2)
    for (block_N, ahead, buffers), (rescale_first, early_wait), growth in product(BLOCKS, orders, growths):
        block = {"block_N": block_N, "ahead": ahead, "epilogue_buffers": buffers}
        yield {**block, "rescale_first": rescale_first, "early_wait": early_wait, "growth": growth}


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
