"""Matrix product in tiles by T.gemm, which multiplies one element at a time on a CPU."""

import tilelang.cpu.language as T

from harness.iteration import Problem, Program
from kernels.cpu.operands import CpuOperands
from kernels.operands import require

LOCAL_BYTES_MAX = 1 << 20  # local tiles live on the stack


def scalar_gemm(
    problem: Problem, *, block_M: int, block_N: int, block_K: int, compile_flags: tuple[str, ...] = ()
) -> Program:
    """The kernel as a GPU user would write it: copy tiles, T.gemm, copy the result back.

    On target ``c`` T.gemm is a triple loop with K innermost over the local tiles. Without flags the C++ compiler
    does not optimize at all. With ``-O3 -march=native`` it swaps and vectorizes the loops for ``matmul``. It vectorizes
    the sums of ``linear``, contiguous in K, only if ``-ffast-math`` lets it reorder them.

    Levers: the tile (it should stay in the L1 cache) and ``compile_flags``.
    Limits: the block sizes divide M, N and K.
    Reached on one core with AVX-512, in GFLOPS: 0.7 without flags, 44 with them.
    """
    operands = CpuOperands.of(problem)
    transpose_B = operands.transpose_B
    N, K = operands.N, operands.K
    for dimension, block in (("M", block_M), ("N", block_N), ("K", block_K)):
        operands.require_whole(dimension, block)
    local_bytes = 4 * (block_M * block_K + block_K * block_N + block_M * block_N)
    require(
        local_bytes <= LOCAL_BYTES_MAX,
        f"tiles of {block_M}x{block_N}x{block_K} take {local_bytes} bytes of stack, more than {LOCAL_BYTES_MAX}",
    )
    B_tile = operands.B_tile(block_N, block_K)

    @T.prim_func
    def main(
        A: T.Tensor(operands.A_shape, "float32"),
        B: T.Tensor(operands.B_shape, "float32"),
        C: T.Tensor(operands.C_shape, "float32"),
    ):
        with T.Kernel(N // block_N, operands.M // block_M) as (bn, bm):
            A_local = T.alloc_local((block_M, block_K), "float32")
            B_local = T.alloc_local(B_tile, "float32")
            C_local = T.alloc_local((block_M, block_N), "float32")
            T.clear(C_local)
            for bk in T.serial(K // block_K):
                T.copy(A[bm * block_M, bk * block_K], A_local)
                if transpose_B:
                    T.copy(B[bn * block_N, bk * block_K], B_local)
                else:
                    T.copy(B[bk * block_K, bn * block_N], B_local)
                T.gemm(A_local, B_local, C_local, transpose_B=transpose_B)
            T.copy(C_local, C[bm * block_M, bn * block_N])

    return Program(main, compile_flags=compile_flags)
