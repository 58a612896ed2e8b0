"""Events around a loop that takes other inputs in each turn."""

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

COPIES = 8


def inputs():
    a = torch.randn(COPIES, M, K, device="cuda", dtype=torch.float16)
    b = torch.randn(COPIES, K, N, device="cuda", dtype=torch.float16)
    return a, b


def verify(kernel):
    a, b = inputs()
    c = kernel(a[0], b[0])
    ref = (a[0].float() @ b[0].float()).half()
    ok = torch.allclose(c, ref, rtol=1e-2, atol=1e-2)
    print("VERIFY:", "PASS" if ok else "FAIL")
    return ok


def bench(kernel, rounds=100):
    a, b = inputs()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for turn in range(10):
        kernel(a[turn % COPIES], b[turn % COPIES])
    start.record()
    for turn in range(rounds):
        kernel(a[turn % COPIES], b[turn % COPIES])
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / rounds


if __name__ == "__main__":
    kernel = matmul(M, N, K)
    if verify(kernel):
        ms = bench(kernel)
        print(f"TFLOPS: {2 * M * N * K / ms / 1e9:.2f} time_ms: {ms:.4f}")
