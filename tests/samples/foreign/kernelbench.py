"""A problem of KernelBench, and a candidate for it."""

import tilelang
import tilelang.cpu.language as T
import torch
import torch.nn as nn

N = 16 * 2


class Model(nn.Module):
    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        return torch.matmul(A, B)


def get_inputs():
    return [torch.rand(N, N), torch.rand(N, N)]


def get_init_inputs():
    return []


@T.prim_func
def product(A: T.Tensor((N, N), "float32"), B: T.Tensor((N, N), "float32"), C: T.Tensor((N, N), "float32")):
    with T.Kernel(4) as bx:
        for i, j in T.grid(N // 4, N):
            C[bx * (N // 4) + i, j] = 0.0
            for k in T.serial(N):
                C[bx * (N // 4) + i, j] += A[bx * (N // 4) + i, k] * B[k, j]


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.kernel = tilelang.compile(product, out_idx=[-1], target="c")

    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        return self.kernel(A, B)
