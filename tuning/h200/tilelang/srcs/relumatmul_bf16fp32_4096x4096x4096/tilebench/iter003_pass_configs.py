"""The compilers' levers beside the kernel's: no guards around memory that is never left, fast math for nvcc."""

import tilelang
import tilelang.language as T

from harness.iteration import Problem, bench_with, main, verify_with

PARENT = "iter001_prim_func"
CONFIG = dict(
    block_M=128,
    block_N=128,
    block_K=64,
    num_stages=3,
    threads=256,
    pass_configs={"tl.disable_warp_specialized": True, "tl.disable_safe_memory_legalize": True},
    compile_flags=("--use_fast_math",),
)


def build(problem: Problem) -> object:
    M, N, K = problem.dims
    block_M, block_N, block_K = CONFIG["block_M"], CONFIG["block_N"], CONFIG["block_K"]
    stages, threads = CONFIG["num_stages"], CONFIG["threads"]

    @T.prim_func
    def kernel(A: T.Tensor((M, K), "bfloat16"), B: T.Tensor((K, N), "bfloat16"), C: T.Tensor((M, N), "bfloat16")):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bn, bm):
            A_shared = T.alloc_shared((block_M, block_K), "bfloat16")
            B_shared = T.alloc_shared((block_K, block_N), "bfloat16")
            A_local = T.alloc_fragment((block_M, block_K), "bfloat16")
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
                T.copy(A[bm * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bn * block_N], B_shared)
                T.copy(A_shared, A_local)
                for i, j in T.Parallel(block_M, block_K):
                    A_local[i, j] = T.max(A_local[i, j], T.bfloat16(0))
                T.gemm(A_local, B_shared, C_local)
            T.copy(C_local, C[bm * block_M, bn * block_N])

    return tilelang.compile(
        kernel, pass_configs=CONFIG["pass_configs"], compile_flags=list(CONFIG["compile_flags"])
    )


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
