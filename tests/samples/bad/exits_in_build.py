"""It exits while it is built, without output."""

import tilelang
import tilelang.cpu.language as T
import torch

PARENT = "iter000_torch_matmul"
CONFIG = dict(loops=3)


def build(problem):
    M, N, K = problem.dims

    @T.prim_func
    def kernel(
        A: T.Tensor((M, K), "float32"),
        B: T.Tensor((K, N), "float32"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(1):
            T.evaluate(T.call_extern("int32", "_exit", 0))

    compiled = tilelang.compile(kernel, target="c")
    compiled(*(torch.zeros(shape) for shape, _ in problem.tensors))
    return compiled
