"""FlashAttention-4, ``flash-attn-4``: CuTe DSL, compiled at the first call, for Hopper and later.

It takes [batch, tokens, heads, width] with any strides but the last. It writes into such a view of the output too:
nothing is copied.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from harness.catalog.opponents import Opponent
from harness.judge.facts.problem import Problem

WIDEST: Final = 256


def build(problem: Problem) -> Callable[..., None]:
    # The package's own function takes no output, and the one under it does.
    from flash_attn.cute.interface import _flash_attn_fwd as forward

    scale = problem.dims[4] ** -0.5
    causal = problem.operator == "causalattention"

    def launch(*tensors: Any) -> None:
        q, k, v, out = (each.transpose(1, 2) for each in tensors)
        forward(q, k, v, out=out, softmax_scale=scale, causal=causal)

    return launch


def build_backward(problem: Problem) -> Callable[..., None]:
    from flash_attn.cute.interface import _flash_attn_bwd as backward

    scale = problem.sizes["D"] ** -0.5

    def launch(*tensors: Any) -> None:
        q, k, v, out, grad, dq, dk, dv = (each.transpose(1, 2) for each in (*tensors[:5], *tensors[6:]))
        backward(q, k, v, out, grad, tensors[5], softmax_scale=scale, causal=True, dq=dq, dk=dk, dv=dv)

    return launch


def refuses(problem: Problem) -> str | None:
    depth, width = problem.dims[4:]
    return f"heads of {depth} and {width}" if max(depth, width) > WIDEST or depth % 8 or width % 8 else None


_describe = partial(
    Opponent,
    architectures=("sm_90a", "sm_100a"),
    requires=("flash-attn-4==4.0.0b36", "quack-kernels==0.6.5", "nvidia-cutlass-dsl[cu13]==4.8.1"),
    extra="opponents-fa4",
    licence="BSD-3-Clause",
    source="https://github.com/Dao-AILab/flash-attention",
)

OPPONENTS: Final = (
    _describe(
        name="flash_attention_4",
        what="FlashAttention-4 in CuTe DSL.",
        build=build,
        operators=dict.fromkeys(("attention", "causalattention"), ("bf16", "fp16")),
        refuses=refuses,
    ),
    _describe(
        name="flash_attention_4_backward",
        what="The backward pass of FlashAttention-4 in CuTe DSL.",
        build=build_backward,
        operators={"attentionbackward": ("bf16", "fp16")},
    ),
)
