"""FlashAttention-3 for Hopper, as ``tokenspeed-fa3`` ships it: compiled, so it needs no compiler here.

It takes [batch, tokens, heads, width] with any strides but the last, so transposed views of the problem's tensors do.
It writes into such a view of the output too: nothing is copied. The package lacks the backward pass, and MLA's widths.
"""

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from harness.catalog.opponents import Opponent
from harness.judge.facts.problem import Problem

WIDTHS: Final = (64, 128, 192, 256)  # of the package's instances; heads of 192 and 128 run in one of 192


def _forward(problem: Problem, **options: object) -> Callable[..., object]:
    import torch

    importlib.import_module("flash_attn_3._C")  # adds the operators to torch.ops
    # The package's own functions take no output, and the operator under them does.
    return partial(torch.ops.flash_attn_3.fwd, softmax_scale=problem.sizes["D"] ** -0.5, **options)


def build(problem: Problem) -> Callable[..., None]:
    forward = _forward(problem, is_causal=problem.operator == "causalattention", num_splits=1)

    def launch(*tensors: Any) -> None:
        q, k, v, out = (each.transpose(1, 2) for each in tensors)
        forward(q, k, v, out=out)

    return launch


def build_varlen(problem: Problem) -> Callable[..., None]:
    longest = problem.sizes["L"]
    forward = _forward(problem, is_causal=True, num_splits=1, max_seqlen_q=longest, max_seqlen_k=longest)

    def launch(q: Any, k: Any, v: Any, starts: Any, out: Any) -> None:
        forward(q, k, v, cu_seqlens_q=starts, cu_seqlens_k=starts, out=out)

    return launch


def build_paged(problem: Problem) -> Callable[..., None]:
    """``flash_attn_with_kvcache`` as it is by default: the package chooses into how many parts it splits a cache."""
    forward = _forward(problem, num_splits=0)

    def launch(q: Any, k: Any, v: Any, table: Any, lengths: Any, out: Any) -> None:
        forward(q[:, None], k, v, page_table=table, seqused_k=lengths, out=out[:, None])

    return launch


def refuses(problem: Problem) -> str | None:
    depth = problem.sizes["D"]
    width = problem.sizes.get("W", depth)
    return None if depth in WIDTHS and width <= depth else f"heads of {depth} and {width}"


_describe = partial(
    Opponent,
    architectures=("sm_90a",),
    requires=("tokenspeed-fa3==3.0.0.post20260810",),
    extra="opponents-fa3",
    licence="Apache-2.0",
    source="https://github.com/Dao-AILab/flash-attention",
)

OPPONENTS: Final = (
    _describe(
        name="flash_attention_3",
        what="FlashAttention-3 for Hopper, compiled.",
        build=build,
        operators=dict.fromkeys(("attention", "causalattention"), ("bf16", "fp16")),
        refuses=refuses,
    ),
    _describe(
        name="flash_attention_3_varlen",
        what="FlashAttention-3 over sequences of several lengths, as flash_attn_varlen_func calls it.",
        build=build_varlen,
        operators={"varlenattention": ("bf16", "fp16")},
        refuses=refuses,
    ),
    _describe(
        name="flash_attention_3_paged",
        what="FlashAttention-3 over a cache in pages, as flash_attn_with_kvcache calls it.",
        build=build_paged,
        operators={"pageddecode": ("bf16", "fp16")},
        refuses=refuses,
    ),
)
