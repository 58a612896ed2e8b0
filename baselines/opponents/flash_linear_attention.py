"""``flash-linear-attention``, by its package ``fla-core``: Triton, compiled and tuned at the first call."""

from collections.abc import Callable
from typing import Any, Final

from harness.catalog.opponents import Opponent
from harness.judge.facts.problem import Problem


def build(problem: Problem) -> Callable[..., None]:
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule

    def call(q: Any, k: Any, v: Any, kept: Any, rate: Any, out: Any, state: Any) -> None:
        made, last = chunk_gated_delta_rule(q, k, v, kept, rate, scale=1.0, output_final_state=True)
        out.copy_(made)
        state.copy_(last)

    return call


def prepare(q: Any, k: Any, v: Any, decay: Any, rate: Any) -> tuple[Any, ...]:
    """The package takes the logarithm of what a state keeps, and the problem the loss."""
    return q, k, v, -decay, rate


OPPONENTS: Final = (
    Opponent(
        name="flash_linear_attention",
        what="chunk_gated_delta_rule of flash-linear-attention, in Triton.",
        build=build,
        prepare=prepare,
        operators={"gateddelta": ("bf16", "fp16")},
        architectures=("sm_80", "sm_90a", "sm_100a"),
        requires=("fla-core==0.6.0", "einops==0.8.2"),
        extra="opponents-fla",
        licence="MIT",
        source="https://github.com/fla-org/flash-linear-attention",
        copies=True,
    ),
)
