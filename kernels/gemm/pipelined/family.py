"""What ``kernels.gemm.pipelined`` takes, its search space, its first draft and its steps in a starter ladder."""

from collections.abc import Mapping
from typing import Any, Final

from harness.catalog.families import Draft, Family, Gpu
from harness.iteration import DTYPE_BYTES, Problem

NAME: Final = "kernels.gemm.pipelined"

SPACE: Final[dict[str, list[Any]]] = {
    "block_M": [64, 128, 256],
    "block_N": [64, 128, 256],
    "block_K": [32, 64],
    "num_stages": [3, 4],
    "threads": [128, 256],
    "panel": [8],
    "epilogue": ["direct", "tma"],
}

_STOCK: Final[dict[str, object]] = {
    "block_M": 128,
    "block_N": 128,
    "block_K": 32,
    "num_stages": 3,
    "threads": 128,
    "policy": "square",
    "panel": 0,
    "epilogue": "direct",
}
_WIDE: Final = _STOCK | {"block_N": 256, "threads": 256}
_WIDE_DEEP: Final = _WIDE | {"block_K": 64, "num_stages": 4, "panel": 8}

_STOCK_STEP: Final = Draft(
    "stock_pipelined",
    "The kernel of TileLang's first example, 128x128x32 tiles and three stages: what a user gets without tuning.",
    NAME,
    _STOCK,
)
_WIDE_STEP: Final = Draft(
    "wide_tiles",
    "128x256 tiles over eight warps: a quarter fewer bytes from L2 per flop than 128x128 tiles.",
    NAME,
    _WIDE,
)


def _panels_step(config: Mapping[str, object]) -> Draft:
    idea = "Blocks in swizzled panels eight tiles wide, so that those that run at the same time share operands in L2."
    return Draft("swizzled_panels", idea, NAME, {**config, "panel": 8})


_SM_80: Final = (
    _STOCK_STEP,
    _WIDE_STEP,
    _panels_step(_WIDE),
    Draft(
        "long_k_steps",
        "k steps of 64 instead of 32: half as many barriers, for 144 of the 163 KiB of shared memory.",
        NAME,
        _WIDE | {"panel": 8, "block_K": 64},
    ),
)
# Ada has 99 KiB of shared memory for a block.
_SM_89: Final = (
    _STOCK_STEP,
    Draft(
        "eight_warps",
        "Eight warps instead of four on the same tile: 64 accumulators per thread, and two blocks fit an SM.",
        NAME,
        _STOCK | {"threads": 256},
    ),
    _panels_step(_STOCK | {"threads": 256}),
    Draft(
        "wide_tiles",
        "128x256 tiles, one block per SM in 72 KiB: a quarter fewer bytes from L2 per flop than 128x128 tiles.",
        NAME,
        _WIDE | {"panel": 8},
    ),
)
_SM_90A: Final = (
    _STOCK_STEP,
    Draft(
        "wide_tiles",
        "128x256x64 tiles in swizzled panels: a quarter fewer bytes from L2 per flop than 128x128 tiles.",
        NAME,
        _WIDE_DEEP,
    ),
)
# TileLang's schedule uses no tensor memory: on sm_100a it loads by TMA and multiplies with mma.sync.
_SM_100A: Final = (
    _STOCK_STEP,
    _WIDE_STEP,
    _panels_step(_WIDE),
    Draft(
        "deep_ring",
        "k steps of 64 in four stages, 192 KiB on the way, since TMA has to run ahead of faster tensor cores.",
        NAME,
        _WIDE_DEEP,
    ),
    Draft(
        "tma_store",
        "Store through shared memory by TMA, which writes whole rows of the tile and takes no registers.",
        NAME,
        _WIDE_DEEP | {"epilogue": "tma"},
    ),
)
_LINEAR: Final = "linear_bf16fp32_4096x14336x4096"
_STARTERS: Final[dict[str, tuple[tuple[str, str], tuple[Draft, ...]]]] = {
    "sm_80": (("matmul_bf16fp32_4096x4096x4096", _LINEAR), _SM_80),
    "sm_89": (("matmul_fp16fp32_4096x4096x4096", "linear_bf16fp32_4096x4096x4096"), _SM_89),
    "sm_90a": (("matmul_bf16fp32_4096x4096x4096", _LINEAR), _SM_90A),
    "sm_100a": (("matmul_bf16fp32_8192x8192x8192", _LINEAR), _SM_100A),
}


def starter(gpu: Gpu) -> dict[str, tuple[Draft, ...]]:
    shape_keys, steps = _STARTERS[gpu.arch]
    return dict.fromkeys(shape_keys, steps)


def draft(problem: Problem, gpu: Gpu) -> Draft:
    """The stock kernel; it handles ragged sizes, and small sizes get a smaller tile."""
    rows, columns, _ = problem.dims
    config = _STOCK | {
        "block_M": 64 if rows <= 64 else 128,
        "block_N": 64 if columns <= 64 else 128,
        "block_K": 64 // DTYPE_BYTES[problem.input],
    }
    return Draft(_STOCK_STEP.tag, _STOCK_STEP.idea, NAME, config)


def refuses(problem: Problem, gpu: Gpu) -> str | None:
    if DTYPE_BYTES[problem.input] == 1 and gpu.arch == "sm_80":
        return f"{problem.input} on sm_80: its tensor cores have no 8-bit floats"
    return None


FAMILY: Final = Family(
    name=NAME,
    operators={"matmul": ("bf16", "fp16"), "linear": ("bf16", "fp16", "e4m3")},
    architectures=tuple(_STARTERS),
    space=SPACE,
    refuses=refuses,
    draft=draft,
    starter=starter,
)
