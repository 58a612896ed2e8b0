"""FlashAttention-3 for Hopper, as ``tokenspeed-fa3`` ships it: compiled, so it needs no compiler here.

It takes [batch, tokens, heads, width] with any strides but the last, so transposed views of the problem's tensors do.
It writes into such a view of the output too: nothing is copied.
"""

import importlib
from collections.abc import Callable
from typing import Any, Final

from harness.catalog.opponents import Opponent
from harness.judge.facts.problem import Problem

WIDTHS: Final = (64, 128, 192, 256)  # of the package's instances; heads of 192 and 128 run in one of 192


def build(problem: Problem) -> Callable[..., None]:
    import torch

    importlib.import_module("flash_attn_3._C")  # adds the operators to torch.ops
    # The package's own function takes no output, and the operator under it does.
    forward: Callable[..., object] = torch.ops.flash_attn_3.fwd
    scale = problem.dims[4] ** -0.5
    causal = problem.operator == "causalattention"

    def launch(*tensors: Any) -> None:
        q, k, v, out = (each.transpose(1, 2) for each in tensors)
        forward(q, k, v, out=out, softmax_scale=scale, is_causal=causal, num_splits=1)

    return launch


def refuses(problem: Problem) -> str | None:
    depth, width = problem.dims[4:]
    return None if depth in WIDTHS and width <= depth else f"heads of {depth} and {width}"


OPPONENTS: Final = (
    Opponent(
        name="flash_attention_3",
        what="FlashAttention-3 for Hopper, compiled.",
        build=build,
        operators=dict.fromkeys(("attention", "causalattention"), ("bf16", "fp16")),
        architectures=("sm_90a",),
        requires=("tokenspeed-fa3==3.0.0.post20260810",),
        extra="opponents-fa3",
        licence="Apache-2.0",
        source="https://github.com/Dao-AILab/flash-attention",
        refuses=refuses,
    ),
)
