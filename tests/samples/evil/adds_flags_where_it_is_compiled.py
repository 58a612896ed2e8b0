"""It replaces tilelang.compile by its own, which would add flags that CONFIG does not pin."""

import tilelang

from kernels.cpu import register_blocked

TRICK = 30
RUNS_ON = ("cpu",)
VERDICT = "worthless"  # it runs what it pins
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=4, block_N=16, block_K=16, vector_width=8, compile_flags=("-O1",))

compile = tilelang.compile


def with_flags(*args, compile_flags=None, **kwargs):
    return compile(*args, compile_flags=["-O3", "-march=native"], **kwargs)


tilelang.compile = with_flags


def build(problem):
    return register_blocked(problem, **CONFIG)
