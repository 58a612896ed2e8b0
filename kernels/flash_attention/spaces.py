"""What to search in the attention family, under its name: a product, or a function of the problem."""

from typing import Any

from harness.judge.facts.problem import Problem

SHORT = 1024  # tokens
# Keys of a block, the next tile ahead, epilogue buffers; what does not fit heads as wide, the family refuses.
BLOCKS = (
    (176, False, 1),
    (160, False, 2),
    (128, False, 2),
    (128, False, 1),
    (112, False, 2),
    (128, True, 2),
    (112, True, 2),
    (96, True, 2),
)


def forward(problem: Problem) -> list[dict[str, Any]]:
    """Wide blocks of keys, or narrower ones with a second buffer of Q; as many epilogue buffers as fit; orders.

    Short sequences with a dependent launch too: what it saves is a hundredth of them.
    """
    batches, heads, kv_heads, tokens, *_ = problem.dims
    shared = heads // kv_heads
    at_once = {count * shared for count in (1, 2, 4, 8, 16)} if problem.operator == "causalattention" else {shared}
    return [
        {
            "block_N": block_N,
            "ahead": ahead,
            "epilogue_buffers": epilogue_buffers,
            "rescale_first": rescale_first,
            "early_wait": early_wait,
            "heads_at_once": heads_at_once,
            "dependent_launch": dependent_launch,
        }
        for block_N, ahead, epilogue_buffers in BLOCKS
        for rescale_first in (True, False)
        for early_wait in (True, False)
        for heads_at_once in sorted(at_once)
        for dependent_launch in ((False, True) if tokens <= SHORT else (False,))
        if batches * heads % heads_at_once == 0
    ]
