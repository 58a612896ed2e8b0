"""What ``kernels.gemm.int4_weights`` takes, its search space and its first draft."""

from typing import Any, Final

from harness.catalog.families import Draft, Family, Gpu
from harness.iteration import Problem

NAME: Final = "kernels.gemm.int4_weights"
ROWS: Final = 64
HEIGHTS: Final = (16, 32, 64, 128)
WIDE: Final = 8192  # of K: a row of its scales is as wide as a swizzle
STAGES: Final = {16: (12, 18, 24), 32: (12, 15), 64: (6, 9), 128: (3, 4, 5)}


def height(problem: Problem) -> int:
    """Rows of X that a block multiplies: all, where they are few."""
    return next((each for each in HEIGHTS if problem.dims[0] <= each), HEIGHTS[-1])


def space(problem: Problem, gpu: Gpu) -> list[dict[str, Any]]:
    return [
        {
            "block_M": height(problem),
            "num_stages": num_stages,
            "consumer_groups": groups,
            "scaled": scaled,
            "cluster": cluster,
            **dict.fromkeys(("scales_by_tma", "swizzled"), problem.dims[2] % WIDE == 0),
            "dependent_launch": dependent,
        }
        for num_stages in STAGES[height(problem)]
        for groups in (1, 2, 3, 4, 6)
        if num_stages % groups == 0
        for scaled in ("sums", "weights")
        for cluster in (1, 2, 4)
        for dependent in (False, True)
    ]


def draft(problem: Problem, gpu: Gpu) -> Draft:
    block_M = height(problem)
    return Draft(
        "unpacked_by_words",
        "Warp specialization by hand; weights are unpacked into the registers of WGMMA's left operand.",
        NAME,
        {"block_M": block_M, "num_stages": STAGES[block_M][0], "consumer_groups": 1, "scaled": "weights"},
    )


def refuses(problem: Problem, gpu: Gpu) -> str | None:
    if problem.dims[1] % ROWS:
        return f"{problem}: N is not a multiple of {ROWS}"
    return None


FAMILY: Final = Family(
    name=NAME,
    operators={"int4linear": ("bf16",)},
    architectures=("sm_90a",),
    space=space,
    refuses=refuses,
    draft=draft,
)
