"""The kernel writes into a tensor that it is given, which begins with zeros."""

import argparse

import tilelang
import tilelang.language as T
import torch



@tilelang.jit
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

def cold_bench(kernel, a, b, c, rounds):
    cache = torch.zeros(64 << 20, device="cuda")
    total = 0.0
    for _ in range(3):
        kernel(a, b, c)
    for _ in range(rounds):
        cache.fill_(1)
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        kernel(a, b, c)
        end.record()
        end.synchronize()
        total += start.elapsed_time(end)
    return total / rounds


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--m", type=int, default=1024)
    parser.add_argument("--n", type=int, default=1024)
    parser.add_argument("--k", type=int, default=2048)
    args = parser.parse_args()
    m, n, k = args.m, args.n, args.k
    a = torch.empty(m, k, device="cuda", dtype=torch.float16).normal_()
    b = torch.empty(k, n, device="cuda", dtype=torch.float16).uniform_(-1, 1)
    c = torch.zeros(m, n, device="cuda", dtype=torch.float16)
    kernel = matmul(m, n, k)
    kernel(a, b, c)
    error = (c - a @ b).abs().max().item()
    print("Max error:", error)
    assert error < 1e-2 * k**0.5
    time_ms = cold_bench(kernel, a, b, c, 100)
    print(f"time_ms: {time_ms:.4f} TFLOPS: {2 * m * n * k / time_ms / 1e9:.1f}")


if __name__ == "__main__":
    main()
