"""What ``kernels.latent_decode`` takes, its search space and its first draft."""

from typing import Any, Final

from harness.catalog.families import Draft, Family, Gpu
from harness.iteration import Problem

NAME: Final = "kernels.latent_decode.latent_decode"
ROWS: Final = 64
WIDTHS: Final = (256, 512)
ROTARY: Final = 64
BLOCKS: Final[tuple[dict[str, Any], ...]] = (  # for rows of 512 and 64
    {"block_N": 64, "num_stages": 2},
    {"block_N": 64, "num_stages": 2, "alternate": True},
    {"block_N": 64, "num_stages": 2, "alternate": True, "warps_look_up": True},
    {"block_N": 64, "num_stages": 2, "share_scores": True},
    {"block_N": 32, "num_stages": 4},
    {"block_N": 32, "num_stages": 3},
    {"block_N": 16, "num_stages": 8},
)


def fitting(problem: Problem) -> list[dict[str, Any]]:
    """What divides the pages."""
    return [dict(each) for each in BLOCKS if problem.dims[5] % each["block_N"] == 0]


def space(problem: Problem, gpu: Gpu) -> list[dict[str, Any]]:
    return fitting(problem)


def draft(problem: Problem, gpu: Gpu) -> Draft:
    return Draft(
        "two_groups",
        "Warp specialization by hand; equal shares of all keys, and two groups with half of the output each.",
        NAME,
        fitting(problem)[0],
    )


def refuses(problem: Problem, gpu: Gpu) -> str | None:
    _, heads, width, rotary, _, page = problem.dims
    if heads % ROWS:
        return f"{problem}: {heads} heads are no multiple of {ROWS}, the rows of a tile"
    if width not in WIDTHS or rotary != ROTARY:
        return f"{problem}: rows of {width} and {rotary}, not of 256 or 512 and {ROTARY}"
    if not fitting(problem):
        return f"{problem}: pages of {page} tokens are no multiple of {min(each['block_N'] for each in BLOCKS)}"
    return None


FAMILY: Final = Family(
    name=NAME,
    operators={"mladecode": ("bf16", "fp16")},
    architectures=("sm_90a",),
    space=space,
    refuses=refuses,
    draft=draft,
)
