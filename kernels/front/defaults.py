"""Defaults: a family and levers for a problem that nobody measured, by architecture and shape."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import torch

from harness.judge.facts.problem import DTYPE_BYTES, Problem
from kernels.front.arguments import CAUSAL
from kernels.front.choice import Choice, library
from kernels.front.places import Place
from kernels.operands import ceildiv

LEAST_FILL: Final = 0.8  # of all SMs over all waves, in useful elements of C; below it the library, which can split K
TMA_PITCH_BYTES: Final = 16

CPU_FLOPS_MAX: Final = 1 << 24  # for one core, where torch has more than CPU_THREADS
CPU_THREADS: Final = 2
CPU_PANEL: Final = 512
CPU_LEAST_PANEL: Final = 32
CPU_ROWS_LEAST: Final = 8
_OPTIMIZED: Final = ("-O3", "-march=native")

ATTENTION_WIDTHS: Final = ((128, 128), (192, 128))  # of Q and K, and of V
ATTENTION_TOKENS_LEAST: Final = 1024
ATTENTION_TOKENS_LONG: Final = 2048
ATTENTION_ROWS: Final = 128  # queries of a tile
ATTENTION_TILES_MAX: Final = 1 << 13  # a causal kernel holds a table of them
ATTENTION_KEYS_AT_ONCE: Final = 1 << 15  # of heads at work, with their values in L2
_FLASH_ATTENTION: Final = "kernels.flash_attention.forward"
_WARP_SPECIALIZED: Final = "kernels.gemm.warp_specialized"
_PING_PONG: Final = "kernels.gemm.ping_pong"
_PIPELINED: Final = "kernels.gemm.pipelined"


@dataclass(frozen=True, slots=True)
class Tile:
    """A family with levers, and the tile of C that a block computes at a time."""

    family: str
    levers: Mapping[str, Any]
    one_wave: bool = False  # for problems whose tiles all run at once

    @property
    def shape(self) -> tuple[int, int]:
        return self.levers["block_M"], self.levers["block_N"]


def _hopper_tile(block_N: int) -> Tile:
    return Tile(
        _WARP_SPECIALIZED,
        {
            "block_M": 128,
            "block_N": block_N,
            "block_K": 64,
            "num_stages": 4,
            "consumer_groups": 2,
            "group_M": 16,
            "persistent": True,
            "wgmma_in_flight": 0,
        },
    )


# What led the ladders of an H200: 256 wide from 2048 cubed on, 192 where that fills the waves better, at 1024 cubed a
# tile a block.
_HOPPER: Final = (
    _hopper_tile(256),
    _hopper_tile(192),
    Tile(
        _WARP_SPECIALIZED,
        {"block_M": 128, "block_N": 64, "block_K": 64, "num_stages": 8, "consumer_groups": 2, "persistent": False},
        one_wave=True,
    ),
)
# The epilogue weighs where K is short: two consumer groups in turns, one of which stores while the other multiplies.
_HOPPER_SHORT: Final = Tile(
    _PING_PONG,
    {"block_M": 128, "block_N": 192, "block_K": 64, "num_stages": 4, "group_M": 32},
)
SHORT_K: Final = 512
# W is read once, and bandwidth is the limit: as many bytes on the way as fit, not all from the same channels at once.
_HOPPER_SKINNY: Final = Tile(
    _WARP_SPECIALIZED,
    {
        "block_M": 64,
        "block_N": 64,
        "block_K": 128,
        "num_stages": 6,
        "consumer_groups": 1,
        "cluster_N": 2,
        "group_M": 1,
        "persistent": False,
        "stagger": 2,
    },
)
SKINNY_ROWS: Final = range(16, 65)

# Nobody measured these; they build, and fit the shared memory of a block. On Hopper their family has half the library's
# speed, so they are taken only where somebody says so.
UNMEASURED: Final = "TILEBENCH_UNMEASURED"
_AMPERE: Final = Tile(
    _PIPELINED,
    {"block_M": 128, "block_N": 256, "block_K": 64, "num_stages": 3, "threads": 256, "panel": 8},
)
_ADA: Final = Tile(
    _PIPELINED,
    {"block_M": 128, "block_N": 128, "block_K": 32, "num_stages": 3, "threads": 256, "panel": 8},
)
_BLACKWELL: Final = Tile(
    _PIPELINED,
    {
        "block_M": 128,
        "block_N": 256,
        "block_K": 64,
        "num_stages": 4,
        "threads": 256,
        "panel": 8,
        "epilogue": "tma",
    },
)


def default(problem: Problem, where: Place) -> Choice:
    """A choice for any problem: the library where no family takes it, or where none is likely to be faster."""
    if 0 in problem.dims:
        return library("nothing to compute")
    if where.arch is None:
        return library("no family is built for this architecture")
    if problem.operator in CAUSAL:
        return _attention(problem, where)
    return _BY_ARCHITECTURE[where.arch](problem, where)


def _cpu(problem: Problem, where: Place) -> Choice:
    """Register tiles on one core, for float32, where vectors fill the rows and panels the depth."""
    M, N, K = problem.dims
    if problem.input != "float32":
        return library(f"the CPU families take float32, not {problem.input}")
    # (lanes, rows of the tile, vectors in a row): (rows + 1) x vectors fit the register file.
    registers = {"AVX512": (16, 8, 2), "AVX2": (8, 6, 2)}.get(torch.backends.cpu.get_cpu_capability())
    if registers is None:
        return library("no register tile was chosen for this instruction set")
    lanes, rows, vectors = registers
    panel = next(size for size in range(min(K, CPU_PANEL), 0, -1) if K % size == 0)
    if N % lanes or panel < min(K, CPU_LEAST_PANEL):
        return library(f"N={N} in vectors of {lanes}, or K={K} in panels, leaves a rest")
    if M < CPU_ROWS_LEAST:
        return library(f"M={M} rows use a packed panel too seldom")
    if torch.get_num_threads() > CPU_THREADS and problem.flops > CPU_FLOPS_MAX:
        return library(f"torch has {torch.get_num_threads()} threads, the family one")
    levers = {
        "block_M": rows,
        "block_N": lanes * (vectors if N % (lanes * vectors) == 0 else 1),
        "block_K": panel,
        "vector_width": lanes,
        "compile_flags": _OPTIMIZED,
    }
    return Choice("default for one core", "kernels.cpu.register_blocked", levers)


def _hopper(problem: Problem, where: Place) -> Choice:
    """The tile that keeps most of the SMs at useful work, the wider of two that do it alike."""
    M, _, K = problem.dims
    if problem.operator == "linear" and M in SKINNY_ROWS:
        return _filling(problem, where, (_HOPPER_SKINNY,), rows=64)
    if K <= SHORT_K:
        short = _filling(problem, where, (_HOPPER_SHORT,))
        if short.family is not None:
            return replace(short, levers={**short.levers, "num_sms": where.sms})
    chosen = _filling(problem, where, _HOPPER)
    if not chosen.levers.get("persistent"):
        return chosen
    return replace(chosen, levers={**chosen.levers, "num_sms": where.sms})


def _attention(problem: Problem, where: Place) -> Choice:
    """What led the ladders of an H200, for widths and lengths like those."""
    batch, heads, shared, tokens, depth, width = problem.dims
    causal, wide = CAUSAL[problem.operator], depth > width
    ahead = not wide and (causal or tokens < ATTENTION_TOKENS_LONG)
    if where.arch != "sm_90a" or problem.input not in ("bfloat16", "float16"):
        return library(f"no attention family takes {problem.input} on {where.arch}")
    if (depth, width) not in ATTENTION_WIDTHS or tokens < ATTENTION_TOKENS_LEAST:
        return library(f"no attention of {tokens} tokens, {depth} and {width} wide, was measured to be faster")
    tiles = batch * heads * ceildiv(tokens, ATTENTION_ROWS)
    fill = tiles / (ceildiv(tiles, where.sms) * where.sms)
    if fill < LEAST_FILL or tiles > ATTENTION_TILES_MAX:
        return library(f"{tiles} tiles of {ATTENTION_ROWS} queries are too few, or too many, for {where.sms} SMs")
    most = min(heads, max(1, ATTENTION_KEYS_AT_ONCE // tokens)) if causal else heads // shared
    levers = {
        "block_N": 128 if ahead or wide else 176,
        "ahead": ahead,
        "rescale_first": wide,
        "epilogue_buffers": 2 if ahead else 1,
        "heads_at_once": next(each for each in range(most, 0, -1) if batch * heads % each == 0),
        "num_sms": where.sms,
    }
    return Choice(f"default for {where.arch}, {fill:.0%} of {where.sms} SMs filled", _FLASH_ATTENTION, levers)


def _only(tile: Tile) -> Callable[[Problem, Place], Choice]:
    """One tile for all that it fills; not measured on any GPU of its architecture."""

    def chosen(problem: Problem, where: Place) -> Choice:
        if not os.environ.get(UNMEASURED):
            return library(f"nothing is measured on {where.arch}; {UNMEASURED}=1 takes a kernel that builds there")
        return _filling(problem, where, (tile,))

    return chosen


def _filling(problem: Problem, where: Place, tiles: tuple[Tile, ...], rows: int | None = None) -> Choice:
    """The tile with the highest fill; the library where none fills the SMs, or a row pitch rules out TMA."""
    refused = _refused(problem)
    if refused is not None:
        return library(refused)
    fill, tile = max(((_fill(problem, each, where.sms, rows), each) for each in tiles), key=lambda pair: pair[0])
    if fill < LEAST_FILL:
        return library(f"tiles of {tile.shape[0]}x{tile.shape[1]} would fill {fill:.0%} of {where.sms} SMs")
    return Choice(f"default for {where.arch}, {fill:.0%} of {where.sms} SMs filled", tile.family, tile.levers)


def _refused(problem: Problem) -> str | None:
    size = DTYPE_BYTES[problem.input]
    if size != 2:
        return f"the GPU families take bfloat16 and float16, not {problem.input}"
    odd = [shape[-1] for shape, _ in problem.tensors if shape[-1] * size % TMA_PITCH_BYTES]
    return f"rows of {odd[0]} are no multiple of {TMA_PITCH_BYTES} bytes" if odd else None


def _fill(problem: Problem, tile: Tile, sms: int, rows: int | None) -> float:
    """Useful elements of C over those that the waves have room for; of ``rows`` at least, where memory decides."""
    M, N, _ = problem.dims
    block_M, block_N = tile.shape
    tiles = ceildiv(M, block_M) * ceildiv(N, block_N)
    if tile.one_wave and tiles > sms:
        return 0.0
    return max(M, rows or 0) * N / (ceildiv(tiles, sms) * sms * block_M * block_N)


_BY_ARCHITECTURE: Final[dict[str, Callable[[Problem, Place], Choice]]] = {
    "c": _cpu,
    "sm_80": _only(_AMPERE),
    "sm_86": _only(_ADA),
    "sm_89": _only(_ADA),
    "sm_90a": _hopper,
    "sm_100a": _only(_BLACKWELL),
}
