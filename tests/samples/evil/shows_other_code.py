"""It hands over the code of another kernel than the one that it launches."""

import tilelang

from kernels.honest import program

TRICK = 2
RUNS_ON = ("cpu", "cuda")
VERDICT = "worthless foreign_kernel"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    tilelang.JITKernel.get_kernel_source = lambda *_, **__: "int main() { return 0; }"
    return program(problem)
