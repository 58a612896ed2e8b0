"""It is right until it is timed, and then never returns."""

import tilelang
from kernels.cpu import scalar_gemm

PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16, block_N=16, block_K=16)


def build(problem):
    kernel = tilelang.compile(scalar_gemm(problem, **CONFIG).prim_func, target="c")
    calls = []

    def launch(a, b, out):
        calls.append(None)
        while len(calls) > 40:
            pass
        kernel(a, b, out)

    return launch
