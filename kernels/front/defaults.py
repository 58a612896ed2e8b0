"""Defaults: a family and levers for an unmeasured problem, by architecture and shape."""

import math
import os
from collections.abc import Callable
from typing import Final

import torch

from harness.judge.facts.problem import DTYPE_BYTES, Problem
from kernels.front.arguments import CAUSAL, SECOND
from kernels.front.candidates import Tile, choice_of, tile_with
from kernels.front.choice import Choice, library
from kernels.front.library import library_tile
from kernels.front.model import LOSS, fill, model
from kernels.front.places import Place
from kernels.operands import ceildiv

LEAST_FILL: Final = 0.8  # of all SMs over all waves, in useful elements of C
TMA_PITCH_BYTES: Final = 16

CPU_FLOPS_MAX: Final = 1 << 24  # for one core, where torch has more than CPU_THREADS
CPU_THREADS: Final = 2
CPU_PANEL: Final = 512
CPU_LEAST_PANEL: Final = 32
CPU_ROWS_LEAST: Final = 8
_OPTIMIZED: Final = ("-O3", "-march=native")

# Widths of Q and K, and of V, with the fewest tokens at which the kernel was measured ahead. On an H200 heads 256 wide
# had 1.06 at 1,100 tokens with a causal mask, and 0.82 at 421.
ATTENTION_TOKENS_LEAST: Final = {(64, 64): 256, (128, 128): 256, (192, 128): 256, (256, 256): 1024}
ATTENTION_ROWS: Final = 128  # queries of a tile
ATTENTION_TILES_MAX: Final = 1 << 13  # a causal kernel holds a table of them
_PIPELINED: Final = "kernels.gemm.pipelined"


# These are unmeasured. They build, and fit the shared memory of a block. On Hopper their family has half the library's
# speed, so a variable of the environment must ask for them.
UNMEASURED: Final = "TILEBENCH_UNMEASURED"
MEASURED_HOPPER: Final = "h200"
_AMPERE: Final = tile_with(_PIPELINED, 128, 256, 64, 3, threads=256, panel=8)
_ADA: Final = tile_with(_PIPELINED, 128, 128, 32, 3, threads=256, panel=8)
_BLACKWELL: Final = tile_with(_PIPELINED, 128, 256, 64, 4, threads=256, panel=8, epilogue="tma")
ONLY_TILES: Final = {"sm_80": _AMPERE, "sm_86": _ADA, "sm_89": _ADA, "sm_100a": _BLACKWELL}


def default(problem: Problem, where: Place) -> Choice:
    """A choice for any problem: the library where no family takes it, or where none is likely to be faster."""
    if 0 in problem.dims:
        return library("nothing to compute")
    if where.arch is None:
        return library("no family is built for this architecture")
    if problem.operator in CAUSAL:
        return _attention(problem, where)
    if problem.operator not in SECOND:
        return library("only matmul, linear and attention have defaults")
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
    """The candidate that the model of this GPU is sure of, by its records' spread; else the library."""
    reason = refused(problem)
    if reason is not None:
        return library(reason)
    measured = model(where.key) or (model(MEASURED_HOPPER) if os.environ.get(UNMEASURED) else None)
    if measured is None:
        return library(f"nothing is measured on this GPU; {UNMEASURED}=1 takes what an {MEASURED_HOPPER.upper()} would")
    found = measured.best(problem, library_tile(problem, where.device))
    if found is None:
        return library("no record is near this shape")
    said = f"{found.ratio:.2f} of the library's speed expected, at least {found.low:.2f}"
    if found.low < LOSS:
        return library(f"{found.name} may be slower: {said}")
    return choice_of(found.name, problem, where.sms, f"{found.name}, default for {where.arch}, {said}")


def _attention(problem: Problem, where: Place) -> Choice:
    """Each width, short and ragged lengths too, was measured ahead of the library, on an H200 and on H100s."""
    batch, heads, _, tokens, depth, width = problem.dims
    if where.arch != "sm_90a" or problem.input not in ("bfloat16", "float16"):
        return library(f"no attention family takes {problem.input} on {where.arch}")
    if tokens < ATTENTION_TOKENS_LEAST.get((depth, width), math.inf):
        return library(f"no attention of {tokens} tokens, {depth} and {width} wide, was measured to be faster")
    tiles = batch * heads * ceildiv(tokens, ATTENTION_ROWS)
    fill = tiles / (ceildiv(tiles, where.sms) * where.sms)
    if fill < LEAST_FILL or tiles > ATTENTION_TILES_MAX:
        return library(f"{tiles} tiles of {ATTENTION_ROWS} queries are too few, or too many, for {where.sms} SMs")
    why = f"default for {where.arch}, {fill:.0%} of {where.sms} SMs filled"
    return choice_of(_softmax(problem), problem, where.sms, why)


def _softmax(problem: Problem) -> str:
    """Kept maxima led on 64 drawn problems; without a mask a heavy weight is exact, as the library's is."""
    depth = problem.dims[4]
    if depth == 256:
        return "late80"
    return f"kept{depth}" if CAUSAL[problem.operator] else f"exact{depth}"


def _only(tile: Tile) -> Callable[[Problem, Place], Choice]:
    """One tile for all that it fills; not measured on any GPU of its architecture."""

    def chosen(problem: Problem, where: Place) -> Choice:
        if not os.environ.get(UNMEASURED):
            return library(f"nothing is measured on {where.arch}; {UNMEASURED}=1 takes a kernel that builds there")
        return _filling(problem, where, tile)

    return chosen


def _filling(problem: Problem, where: Place, tile: Tile) -> Choice:
    """The tile, where it fills the SMs; the library where it does not, or a row pitch rules out TMA."""
    reason = refused(problem)
    if reason is not None:
        return library(reason)
    filled = fill(tile, problem, where.sms)
    if filled < LEAST_FILL:
        return library(f"tiles of {tile.shape[0]}x{tile.shape[1]} would fill {filled:.0%} of {where.sms} SMs")
    return Choice(f"default for {where.arch}, {filled:.0%} of {where.sms} SMs filled", tile.family, tile.levers)


def refused(problem: Problem) -> str | None:
    """Why no family on a GPU takes a product."""
    size = DTYPE_BYTES[problem.input]
    if size != 2:
        return f"the GPU families take bfloat16 and float16, not {problem.input}"
    odd = [shape[-1] for shape, _ in problem.tensors if shape[-1] * size % TMA_PITCH_BYTES]
    return f"rows of {odd[0]} are no multiple of {TMA_PITCH_BYTES} bytes" if odd else None


_BY_ARCHITECTURE: Final[dict[str, Callable[[Problem, Place], Choice]]] = {
    "c": _cpu,
    "sm_90a": _hopper,
    **{arch: _only(tile) for arch, tile in ONLY_TILES.items()},
}
