"""What ``kernels.paged_decode`` takes, its search space and its first draft."""

from typing import Any, Final

from harness.catalog.families import Draft, Family, Gpu
from harness.iteration import Problem

NAME: Final = "kernels.paged_decode.paged_decode"
DEPTHS: Final = (64, 128)
ROWS: Final = 64
# block_N, num_stages of heads of 128, blocks_per_sm; heads of 64 have twice the stages.
BLOCKS: Final = (
    (64, 6, 1),
    (64, 4, 1),
    (128, 3, 1),
    (32, 12, 1),
    (32, 5, 2),
    (64, 2, 2),
    (32, 4, 2),
)

LEVERS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"dependent_launch": True},
    {"dependent_launch": True, "row_cost": 1, "warps_look_up": True},
    {"dependent_launch": True, "row_cost": 1, "warps_look_up": True, "bring_early": True},
    {"dependent_launch": True, "row_cost": 1, "warps_look_up": True, "bring_early": True, "heads_together": True},
)


def fitting(problem: Problem) -> list[dict[str, Any]]:
    """What divides the pages, widest rings first."""
    page, wider = problem.dims[5], max(DEPTHS) // problem.dims[3]
    return [
        {"block_N": block_N, "num_stages": num_stages * wider, "blocks_per_sm": blocks}
        for block_N, num_stages, blocks in BLOCKS
        if page % block_N == 0
    ]


def space(problem: Problem, gpu: Gpu) -> list[dict[str, Any]]:
    """What divides the pages, with each of the levers; each head of keys needs as many blocks of threads."""
    return [
        blocks | levers
        for blocks in fitting(problem)
        for levers in LEVERS
        if "heads_together" not in levers or (gpu.sms or 0) * blocks["blocks_per_sm"] % problem.dims[2] == 0
    ]


def draft(problem: Problem, gpu: Gpu) -> Draft:
    return Draft(
        "equal_shares",
        "Warp specialization by hand; all blocks have equal shares of all keys, whatever the lengths are.",
        NAME,
        fitting(problem)[0],
    )


def refuses(problem: Problem, gpu: Gpu) -> str | None:
    _, heads, kv_heads, depth, _, page = problem.dims
    if depth not in DEPTHS:
        return f"{problem}: heads of {depth}, not of 64 or 128"
    if heads // kv_heads > ROWS:
        return f"{problem}: {heads // kv_heads} heads share one of keys; a tile has {ROWS} rows"
    if not fitting(problem):
        return f"{problem}: pages of {page} tokens are no multiple of {min(block_N for block_N, *_ in BLOCKS)}"
    return None


FAMILY: Final = Family(
    name=NAME,
    operators={"pageddecode": ("bf16", "fp16")},
    architectures=("sm_90a",),
    space=space,
    refuses=refuses,
    draft=draft,
)
