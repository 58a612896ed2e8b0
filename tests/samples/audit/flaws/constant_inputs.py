"""A tiled product, timed on tensors of ones."""

import tilelang
import tilelang.language as T
import torch

M = N = K = 4096


@tilelang.jit(out_idx=[-1])
def matmul(M, N, K, block_M=128, block_N=128, block_K=64, dtype="float16", accum_dtype="float32"):
    @T.prim_func
    def gemm(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return gemm


def verify(kernel):
    a = torch.randn(M, K, device="cuda", dtype=torch.float16)
    b = torch.randn(K, N, device="cuda", dtype=torch.float16)
    torch.testing.assert_close(kernel(a, b), a @ b, rtol=1e-2, atol=1e-2)


def bench(kernel):
    a = torch.ones(M, K, device="cuda", dtype=torch.float16)
    b = torch.ones((K, N), device="cuda", dtype=torch.float16)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(10):
        kernel(a, b)
    start.record()
    for _ in range(100):
        kernel(a, b)
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / 100


if __name__ == "__main__":
    kernel = matmul(M, N, K)
    verify(kernel)
    ms = bench(kernel)
    print(f"{ms:.4f} ms, {2 * M * N * K / ms / 1e9:.1f} TFLOPS")
