"""A lazy function that a test calls with parametrized sizes."""

import pytest
import tilelang
import tilelang.cpu.language as T
import torch


@tilelang.jit(target="c")
def matmul(M, N, K, rows):
    @T.prim_func
    def kernel(A: T.Tensor((M, K), "float32"), B: T.Tensor((K, N), "float32"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(M, rows)) as bx:
            for i, j in T.grid(rows, N):
                C[bx * rows + i, j] = 0.0
                for k in T.serial(K):
                    C[bx * rows + i, j] += A[bx * rows + i, k] * B[k, j]

    return kernel


@pytest.mark.parametrize("rows", [8, 16])
@pytest.mark.parametrize(("M", "N", "K"), [(32, 32, 32), (64, 64, 64)])
def test_matmul(M, N, K, rows):
    a, b, c = torch.randn(M, K), torch.randn(K, N), torch.empty(M, N)
    matmul(M, N, K, rows)(a, b, c)
    torch.testing.assert_close(c, a @ b)
