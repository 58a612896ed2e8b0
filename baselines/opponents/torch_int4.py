"""torch's own product with weights of 4 bits, which takes them packed for one GPU."""

from collections.abc import Callable
from typing import Any, Final

from harness.catalog.opponents import Opponent
from harness.judge.facts.problem import Problem
from harness.operators.int4linear import GROUP

INNER_K_TILES: Final = 8  # of torch's packed layout; 8 reads the most bytes at once


def build(problem: Problem) -> Callable[..., object]:
    import torch

    def call(x: Any, packed: Any, scales: Any, out: Any) -> None:
        out.copy_(torch.ops.aten._weight_int4pack_mm(x, packed, GROUP, scales))

    return call


def prepare(x: Any, packed: Any, scales: Any) -> tuple[Any, ...]:
    """X, the nibbles in torch's layout, and S[K/128,N,2] with the zero points of torch, which are 0 here."""
    import torch

    high_first = (packed << 4) | (packed >> 4)  # torch's even column is the high nibble
    laid_out = torch.ops.aten._convert_weight_to_int4pack(high_first, INNER_K_TILES)
    of_groups = scales.t()
    return x, laid_out, torch.stack((of_groups, torch.zeros_like(of_groups)), dim=-1).contiguous()


OPPONENTS: Final = (
    Opponent(
        name="torch_int4",
        what="torch's product with packed weights of 4 bits, _weight_int4pack_mm; packing is not timed.",
        build=build,
        prepare=prepare,
        operators={"int4linear": ("bf16",)},
        architectures=("sm_80", "sm_90a"),
        licence="BSD-3-Clause",
        source="https://github.com/pytorch/pytorch",
        copies=True,
    ),
)
