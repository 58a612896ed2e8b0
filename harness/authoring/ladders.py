"""What to start with: ladders for GPUs that have none, and a first kernel for any problem that a family takes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from harness.errors import UsageError
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.problem import DTYPE_BYTES, DTYPES, Problem

_BASELINE_OPERATORS: Final = ("matmul", "linear")
# Operators whose families are for Hopper alone, and the inputs that these take.
_HOPPER_OPERATORS: Final = {
    "attention": ("bf16", "fp16"),
    "causalattention": ("bf16", "fp16"),
    "scaledlinear": ("e4m3", "bf16", "fp16"),
    "blockscaledlinear": ("e4m3",),
}


@dataclass(frozen=True, slots=True)
class Draft:
    """An iteration before it has a number and a parent; ``family`` is the dotted name of a function of ``kernels``."""

    tag: str
    idea: str
    family: str
    config: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Ladder:
    """Drafts, each a step from the one before, and the shape keys that start with them."""

    shape_keys: tuple[str, ...]
    drafts: tuple[Draft, ...]


_PIPELINED: Final = "kernels.gemm.pipelined"
_WARP_SPECIALIZED: Final = "kernels.gemm.warp_specialized"
_BLOCK_SCALED: Final = "kernels.gemm.block_scaled"
_ATTENTION: Final = "kernels.flash_attention.forward"
_SCALAR: Final = "kernels.cpu.scalar_gemm"
_REGISTERS: Final = "kernels.cpu.register_blocked"

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
_CONSUMERS: Final[dict[str, object]] = {
    "block_M": 128,
    "block_N": 256,
    "block_K": 64,
    "num_stages": 4,
    "consumer_groups": 2,
    "cluster_M": 1,
    "cluster_N": 1,
    "group_M": 8,
    "persistent": False,
    "wgmma_in_flight": 1,
    "epilogue": "tma",
    "epilogue_N": 64,
    "epilogue_buffers": 2,
}
_SCALED_BLOCKS: Final[dict[str, object]] = {
    "block_M": 128,
    "block_N": 128,
    "num_stages": 4,  # which leave room for an output of float32
    "consumer_groups": 2,
    "chain": 1,
    "cluster_M": 1,
    "cluster_N": 1,
    "group_M": 16,
    "epilogue_N": 64,
    "epilogue_buffers": 2,
}
_OPTIMIZED: Final = ("-O3", "-march=native")

_STOCK_DRAFT: Final = Draft(
    "stock_pipelined",
    "The kernel of TileLang's first example, 128x128x32 tiles and three stages: what a user gets without tuning.",
    _PIPELINED,
    _STOCK,
)
_WIDE_DRAFT: Final = Draft(
    "wide_tiles",
    "128x256 tiles over eight warps: a quarter fewer bytes from L2 per flop than 128x128 tiles.",
    _PIPELINED,
    _WIDE,
)
_PANELS_DRAFT: Final = Draft(
    "swizzled_panels",
    "Blocks in swizzled panels eight tiles wide, so that those that run at the same time share operands in L2.",
    _PIPELINED,
    _WIDE | {"panel": 8},
)

_ATTENTION_DRAFT: Final = Draft(
    "overlap_and_turns",
    "Each group's softmax under its own P V and under the other group's products, which its turn keeps apart.",
    _ATTENTION,
    {"block_N": 128, "overlap": True, "ping_pong": True},
)

_SM_80: Final = Ladder(
    ("matmul_bf16fp32_4096x4096x4096", "linear_bf16fp32_4096x14336x4096"),
    (
        _STOCK_DRAFT,
        _WIDE_DRAFT,
        _PANELS_DRAFT,
        Draft(
            "long_k_steps",
            "k steps of 64 instead of 32: half as many barriers, for 144 of the 163 KiB of shared memory.",
            _PIPELINED,
            _WIDE | {"panel": 8, "block_K": 64},
        ),
    ),
)
# Ada has 99 KiB of shared memory for a block.
_SM_89: Final = Ladder(
    ("matmul_fp16fp32_4096x4096x4096", "linear_bf16fp32_4096x4096x4096"),
    (
        _STOCK_DRAFT,
        Draft(
            "eight_warps",
            "Eight warps instead of four on the same tile: 64 accumulators per thread, and two blocks fit an SM.",
            _PIPELINED,
            _STOCK | {"threads": 256},
        ),
        Draft(
            "swizzled_panels",
            "Blocks in swizzled panels eight tiles wide, so that those that run at the same time share operands in L2.",
            _PIPELINED,
            _STOCK | {"threads": 256, "panel": 8},
        ),
        Draft(
            "wide_tiles",
            "128x256 tiles, one block per SM in 72 KiB: a quarter fewer bytes from L2 per flop than 128x128 tiles.",
            _PIPELINED,
            _WIDE | {"panel": 8},
        ),
    ),
)
# The families know no tensor memory: on Blackwell data-center parts they load by TMA and multiply with mma.sync.
_SM_100A: Final = Ladder(
    ("matmul_bf16fp32_8192x8192x8192", "linear_bf16fp32_4096x14336x4096"),
    (
        _STOCK_DRAFT,
        _WIDE_DRAFT,
        _PANELS_DRAFT,
        Draft(
            "deep_ring",
            "k steps of 64 in four stages, 192 KiB on the way, since TMA has to run ahead of faster tensor cores.",
            _PIPELINED,
            _WIDE_DEEP,
        ),
        Draft(
            "tma_store",
            "Store through shared memory by TMA, which writes whole rows of the tile and takes no registers.",
            _PIPELINED,
            _WIDE_DEEP | {"epilogue": "tma"},
        ),
    ),
)
_CPU: Final = Ladder(
    ("matmul_f32fp32_256x256x256", "linear_f32fp32_128x256x512"),
    (
        Draft(
            "scalar_gemm",
            "The plain kernel, T.gemm on local tiles and no compile flags: one multiplication at a time, unoptimized.",
            _SCALAR,
            {"block_M": 64, "block_N": 64, "block_K": 32},
        ),
        Draft(
            "optimizing_compiler",
            "The scalar T.gemm with -O3 -march=native: registers instead of memory, and vectors where sums allow them.",
            _SCALAR,
            {"block_M": 64, "block_N": 64, "block_K": 32, "compile_flags": _OPTIMIZED},
        ),
        Draft(
            "register_vectors",
            "A tile of C that stays in vector registers of eight lanes while all of K passes by.",
            _REGISTERS,
            {"block_M": 6, "block_N": 16, "block_K": 256, "vector_width": 8, "compile_flags": _OPTIMIZED},
        ),
        Draft(
            "sixteen_lanes",
            "Sixteen lanes instead of eight, two vectors a row: one FMA does twice the work on 512-bit registers.",
            _REGISTERS,
            {"block_M": 8, "block_N": 32, "block_K": 256, "vector_width": 16, "compile_flags": _OPTIMIZED},
        ),
    ),
)


def _sm_90a(gpu: Gpu) -> Ladder:
    """Hopper; the persistent grid has one block for each of the GPU's SMs."""
    return Ladder(
        ("matmul_bf16fp32_4096x4096x4096", "linear_bf16fp32_4096x14336x4096"),
        (
            _STOCK_DRAFT,
            Draft(
                "wide_tiles",
                "128x256x64 tiles in swizzled panels: a quarter fewer bytes from L2 per flop than 128x128 tiles.",
                _PIPELINED,
                _WIDE_DEEP,
            ),
            Draft(
                "warp_specialized",
                "Warp specialization by hand, since T.gemm waits for its WGMMA in every k step and this keeps one "
                "batch in flight.",
                _WARP_SPECIALIZED,
                _CONSUMERS,
            ),
            Draft(
                "persistent",
                "Resident blocks walk the tiles: the producer loads the next tile while the consumers store the last "
                "one.",
                _WARP_SPECIALIZED,
                _CONSUMERS | {"group_M": 16, "persistent": True, "num_sms": gpu.sms},
            ),
        ),
    )


def ladder(gpu: Gpu) -> Ladder | None:
    return {"sm_80": _SM_80, "sm_89": _SM_89, "sm_90a": _sm_90a(gpu), "sm_100a": _SM_100A, "c": _CPU}.get(gpu.arch)


def draft(problem: Problem, gpu: Gpu) -> Draft:
    """A first kernel for any problem that a family takes; raises UsageError for the others."""
    hopper = problem.operator in _HOPPER_OPERATORS
    reason = None
    if hopper:
        reason = _not_on_hopper(problem, gpu)
    elif problem.operator not in _BASELINE_OPERATORS:
        reason = f"operator '{problem.operator}'"
    elif ladder(gpu) is None:
        reason = f"architecture {gpu.arch}"
    elif gpu.is_cpu and {problem.input, problem.output} != {"float32"}:
        reason = f"{problem.input} on a CPU; use float32 throughout, as in f32fp32"
    elif not gpu.is_cpu and DTYPE_BYTES[problem.input] > 2:
        reason = f"{problem.input} inputs on a GPU; use bf16 or fp16"
    elif DTYPE_BYTES[problem.input] == 1 and gpu.arch == "sm_80":
        reason = f"{problem.input} on {gpu.arch}, whose tensor cores have no 8-bit floats"
    elif DTYPE_BYTES[problem.input] == 1 and problem.operator != "linear":
        reason = f"{problem.input} in operator {problem.operator}; use operator linear"
    if reason is not None:
        raise UsageError(f"no family in kernels/ takes {reason}")
    if hopper:
        return _hopper_draft(problem, gpu)
    return _cpu_draft(problem) if gpu.is_cpu else _gpu_draft(problem)


def _not_on_hopper(problem: Problem, gpu: Gpu) -> str | None:
    """What of such a problem no family takes; None where one takes all of it."""
    operator, inputs = problem.operator, _HOPPER_OPERATORS[problem.operator]
    if gpu.arch != "sm_90a":
        return f"operator '{operator}' on {'a CPU' if gpu.is_cpu else gpu.arch}; one does on sm_90a"
    if problem.input not in [DTYPES[each] for each in inputs]:
        return f"{problem.input} in operator {operator}; use {' or '.join(inputs)}"
    if operator.endswith("scaledlinear"):
        rows, columns, depth = problem.dims
        pitches = [depth * DTYPE_BYTES[problem.input], columns * DTYPE_BYTES[problem.output]]
        if any(pitch % 16 for pitch in pitches) or (operator == "blockscaledlinear" and rows % 4):
            return f"{problem}, whose rows are not all multiples of 16 bytes, as TMA needs them"
    return None


def _hopper_draft(problem: Problem, gpu: Gpu) -> Draft:
    """What the ladders of an H200 began to climb with."""
    if problem.operator == "scaledlinear":
        width = DTYPE_BYTES[problem.input]
        config = _CONSUMERS | {"block_N": 192, "block_K": 128 // width, "epilogue": "direct"}
        return Draft(
            "warp_specialized",
            "Warp specialization by hand on 128x192 tiles, whose sums are scaled in registers.",
            _WARP_SPECIALIZED,
            config | {"promote_steps": 4 if width == 1 else 0},
        )
    if problem.operator == "blockscaledlinear":
        return Draft(
            "warp_specialized",
            "Warp specialization by hand: one consumer group scales and adds while the other's products are made.",
            _BLOCK_SCALED,
            _SCALED_BLOCKS | {"num_sms": gpu.sms},
        )
    return _ATTENTION_DRAFT


def _gpu_draft(problem: Problem) -> Draft:
    """The stock kernel: it handles ragged sizes, and small ones get a smaller tile."""
    rows, columns, _ = problem.dims
    config = _STOCK | {
        "block_M": 64 if rows <= 64 else 128,
        "block_N": 64 if columns <= 64 else 128,
        "block_K": 64 // DTYPE_BYTES[problem.input],
    }
    return Draft(_STOCK_DRAFT.tag, _STOCK_DRAFT.idea, _PIPELINED, config)


def _cpu_draft(problem: Problem) -> Draft:
    """Register tiles, whose block sizes must divide N and K."""
    _, columns, depth = problem.dims
    lanes = next(width for width in (16, 8, 4, 1) if columns % width == 0)
    config: dict[str, object] = {
        "block_M": 8,
        "block_N": 2 * lanes if columns % (2 * lanes) == 0 else lanes,
        "block_K": next(size for size in range(min(depth, 512), 0, -1) if depth % size == 0),
        "vector_width": lanes,
        "compile_flags": _OPTIMIZED,
    }
    return Draft("register_tiles", "A tile of C in vector registers while all of K passes by.", _REGISTERS, config)
