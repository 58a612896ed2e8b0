"""The stock kernel as trees of scripts have it: a lazy function, called by its own verify() and bench()."""

import tilelang
import tilelang.language as T
import torch

M, N, K = 2048, 2048, 2048
BLOCK_M, BLOCK_N, BLOCK_K = 128, 256, 64


@tilelang.jit(out_idx=[-1], pass_configs={"tl.disable_safe_memory_legalize": False})
def matmul(M, N, K, block_M, block_N, block_K, num_stages=3, threads=256, dtype="bfloat16", accum_dtype="float32"):
    @T.prim_func
    def gemm(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return gemm


def _inputs():
    return (torch.randn(size, device="cuda", dtype=torch.bfloat16) for size in ((M, K), (K, N)))


def verify():
    a, b = _inputs()
    close = torch.allclose(matmul(M, N, K, BLOCK_M, BLOCK_N, BLOCK_K)(a, b), a @ b, atol=1.0, rtol=0.1)
    print("VERIFY:", "PASS" if close else "FAIL")


def bench():
    a, b = _inputs()
    kernel = matmul(M, N, K, BLOCK_M, BLOCK_N, BLOCK_K)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(100):
        kernel(a, b)
    end.record()
    torch.cuda.synchronize()
    time_ms = start.elapsed_time(end) / 100
    print(f"TFLOPS: {2 * M * N * K / time_ms / 1e9:.4f} time_ms: {time_ms:.6f}")


if __name__ == "__main__":
    verify()
    bench()
