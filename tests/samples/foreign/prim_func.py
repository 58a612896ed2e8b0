"""A PrimFunc that its own functions compile, check and time; __main__ must not run while it is judged."""

import time

import tilelang
import tilelang.cpu.language as T
import torch

M, N, K = 32, 32, 32


@T.prim_func
def matmul(A: T.Tensor((M, K), "float32"), B: T.Tensor((K, N), "float32"), C: T.Tensor((M, N), "float32")):
    with T.Kernel(1):
        for i, j in T.grid(M, N):
            C[i, j] = 0.0
            for k in T.serial(K):
                C[i, j] += A[i, k] * B[k, j]


def verify():
    kernel = tilelang.compile(matmul, out_idx=[2], target="c", compile_flags=["-O1"])
    a, b = torch.randn(M, K), torch.randn(K, N)
    torch.testing.assert_close(kernel(a, b), a @ b, atol=1e-2, rtol=1e-2)
    print("VERIFY: PASS")


def bench():
    kernel = tilelang.compile(matmul, out_idx=-1, target="c", compile_flags=["-O1"])
    a, b = torch.randn(M, K), torch.randn(K, N)
    started = time.perf_counter()
    for _ in range(100):
        kernel(a, b)
    time_ms = (time.perf_counter() - started) * 10
    print(f"TFLOPS: {2 * M * N * K / time_ms / 1e9:.4f} time_ms: {time_ms:.4f}")


if __name__ == "__main__":
    raise SystemExit("run as a script")
