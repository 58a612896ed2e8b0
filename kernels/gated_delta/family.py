"""What ``kernels.gated_delta`` takes, its search space and its steps in a ladder."""

from typing import Any, Final

from harness.catalog.families import Draft, Family, Gpu
from harness.iteration import Problem

NAME: Final = "kernels.gated_delta.gated_delta"
CHUNK: Final = 64
WIDTHS: Final = (64, 128)
# output_group, num_stages, slots
SECOND: Final = ((True, 2, 2), (True, 2, 1), (True, 3, 1), (False, 2, 1), (False, 3, 1))


def space(problem: Problem, gpu: Gpu) -> list[dict[str, Any]]:
    return [
        {
            "inverse": "blocks",
            "specialize": True,
            "output_group": output_group,
            "num_stages": num_stages,
            "slots": slots,
        }
        for output_group, num_stages, slots in SECOND
    ]


def draft(problem: Problem, gpu: Gpu) -> Draft:
    return Draft(
        "state_in_registers",
        "Chunks at once by an inverse in blocks of 16; then a chain of states in registers, beside it the outputs.",
        NAME,
        space(problem, gpu)[0],
    )


def refuses(problem: Problem, gpu: Gpu) -> str | None:
    *_, tokens, depth, width = problem.dims
    if depth not in WIDTHS or width not in WIDTHS:
        return f"{problem}: keys of {depth} and values of {width}, not of 64 or 128"
    if tokens % CHUNK:
        return f"{problem}: {tokens} tokens are no multiple of {CHUNK}, a chunk"
    return None


FAMILY: Final = Family(
    name=NAME,
    operators={"gateddelta": ("bf16", "fp16")},
    architectures=("sm_90a",),
    space=space,
    refuses=refuses,
    draft=draft,
)
