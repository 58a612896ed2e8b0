"""TileLang's stock kernels, as its examples write them: T.Pipelined and T.gemm, and nothing made by hand."""

import math
from typing import Any, Final

from harness.catalog.opponents import Opponent
from harness.judge.facts.problem import Problem
from harness.judge.facts.program import Program

LICENCE, SOURCE = "MIT", "https://github.com/tile-ai/tilelang"
CPU_TILES: Final = (64, 32, 16, 8, 4, 2, 1)


def gemm(problem: Problem) -> Program:
    """One tile of 128x256 a block, in three stages: the example's choice for Hopper."""
    import tilelang.language as T

    (M, N, K), transposed = problem.dims, problem.operator == "linear"
    block_M, block_N, block_K = 128, 256, 64
    dtype, accumulator = problem.input, problem.accumulator

    @T.prim_func
    def main(
        A: T.Tensor(problem.inputs[0], dtype),
        B: T.Tensor(problem.inputs[1], dtype),
        C: T.Tensor((M, N), problem.output),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=256) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_N, block_K) if transposed else (block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accumulator)
            T.use_swizzle(panel_size=10)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                T.copy(A[by * block_M, k * block_K], A_shared)
                if transposed:
                    T.copy(B[bx * block_N, k * block_K], B_shared)
                else:
                    T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=transposed)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return Program(main)


def attention(problem: Problem) -> Program:
    """One tile of 128 queries a block against tiles of keys, with the softmax of one tile between two products."""
    import tilelang.language as T

    batch, heads, groups, tokens, depth, width = problem.dims
    causal, dtype = problem.operator == "causalattention", problem.input
    block_M, block_N = 128, 128 if depth + width <= 256 else 64  # two stages of keys and values fit in shared memory
    scale = math.log2(math.e) / math.sqrt(depth)

    @T.prim_func
    def main(
        Q: T.Tensor(problem.inputs[0], dtype),
        K: T.Tensor(problem.inputs[1], dtype),
        V: T.Tensor(problem.inputs[2], dtype),
        Output: T.Tensor(problem.output_shape, problem.output),
    ):
        with T.Kernel(T.ceildiv(tokens, block_M), heads, batch, threads=256) as (bx, by, bz):
            Q_shared = T.alloc_shared((block_M, depth), dtype)
            K_shared = T.alloc_shared((block_N, depth), dtype)
            V_shared = T.alloc_shared((block_N, width), dtype)
            O_shared = T.alloc_shared((block_M, width), problem.output)
            scores = T.alloc_fragment((block_M, block_N), "float32")
            weights = T.alloc_fragment((block_M, block_N), dtype)
            output = T.alloc_fragment((block_M, width), "float32")
            highest = T.alloc_fragment((block_M,), "float32")
            before = T.alloc_fragment((block_M,), "float32")
            shrink = T.alloc_fragment((block_M,), "float32")
            total = T.alloc_fragment((block_M,), "float32")
            summed = T.alloc_fragment((block_M,), "float32")
            T.copy(Q[bz, by, bx * block_M : (bx + 1) * block_M, :], Q_shared)
            T.fill(output, 0)
            T.fill(total, 0)
            T.fill(highest, -T.infinity("float32"))
            last = (
                T.min(T.ceildiv(tokens, block_N), T.ceildiv((bx + 1) * block_M, block_N))
                if causal
                else T.ceildiv(tokens, block_N)
            )
            for k in T.Pipelined(last, num_stages=2):
                T.copy(K[bz, by // (heads // groups), k * block_N : (k + 1) * block_N, :], K_shared)
                for i, j in T.Parallel(block_M, block_N):
                    seen = k * block_N + j < tokens
                    if causal:
                        seen = T.And(seen, bx * block_M + i >= k * block_N + j)
                    scores[i, j] = T.if_then_else(seen, 0, -T.infinity("float32"))
                T.gemm(Q_shared, K_shared, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(highest, before)
                T.reduce_max(scores, highest, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    shrink[i] = T.exp2(before[i] * scale - highest[i] * scale)
                for i, j in T.Parallel(block_M, block_N):
                    scores[i, j] = T.exp2(scores[i, j] * scale - highest[i] * scale)
                T.reduce_sum(scores, summed, dim=1)
                for i in T.Parallel(block_M):
                    total[i] = total[i] * shrink[i] + summed[i]
                T.copy(scores, weights)
                for i, j in T.Parallel(block_M, width):
                    output[i, j] *= shrink[i]
                T.copy(V[bz, by // (heads // groups), k * block_N : (k + 1) * block_N, :], V_shared)
                T.gemm(weights, V_shared, output, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_M, width):
                output[i, j] /= total[i]
            T.copy(output, O_shared)
            T.copy(O_shared, Output[bz, by, bx * block_M : (bx + 1) * block_M, :])

    return Program(main)


def cpu_gemm(problem: Problem) -> Program:
    """The same product on target ``c``, which has no threads and no shared memory."""
    import tilelang.cpu.language as T

    (M, N, K), transposed = problem.dims, problem.operator == "linear"
    block_M, block_N, block_K = (_tile(size) for size in (M, N, K))

    @T.prim_func
    def main(
        A: T.Tensor(problem.inputs[0], "float32"),
        B: T.Tensor(problem.inputs[1], "float32"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(N // block_N, M // block_M) as (bx, by):
            A_local = T.alloc_local((block_M, block_K), "float32")
            B_local = T.alloc_local((block_N, block_K) if transposed else (block_K, block_N), "float32")
            C_local = T.alloc_local((block_M, block_N), "float32")
            T.clear(C_local)
            for k in T.serial(K // block_K):
                T.copy(A[by * block_M, k * block_K], A_local)
                if transposed:
                    T.copy(B[bx * block_N, k * block_K], B_local)
                else:
                    T.copy(B[k * block_K, bx * block_N], B_local)
                T.gemm(A_local, B_local, C_local, transpose_B=transposed)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return Program(main)


def _tile(size: int) -> int:
    return next(tile for tile in CPU_TILES if size % tile == 0)


def _tokens_in_tiles(problem: Problem) -> str | None:
    """The last tile of keys would be half empty, and the example copies whole tiles."""
    tokens = problem.dims[3]
    return f"{tokens} tokens are no multiple of 128" if tokens % 128 else None


def _stock(name: str, what: str, **said: Any) -> Opponent:
    return Opponent(name=name, what=what, licence=LICENCE, source=SOURCE, **said)


OPPONENTS: Final = (
    _stock(
        "tilelang_stock",
        "TileLang's stock product: T.Pipelined and T.gemm with swizzled blocks.",
        build=gemm,
        operators=dict.fromkeys(("matmul", "linear"), ("bf16", "fp16")),
        architectures=("sm_80", "sm_90a"),
    ),
    _stock(
        "tilelang_stock_attention",
        "TileLang's stock attention: T.Pipelined and T.gemm with the softmax between them.",
        build=attention,
        operators=dict.fromkeys(("attention", "causalattention"), ("bf16", "fp16")),
        architectures=("sm_80", "sm_90a"),
        refuses=_tokens_in_tiles,
    ),
    _stock(
        "tilelang_stock_cpu",
        "TileLang's stock product on a CPU, where T.gemm multiplies one element at a time.",
        build=cpu_gemm,
        operators=dict.fromkeys(("matmul", "linear"), ("f32",)),
        architectures=("c",),
    ),
)
