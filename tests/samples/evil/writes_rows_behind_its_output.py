"""A second kernel of its own writes eight rows behind the output, by a view that reaches further."""

import tilelang
import tilelang.language as T

from kernels.honest import compiled

TRICK = 24
RUNS_ON = ("cuda",)
VERDICT = "wrong_result input_changed runtime"
PARENT = "iter000_torch_matmul"
CONFIG = dict(rows=8)


def filling(rows, columns):
    @T.prim_func
    def kernel(C: T.Tensor((rows, columns), "bfloat16")):
        with T.Kernel(rows, threads=128) as row:
            for j in T.Parallel(columns):
                C[row, j] = T.bfloat16(1)

    return tilelang.compile(kernel)


def build(problem):
    kernel, fill = compiled(problem), filling(CONFIG["rows"], problem.dims[1])

    def launch(a, b, out):
        kernel(a, b, out)
        fill(out.as_strided((CONFIG["rows"], out.shape[1]), out.stride(), out.storage_offset() + out.numel()))

    return launch
