"""What ``kernels.gemm.int4_weights`` takes, its search space and its first draft."""

from typing import Any, Final

from harness.catalog.families import Draft, Family, Gpu
from harness.iteration import Problem

NAME: Final = "kernels.gemm.int4_weights"
ROWS: Final = 64
HEIGHTS: Final = (16, 32, 64, 128)
REORDERED_ROWS: Final = 16  # of X
WIDE: Final = 8192  # of K: a row of its scales is as wide as a swizzle
STAGES: Final = {16: (12, 18, 24), 32: (12, 15), 64: (6, 9), 128: (3, 4, 5)}


def height(problem: Problem) -> int:
    """Rows of X that a block multiplies: all, where they are few."""
    return next((each for each in HEIGHTS if problem.dims[0] <= each), HEIGHTS[-1])


def forms(problem: Problem) -> list[dict[str, Any]]:
    """How a block goes through K: a step or two at a time, and in which order."""
    two = {"steps_at_once": 2, "scaled": "sums"}
    reordered = [{**two, "reordered": True}] if height(problem) == REORDERED_ROWS else []
    return [{"steps_at_once": 1, "scaled": "sums"}, {"steps_at_once": 1, "scaled": "weights"}, two, *reordered]


def space(problem: Problem, gpu: Gpu) -> list[dict[str, Any]]:
    return [
        {
            "block_M": height(problem),
            "num_stages": steps // form["steps_at_once"],
            "consumer_groups": groups,
            **form,
            "cluster": cluster,
            **dict.fromkeys(("scales_by_tma", "swizzled"), problem.dims[2] % WIDE == 0),
            "dependent_launch": dependent,
        }
        for steps in STAGES[height(problem)]
        for form in forms(problem)
        for groups in (1, 2, 3, 4)
        if steps % (form["steps_at_once"] * groups) == 0
        for cluster in (1, 2)
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
