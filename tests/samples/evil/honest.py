"""The honest kernel that the tricks start from, right and slow; a checkout has it as ``kernels.honest``."""

import tilelang
import tilelang.language as T
from tilelang import tvm


def program(problem):
    """The honest kernel of this problem's device, not compiled."""
    if problem.input == "float32":
        from kernels.cpu import register_blocked

        return register_blocked(problem, block_M=4, block_N=16, block_K=16, vector_width=8, compile_flags=("-O2",))
    from kernels.gemm import pipelined

    return pipelined(problem, block_M=128, block_N=128, block_K=64, num_stages=3, threads=128)


def compiled(problem):
    """The same as a callable: launch(a, b, out)."""
    made = program(problem)
    return tilelang.compile(
        made.prim_func,
        target=tvm.target.Target("c" if problem.input == "float32" else {"kind": "cuda", "arch": "sm_90a"}),
        pass_configs=dict(made.pass_configs) or None,
        compile_flags=list(made.compile_flags) or None,
    )


def filling(rows, columns, value):
    """A second kernel of a trick on a GPU: launch(tensor) fills bfloat16[rows, columns]."""
    @T.prim_func
    def kernel(C: T.Tensor((rows, columns), "bfloat16")):
        with T.Kernel(rows, threads=128) as row:
            for j in T.Parallel(columns):
                C[row, j] = T.bfloat16(value)

    return tilelang.compile(kernel)
