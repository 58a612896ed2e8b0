"""Its compiler does not know its flag."""

from kernels.cpu import scalar_gemm

PARENT = "iter000_torch_matmul"
CONFIG = dict(loops=3)


def build(problem):
    return scalar_gemm(problem, block_M=16, block_N=16, block_K=16, compile_flags=("--no-such-flag",))
