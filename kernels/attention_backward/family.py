"""What ``kernels.attention_backward`` takes, its search space and its first draft."""

from typing import Any, Final

from harness.catalog.families import Draft, Family, Gpu
from harness.iteration import Problem

NAME: Final = "kernels.attention_backward.backward"
DEPTH: Final = 128
BLOCK_N: Final = 128


# Ways to add to dQ: in bulk, by atomics, in turns, the same without what is hidden, and by
# atomics where the main kernel finishes dQ too.
ADDITIONS: Final[tuple[dict[str, bool], ...]] = (
    {"bulk_add": True},
    {"bulk_add": False},
    {"bulk_add": False, "alternate": True},
    {"bulk_add": False, "alternate": True, "skip_hidden": True},
    {"bulk_add": False, "finish_within": True},
)


def space(problem: Problem, gpu: Gpu) -> list[dict[str, Any]]:
    """All ways to add to dQ and to free dS; as many heads at a time as divide them all."""
    batches, heads, *_ = problem.dims
    return [
        {**additions, "early_free": early_free, "heads_at_once": heads_at_once}
        for additions in ADDITIONS
        for early_free in (True, False)
        for heads_at_once in (1, 2, 4, 8)
        if batches * heads % heads_at_once == 0
    ]


def draft(problem: Problem, gpu: Gpu) -> Draft:
    return Draft(
        "one_product_at_a_time",
        "Warp specialization by hand, with one product at a time, and dQ added up by atomics straight from registers.",
        NAME,
        {"overlap": False, "bulk_add": False},
    )


def refuses(problem: Problem, gpu: Gpu) -> str | None:
    _, _, tokens, depth = problem.dims
    if depth != DEPTH:
        return f"{problem}: heads of {depth}, not of {DEPTH}"
    return f"{problem}: {tokens} tokens are not a multiple of {BLOCK_N}" if tokens % BLOCK_N else None


FAMILY: Final = Family(
    name=NAME,
    operators={"attentionbackward": ("bf16", "fp16")},
    architectures=("sm_90a",),
    space=space,
    refuses=refuses,
    draft=draft,
)
