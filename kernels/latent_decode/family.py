"""What ``kernels.latent_decode`` takes, its search space and its first draft."""

from typing import Any, Final

from harness.catalog.families import Draft, Family, Gpu
from harness.iteration import Problem

NAME: Final = "kernels.latent_decode.latent_decode"
ROWS: Final = 64
WIDTHS: Final = (256, 512)
ROTARY: Final = 64
# block_N, num_stages of rows of 512 and 64, share_scores
BLOCKS: Final = ((64, 2, False), (32, 4, False), (64, 2, True), (32, 3, False), (16, 8, False))


def fitting(problem: Problem) -> list[dict[str, Any]]:
    """What divides the pages."""
    return [
        {"block_N": block_N, "num_stages": num_stages, "share_scores": share_scores}
        for block_N, num_stages, share_scores in BLOCKS
        if problem.dims[5] % block_N == 0
    ]


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
        return f"{problem}: pages of {page} tokens are no multiple of {min(block_N for block_N, *_ in BLOCKS)}"
    return None


FAMILY: Final = Family(
    name=NAME,
    operators={"mladecode": ("bf16", "fp16")},
    architectures=("sm_90a",),
    space=space,
    refuses=refuses,
    draft=draft,
)
