"""FlashMLA for Hopper, as ``sglang-kernel`` ships it: compiled for one release of torch, which decides the pin.

It takes the problem's cache as it lies, in pages of 64 tokens. A user plans the lengths once a step and reuses the plan
in every layer, so the plan is not timed.
"""

from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from harness.catalog.opponents import Opponent
from harness.judge.facts.problem import Problem

PAGE: Final = 64
LATENT: Final = 512  # with ROTARY the only row that it has a kernel for
ROTARY: Final = 64
OF_TORCH: Final = {"2.11.0": "0.4.6"}  # the releases that were built for another torch than the pinned one
NEWEST: Final = "0.4.8"


def _operators() -> Any:
    """Its operators alone: the package itself loads a gigabyte of other kernels."""
    import torch

    spec = find_spec("sgl_kernel")
    assert spec is not None and spec.submodule_search_locations
    torch.ops.load_library(str(Path(spec.submodule_search_locations[0], "flashmla_ops.abi3.so")))
    return torch.ops.sgl_kernel


def build(problem: Problem) -> Callable[..., None]:
    decode, scale = _operators().dense_decode_fwd, (LATENT + ROTARY) ** -0.5

    def launch(q: Any, cache: Any, table: Any, lengths: Any, plan: Any, splits: Any, out: Any) -> None:
        made = decode(q[:, None], cache[:, :, None], LATENT, lengths, table, scale, False, plan, splits)[0]
        out.copy_(made[:, 0])

    return launch


def prepare(q: Any, cache: Any, table: Any, lengths: Any) -> tuple[Any, ...]:
    """The inputs, then which block of threads takes which pages, and into how many parts each sequence is split."""
    call = (q[:, None], cache[:, :, None], LATENT, lengths, table, 1.0, False, None, None)
    _, _, plan, splits = _operators().dense_decode_fwd(*call)
    return q, cache, table, lengths, plan, splits


def refuses(problem: Problem) -> str | None:
    depth, rotary, _, page = problem.dims[2:]
    if (depth, rotary, page) != (LATENT, ROTARY, PAGE):
        return f"rows of {depth} and {rotary} in pages of {page}, not of {LATENT} and {ROTARY} in pages of {PAGE}"
    return None


OPPONENTS: Final = (
    Opponent(
        name="flash_mla",
        what="FlashMLA's dense decoding for Hopper, compiled; the plan of the lengths is not timed.",
        build=build,
        prepare=prepare,
        operators={"mladecode": ("bf16", "fp16")},
        architectures=("sm_90a",),
        requires=(f"sglang-kernel=={OF_TORCH.get(version('torch').partition('+')[0], NEWEST)}",),
        extra="opponents-mla",
        licence="Apache-2.0",
        source="https://github.com/deepseek-ai/FlashMLA",
        refuses=refuses,
        copies=True,
    ),
)
