"""It compiles when it is first called, and then cannot."""

import tilelang
import tilelang.cpu.language as T

PARENT = "iter000_torch_matmul"
CONFIG = dict(loops=3)


def build(problem):
    M, N, K = problem.dims

    def launch(*tensors):
        @T.prim_func
        def kernel(
            A: T.Tensor((M, K), "float32"),
            B: T.Tensor((K, N), "float32"),
            C: T.Tensor((M, N), "float32"),
        ):
            with T.Kernel(1):
                for i, j in T.grid(M, N):
                    C[i, j] = T.call_extern("float32", "no_such_function", A[i, 0])

        tilelang.compile(kernel, target="c")(*tensors)

    return launch
