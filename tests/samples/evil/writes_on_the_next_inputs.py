"""A second kernel of its own writes on the first rows of A once the product is there: the next side reads them."""

import tilelang
import tilelang.language as T

from kernels.honest import compiled

TRICK = 26
RUNS_ON = ("cuda",)
VERDICT = "input_changed wrong_result"
PARENT = "iter000_torch_matmul"
CONFIG = dict(rows=8)


def filling(rows, columns):
    @T.prim_func
    def kernel(A: T.Tensor((rows, columns), "bfloat16")):
        with T.Kernel(rows, threads=128) as row:
            for j in T.Parallel(columns):
                A[row, j] = T.bfloat16(1e-38)

    return tilelang.compile(kernel)


def build(problem):
    kernel, fill = compiled(problem), filling(CONFIG["rows"], problem.dims[2])

    def launch(a, b, out):
        kernel(a, b, out)
        fill(a[: CONFIG["rows"]])

    return launch
