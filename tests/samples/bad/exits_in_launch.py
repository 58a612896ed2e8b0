"""It exits in the middle of a launch."""

import tilelang.cpu.language as T

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
            T.evaluate(T.call_extern("int32", "_exit", 3))

    return kernel
